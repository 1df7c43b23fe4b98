import { ArnFormat, Duration, Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { Commons } from './commons';
import { INNER_RETENTION, VISIBILITY_FACTOR } from './plan';

/** Where messages go that were given up. */
export interface DeadLetterQueues {
  readonly annotation: sqs.Queue;
  readonly finalDlq: sqs.Queue;
}

/** Of all functions but the message-processor: they only send to SQS, or invoke without waiting. */
export const INNER_TIMEOUT = Duration.seconds(30);

/** "A broken deployment must not dead-letter everything within the hour": 100 receives × 180 s are five hours. */
export const INNER_MAX_RECEIVE_COUNT = 100;
/** A message that ten annotations could not handle goes to the final DLQ as it is. One that SQS moved brings its receives along. */
const ANNOTATIONS = 10;
/** What SQS allows at most; a re-send may be larger than the message was. */
export const MESSAGE_BYTES_MAX = 1_048_576;

/** Who may move messages into a queue, and after how many receives. */
export interface Feeders {
  readonly allow: sqs.RedriveAllowPolicy;
  readonly maxReceiveCount: number;
}

/** A queue of this name that only functions of ours read. */
export function innerDlq(scope: Construct, queueName: string): Feeders {
  return { allow: allowOnly(scope, queueName), maxReceiveCount: INNER_MAX_RECEIVE_COUNT };
}

/** Creates the annotation queue, into which these queues may move messages, and the final DLQ. */
export function createDeadLetterQueues(
  scope: Construct,
  plan: Commons,
  names: { readonly annotationQueue: string; readonly finalDlq: string },
  encryptionKey: kms.IKey | undefined,
  feeders: Feeders,
): DeadLetterQueues {
  const finalDlq = new sqs.Queue(scope, 'FinalDlq', {
    ...innerQueue(plan, encryptionKey),
    queueName: names.finalDlq,
    redriveAllowPolicy: allowOnly(scope, names.annotationQueue),
  });
  const annotation = new sqs.Queue(scope, 'AnnotationQueue', {
    ...innerQueue(plan, encryptionKey),
    queueName: names.annotationQueue,
    deadLetterQueue: { queue: finalDlq, maxReceiveCount: feeders.maxReceiveCount + ANNOTATIONS },
    redriveAllowPolicy: feeders.allow,
  });
  return { annotation, finalDlq };
}

/** What all queues have in common. */
export function anyQueue(plan: Commons, encryptionKey: kms.IKey | undefined): sqs.QueueProps {
  return {
    enforceSSL: true,
    maxMessageSizeBytes: MESSAGE_BYTES_MAX,
    removalPolicy: plan.removalPolicy,
    ...(encryptionKey
      ? { encryption: sqs.QueueEncryption.KMS, encryptionMasterKey: encryptionKey }
      : { encryption: sqs.QueueEncryption.SQS_MANAGED }),
  };
}

/** A queue that only functions of ours read. */
export function innerQueue(plan: Commons, encryptionKey: kms.IKey | undefined): sqs.QueueProps {
  return {
    ...anyQueue(plan, encryptionKey),
    retentionPeriod: INNER_RETENTION,
    visibilityTimeout: Duration.seconds(VISIBILITY_FACTOR * INNER_TIMEOUT.toSeconds()),
  };
}

/**
 * Denies SendMessage to all but these roles: what comes in by a send carries a `Failure` that is believed.
 * SQS's own redrive is not a send by anybody, so no policy stops it.
 */
export function denyOtherSenders(queue: sqs.Queue, senders: readonly lambda.IFunction[]): void {
  queue.addToResourcePolicy(
    new iam.PolicyStatement({
      sid: 'OnlyTheFunctionsSend',
      effect: iam.Effect.DENY,
      principals: [new iam.AnyPrincipal()],
      actions: ['sqs:SendMessage'],
      resources: [queue.queueArn],
      conditions: { ArnNotEquals: { 'aws:PrincipalArn': senders.map((sender) => sender.role?.roleArn) } },
    }),
  );
}

/** By a name and not by a reference: the other queue refers to this one, and that would be a cycle. */
export function allowOnly(scope: Construct, queueName: string): sqs.RedriveAllowPolicy {
  const queueArn = Stack.of(scope).formatArn({ service: 'sqs', resource: queueName, arnFormat: ArnFormat.NO_RESOURCE_NAME });
  return {
    redrivePermission: sqs.RedrivePermission.BY_QUEUE,
    sourceQueues: [sqs.Queue.fromQueueArn(scope, `AllowedToRedrive-${queueName}`, queueArn)],
  };
}
