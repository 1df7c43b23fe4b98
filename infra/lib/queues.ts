import { ArnFormat, Duration, Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { CommonSettings } from './common-settings';
import { INNER_RETENTION, VISIBILITY_FACTOR } from './plan';

/** The queues of messages that were given up. */
export interface DeadLetterQueues {
  readonly annotation: sqs.Queue;
  readonly finalDlq: sqs.Queue;
}

/** The timeout of all functions except the message-processor. They only send to SQS or invoke asynchronously. */
export const INNER_TIMEOUT = Duration.seconds(30);

/**
 * The number of receives on an inner queue before SQS moves a message. 100 × 180 s is five hours, so a broken
 * deployment does not immediately dead-letter all messages.
 */
export const INNER_MAX_RECEIVE_COUNT = 100;
/**
 * The number of failed annotations before SQS moves a message to the final DLQ unannotated, in addition to the receives
 * that a moved message already has.
 */
const ANNOTATIONS = 10;
/** The SQS maximum. A re-sent message may be larger than the original. */
export const MESSAGE_BYTES_MAX = 1_048_576;

/** The queues from which SQS may move messages to a queue, and their `maxReceiveCount`. */
export interface RedriveSource {
  readonly allow: sqs.RedriveAllowPolicy;
  readonly maxReceiveCount: number;
}

/** Returns the settings for redrives from the inner queue with this name. */
export function redriveFromInnerQueue(scope: Construct, queueName: string): RedriveSource {
  return { allow: allowRedriveFrom(scope, queueName), maxReceiveCount: INNER_MAX_RECEIVE_COUNT };
}

/** Creates the annotation queue and the final DLQ. */
export function createDeadLetterQueues(
  scope: Construct,
  plan: CommonSettings,
  names: { readonly annotationQueue: string; readonly finalDlq: string },
  redrive: RedriveSource,
): DeadLetterQueues {
  const finalDlq = new sqs.Queue(scope, 'FinalDlq', {
    ...innerQueueProps(plan),
    queueName: names.finalDlq,
    redriveAllowPolicy: allowRedriveFrom(scope, names.annotationQueue),
  });
  const annotation = new sqs.Queue(scope, 'AnnotationQueue', {
    ...innerQueueProps(plan),
    queueName: names.annotationQueue,
    deadLetterQueue: { queue: finalDlq, maxReceiveCount: redrive.maxReceiveCount + ANNOTATIONS },
    redriveAllowPolicy: redrive.allow,
  });
  return { annotation, finalDlq };
}

/** Returns the props of every queue. */
export function commonQueueProps({ encryptionKey, removalPolicy }: CommonSettings): sqs.QueueProps {
  return {
    enforceSSL: true,
    maxMessageSizeBytes: MESSAGE_BYTES_MAX,
    removalPolicy,
    ...(encryptionKey
      ? { encryption: sqs.QueueEncryption.KMS, encryptionMasterKey: encryptionKey }
      : { encryption: sqs.QueueEncryption.SQS_MANAGED }),
  };
}

/**
 * The props of a FIFO queue with high throughput. Content-based deduplication is off, since it would drop a message
 * that is intentionally sent twice.
 */
export const FIFO_PROPS: sqs.QueueProps = {
  fifo: true,
  deduplicationScope: sqs.DeduplicationScope.MESSAGE_GROUP,
  fifoThroughputLimit: sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID,
};

/** Returns the props of a queue that only our functions read. */
export function innerQueueProps(plan: CommonSettings): sqs.QueueProps {
  return {
    ...commonQueueProps(plan),
    retentionPeriod: INNER_RETENTION,
    visibilityTimeout: Duration.seconds(VISIBILITY_FACTOR * INNER_TIMEOUT.toSeconds()),
  };
}

/** Denies SendMessage to all senders except these functions. */
export function denyOtherSenders(queue: sqs.Queue, senders: readonly lambda.IFunction[]): void {
  denyOtherRoles(queue, senders.map((sender) => sender.role?.roleArn));
}

/**
 * Denies SendMessage to all senders except these roles, since the `Failure` attribute of a sent message is trusted.
 * This does not affect SQS's own redrive, which is not a send.
 */
export function denyOtherRoles(queue: sqs.Queue, roleArns: readonly (string | undefined)[]): void {
  queue.addToResourcePolicy(
    new iam.PolicyStatement({
      sid: 'OnlyTheFunctionsSend',
      effect: iam.Effect.DENY,
      principals: [new iam.AnyPrincipal()],
      actions: ['sqs:SendMessage'],
      resources: [queue.queueArn],
      // Without allowed senders, the statement denies everyone.
      conditions: roleArns.length === 0 ? {} : { ArnNotEquals: { 'aws:PrincipalArn': roleArns } },
    }),
  );
}

/**
 * Allows redrive from one queue only, by name. A reference would create a cycle, since that queue refers to this one.
 */
export function allowRedriveFrom(scope: Construct, queueName: string): sqs.RedriveAllowPolicy {
  const queueArn = Stack.of(scope).formatArn({ service: 'sqs', resource: queueName, arnFormat: ArnFormat.NO_RESOURCE_NAME });
  return {
    redrivePermission: sqs.RedrivePermission.BY_QUEUE,
    sourceQueues: [sqs.Queue.fromQueueArn(scope, `AllowedToRedrive-${queueName}`, queueArn)],
  };
}
