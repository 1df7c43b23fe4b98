import { ArnFormat, Duration, Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { type Plan, VISIBILITY_FACTOR } from './plan.ts';
import type { ExistingSourceQueue } from './props.ts';

/** The four queues of the loop. */
export interface Queues {
  readonly source: sqs.IQueue;
  readonly intermediateDlq: sqs.Queue;
  readonly annotation: sqs.Queue;
  readonly finalDlq: sqs.Queue;
}

/** The failed-message-processor's and the annotator's: they only send to SQS. */
export const INNER_TIMEOUT = Duration.seconds(30);

/** "A broken deployment must not dead-letter everything within the hour": 100 receives × 180 s are five hours. */
const INTERMEDIATE_MAX_RECEIVE_COUNT = 100;
/** A verdict that ten annotations could not handle goes to the final DLQ as it is. */
const ANNOTATION_MAX_RECEIVE_COUNT = 10;
/** What SQS allows at most; a re-send may be larger than the message was. */
const MESSAGE_BYTES_MAX = 1_048_576;

/** Creates the queues; the source queue only if there is none yet. */
export function createQueues(
  scope: Construct,
  plan: Plan,
  encryptionKey: kms.IKey | undefined,
  existing: ExistingSourceQueue | undefined,
): Queues {
  const { names } = plan;
  const common: sqs.QueueProps = {
    enforceSSL: true,
    maxMessageSizeBytes: MESSAGE_BYTES_MAX,
    removalPolicy: plan.removalPolicy,
    ...(encryptionKey
      ? { encryption: sqs.QueueEncryption.KMS, encryptionMasterKey: encryptionKey }
      : { encryption: sqs.QueueEncryption.SQS_MANAGED }),
  };
  const inner: sqs.QueueProps = {
    ...common,
    retentionPeriod: plan.innerRetention,
    visibilityTimeout: Duration.seconds(VISIBILITY_FACTOR * INNER_TIMEOUT.toSeconds()),
  };

  const finalDlq = new sqs.Queue(scope, 'FinalDlq', {
    ...inner,
    queueName: names.finalDlq,
    redriveAllowPolicy: allowOnly(scope, names.annotationQueue),
  });
  const annotation = new sqs.Queue(scope, 'AnnotationQueue', {
    ...inner,
    queueName: names.annotationQueue,
    deadLetterQueue: { queue: finalDlq, maxReceiveCount: ANNOTATION_MAX_RECEIVE_COUNT },
    redriveAllowPolicy: allowOnly(scope, names.intermediateDlq),
  });
  const intermediateDlq = new sqs.Queue(scope, 'IntermediateDlq', {
    ...inner,
    queueName: names.intermediateDlq,
    deadLetterQueue: { queue: annotation, maxReceiveCount: INTERMEDIATE_MAX_RECEIVE_COUNT },
    redriveAllowPolicy: existing
      ? { redrivePermission: sqs.RedrivePermission.BY_QUEUE, sourceQueues: [existingQueue(scope, existing)] }
      : allowOnly(scope, names.sourceQueue),
  });
  const source = existing
    ? existingQueue(scope, existing)
    : new sqs.Queue(scope, 'SourceQueue', {
        ...common,
        queueName: names.sourceQueue,
        retentionPeriod: plan.sourceRetention,
        visibilityTimeout: plan.sourceVisibilityTimeout,
        deadLetterQueue: {
          queue: intermediateDlq,
          // 1, against the usual advice of 5 or more: that advice protects messages that were never processed from a
          // DLQ that nobody reads. This DLQ is where the next retry is scheduled. More receives here would be
          // unscheduled retries, one visibility timeout apart; and because the event source mapping is limited by its
          // own maxConcurrency, throttled receives, which would spend a count of 1, are rare.
          maxReceiveCount: plan.maxReceiveCount,
        },
        // Nobody's dead letters: they would be taken for messages of producers.
        redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
      });
  return { source, intermediateDlq, annotation, finalDlq };
}

/**
 * Denies SendMessage to all but these roles: what comes in by a send carries a `Failure` that is believed.
 * SQS's own redrive is not a send by anybody, so no policy stops it.
 */
export function denyOtherSenders(queue: sqs.Queue, senders: readonly lambda.Function[]): void {
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

function existingQueue(scope: Construct, { queueArn, encryptionKey }: ExistingSourceQueue): sqs.IQueue {
  return (
    (scope.node.tryFindChild('SourceQueue') as sqs.IQueue | undefined) ??
    sqs.Queue.fromQueueAttributes(scope, 'SourceQueue', {
      queueArn,
      ...(encryptionKey && { keyArn: encryptionKey.keyArn }),
    })
  );
}

/** By a name and not by a reference: the other queue refers to this one, and that would be a cycle. */
function allowOnly(scope: Construct, queueName: string): sqs.RedriveAllowPolicy {
  const queueArn = Stack.of(scope).formatArn({ service: 'sqs', resource: queueName, arnFormat: ArnFormat.NO_RESOURCE_NAME });
  return {
    redrivePermission: sqs.RedrivePermission.BY_QUEUE,
    sourceQueues: [sqs.Queue.fromQueueArn(scope, `AllowedToRedrive-${queueName}`, queueArn)],
  };
}
