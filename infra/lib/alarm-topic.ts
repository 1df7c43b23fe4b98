import { Aspects, Stack, Token, TokenComparison } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as sns from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';

import type { CommonProps } from './props';

const ALARMS = new iam.ServicePrincipal('cloudwatch.amazonaws.com');

/** Returns reasons why alarms could not publish to a topic, one sentence each. */
export function topicProblems({ pageTopic, ticketTopic }: Pick<CommonProps, 'pageTopic' | 'ticketTopic'>, stack: Stack): string[] {
  return [...problemsOf('pageTopic', pageTopic, stack), ...problemsOf('ticketTopic', ticketTopic, stack)];
}

function problemsOf(prop: string, topic: sns.ITopic | undefined, stack: Stack): string[] {
  if (!topic) {
    return [];
  }
  const problems: string[] = [];
  // CloudWatch rejects such an alarm: "Invalid region us-east-1 specified. Only eu-west-1 is supported."
  if (Token.compareStrings(stack.region, topic.env.region) === TokenComparison.DIFFERENT) {
    problems.push(
      `${prop} is a topic of ${topic.env.region}, but the alarms are in ${stack.region}, and CloudWatch only notifies topics in its own region; ` +
        `use a topic in ${stack.region}.`,
    );
  }
  // See "Why didn't I receive an SNS notification for my CloudWatch alarm trigger?".
  if (topic.masterKey?.keyArn.endsWith('alias/aws/sns')) {
    problems.push(
      `${prop} is encrypted with AWS's own key (alias/aws/sns), which CloudWatch alarms cannot use and whose policy cannot ` +
        'be changed; encrypt it with a customer managed key.',
    );
  }
  return problems;
}

/**
 * Lets alarms publish to a topic and use its key. The policy of an imported topic or key, or a separate `TopicPolicy`,
 * is maintained by its owner.
 */
export function allowAlarms(scope: Construct, topic: sns.ITopic): void {
  const { account } = Stack.of(scope);
  const publish = new iam.PolicyStatement({
    principals: [ALARMS],
    actions: ['sns:Publish'],
    resources: [topic.topicArn],
    conditions: { StringEquals: { 'aws:SourceAccount': account } },
  });
  if (Token.compareStrings(account, Stack.of(topic).account) === TokenComparison.DIFFERENT) {
    topic.addToResourcePolicy(publish);
  } else {
    // SNS's default policy, which allows the entire account, including alarms, is replaced as soon as the topic gets a
    // policy of its own. The app may add a statement at any time, so an aspect checks the policy at synthesis.
    Aspects.of(topic).add({
      visit: (node) => {
        if (node === topic && node.node.tryFindChild('Policy')) {
          topic.addToResourcePolicy(publish);
        }
      },
    });
  }
  // Not restricted to this account: the topic's policy decides which principals can publish, and the key is useless
  // without permission to publish.
  topic.masterKey?.addToResourcePolicy(
    new iam.PolicyStatement({ principals: [ALARMS], actions: ['kms:Decrypt', 'kms:GenerateDataKey*'], resources: ['*'] }),
  );
}
