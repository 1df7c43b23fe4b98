import { Duration, Stack, Token } from 'aws-cdk-lib';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { Place } from './plan.ts';
import type { ExistingSourceQueue } from './props.ts';

/** The resource of an existing queue, if it is one of this very stack: its attributes can be set in its template. */
export function ofThisStack(existing: ExistingSourceQueue | undefined, stack: Place): sqs.CfnQueue | undefined {
  const isOurs = existing instanceof sqs.Queue && Stack.of(existing) === stack;
  return isOurs ? (existing.node.defaultChild as sqs.CfnQueue) : undefined;
}

/** What the template of such a queue says of it; a number that nobody knows yet is left alone. */
export function saidOf(queue: sqs.CfnQueue | undefined): { readonly visibilityTimeout?: Duration; readonly retention?: Duration } {
  const seconds = (value: number | undefined): Duration | undefined =>
    value === undefined || Token.isUnresolved(value) ? undefined : Duration.seconds(value);
  const [visibilityTimeout, retention] = [seconds(queue?.visibilityTimeout), seconds(queue?.messageRetentionPeriod)];
  return { ...(visibilityTimeout && { visibilityTimeout }), ...(retention && { retention }) };
}

/** The queue behind the prop. */
export function queueOf(scope: Construct, existing: ExistingSourceQueue): sqs.IQueue {
  if ('queueUrl' in existing) {
    return existing;
  }
  const { queueArn, encryptionKey } = existing;
  return sqs.Queue.fromQueueAttributes(scope, 'SourceQueue', { queueArn, ...(encryptionKey && { keyArn: encryptionKey.keyArn }) });
}
