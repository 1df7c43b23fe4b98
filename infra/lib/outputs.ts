import { CfnOutput, Stack } from 'aws-cdk-lib';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { RedeliverPropsError } from './props-error';

/** The queues whose URLs `redeliver --stack` reads. */
export interface Queues {
  readonly source: { readonly queue: sqs.IQueue; readonly description: string };
  readonly intermediateDlq: sqs.IQueue | undefined;
  readonly sourceDlq?: sqs.IQueue | undefined;
  readonly blockedQueue?: sqs.IQueue | undefined;
  readonly annotation: sqs.IQueue;
  readonly finalDlq: sqs.IQueue;
}

/**
 * Adds the queues' URLs to the stack's outputs, under the names that `redeliver --stack` expects
 * (crates/operator/src/queues/deployment.rs).
 *
 * @throws RedeliverPropsError if the stack already has these outputs.
 */
export function addQueueUrls(scope: Construct, { source, intermediateDlq, sourceDlq, blockedQueue, annotation, finalDlq }: Queues): void {
  const stack = Stack.of(scope);
  const other = stack.node.findAll().find((found) => found instanceof CfnOutput && stack.resolve(found.logicalId) === 'SourceQueueUrl');
  if (other) {
    throw new RedeliverPropsError([
      `addOutputs of ${scope.node.path}: the stack already has the output SourceQueueUrl (${other.node.path}); call it once per stack, and find the ` +
        'other queues with --prefix and --stage.',
    ]);
  }
  const add = (name: string, queue: sqs.IQueue, description: string): void => {
    new CfnOutput(scope, name, { value: queue.queueUrl, description }).overrideLogicalId(name);
  };
  add('SourceQueueUrl', source.queue, source.description);
  if (intermediateDlq) {
    add('IntermediateDlqUrl', intermediateDlq, 'Failed, until their retry is scheduled.');
  }
  if (sourceDlq) {
    add('SourceDlqUrl', sourceDlq, 'Moved by SQS, until annotated.');
  }
  if (blockedQueue) {
    add('BlockedQueueUrl', blockedQueue, 'Groups that are blocked until a decision.');
  }
  add('AnnotationQueueUrl', annotation, 'Given up, until annotated.');
  add('FinalDlqUrl', finalDlq, 'Given up, with the reason. Read it.');
}

/**
 * Adds the ARN of each function's role to the stack's outputs, for use in policies of keys, buckets and endpoints
 * elsewhere.
 */
export function addRoleArns(scope: Construct, functions: Readonly<Record<string, lambda.IFunction | undefined>>): void {
  for (const [name, { role }] of Object.entries(functions).flatMap(([name, made]) => (made ? [[name, made] as const] : []))) {
    if (role) {
      new CfnOutput(scope, `${name}RoleArn`, { value: role.roleArn, description: 'The role of this function.' }).overrideLogicalId(`${name}RoleArn`);
    }
  }
}
