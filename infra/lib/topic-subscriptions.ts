import { Stack, Token } from 'aws-cdk-lib';
import * as sns from 'aws-cdk-lib/aws-sns';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { isSameQueue, targetOf } from './event-sources';

/** Rejects subscriptions of a FIFO source queue to a standard topic, regardless of when the app creates them. */
export function watchSubscriptions(scope: Construct, source: sqs.IQueue): void {
  scope.node.addValidation({ validate: () => subscriptionProblems(Stack.of(scope), source) });
}

function subscriptionProblems(stack: Stack, { queueArn }: sqs.IQueue): string[] {
  return stack.node.root.node.findAll().flatMap((found) => {
    if (!(found instanceof sns.CfnSubscription) || found.protocol !== sns.SubscriptionProtocol.SQS || !isSameQueue(stack, found.endpoint ?? '', queueArn)) {
      return [];
    }
    const { topicArn } = found;
    const topic = targetOf(topicArn);
    const isFifo = topic instanceof sns.CfnTopic ? topic.fifoTopic === true : isFifoTopic(topicArn);
    const named = topic instanceof sns.CfnTopic ? topic.node.scope?.node.path : topicArn;
    return isFifo
      ? []
      : [
          `${found.node.scope?.node.path} subscribes the source queue to the standard topic ${named}, but a standard topic cannot deliver to a FIFO queue; ` +
            'make it a FIFO topic, or use another strategy.',
        ];
  });
}

/** Returns true for the ARN of a FIFO topic, or for an ARN that is only known at deployment. */
export function isFifoTopic(topicArn: string): boolean {
  return Token.isUnresolved(topicArn) || topicArn.endsWith('.fifo');
}
