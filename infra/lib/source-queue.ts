import { Duration, Stack, Token } from 'aws-cdk-lib';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct, IConstruct } from 'constructs';

import type { GivenSourceQueue } from './existing-queue';
import type { NormalizedProps } from './normalized-props';
import type { Place, Plan } from './plan';
import { allowProducers } from './producers';
import { allowRedriveFrom, commonQueueProps, FIFO_PROPS, MESSAGE_BYTES_MAX } from './queues';

/**
 * Returns the resource of an existing queue in this stack, whose attributes can be set in the template; otherwise
 * `undefined`.
 */
export function queueOfThisStack(existing: GivenSourceQueue | undefined, stack: Place): sqs.CfnQueue | undefined {
  const isOurs = existing instanceof sqs.Queue && Stack.of(existing) === stack;
  return isOurs ? (existing.node.defaultChild as sqs.CfnQueue) : undefined;
}

/** Returns the durations in the queue's template, except those that are only known at deployment. */
export function durationsInTemplate(queue: sqs.CfnQueue | undefined): { readonly visibilityTimeout?: Duration; readonly retention?: Duration } {
  const seconds = (value: number | undefined): Duration | undefined =>
    value === undefined || Token.isUnresolved(value) ? undefined : Duration.seconds(value);
  const [visibilityTimeout, retention] = [seconds(queue?.visibilityTimeout), seconds(queue?.messageRetentionPeriod)];
  return { ...(visibilityTimeout && { visibilityTimeout }), ...(retention && { retention }) };
}

/** Returns the key of an existing queue; `undefined` if the queue has no key, or none that the app knows. */
export function keyOf(existing: GivenSourceQueue | undefined): kms.IKey | undefined {
  return existing && ('queueUrl' in existing ? existing.encryptionMasterKey : existing.encryptionKey);
}

/** Lets only the source queue, which is created after its DLQ, move messages to that DLQ. */
export function allowSource(scope: Construct, { existingSourceQueue: existing }: NormalizedProps, { names }: Plan): sqs.RedriveAllowPolicy {
  if (!existing) {
    return allowRedriveFrom(scope, names.sourceQueue);
  }
  const ours = queueOfThisStack(existing, Stack.of(scope));
  if (!ours) {
    const source = sqs.Queue.fromQueueArn(scope, 'AllowedToRedrive', existing.queueArn);
    return { redrivePermission: sqs.RedrivePermission.BY_QUEUE, sourceQueues: [source] };
  }
  // The queue refers to its DLQ. If it has no physical name, the DLQ cannot refer to it without creating a cycle.
  return ours.queueName === undefined || Token.isUnresolved(ours.queueName)
    ? { redrivePermission: sqs.RedrivePermission.ALLOW_ALL }
    : allowRedriveFrom(scope, ours.queueName);
}

/**
 * Creates the source queue, or sets the attributes of an existing queue in this stack. SQS moves its messages to `dlq`.
 */
export function createSourceQueue(scope: Construct, props: NormalizedProps, plan: Plan, dlq: sqs.Queue): sqs.IQueue {
  const { existingSourceQueue: existing } = props;
  const ours = queueOfThisStack(existing, Stack.of(scope));
  if (ours) {
    setTemplateAttributes(ours, plan, dlq);
  }
  if (existing) {
    return queueOf(scope, existing);
  }
  const source = new sqs.Queue(scope, 'SourceQueue', {
    ...commonQueueProps(plan),
    ...(plan.isFifo && FIFO_PROPS),
    queueName: plan.names.sourceQueue,
    retentionPeriod: plan.sourceRetention,
    visibilityTimeout: plan.sourceVisibilityTimeout,
    deadLetterQueue: { queue: dlq, maxReceiveCount: plan.maxReceiveCount },
    // Dead letters of other queues would be processed as messages from producers.
    redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
  });
  allowProducers(scope, source, plan.encryptionKey, props.producers ?? []);
  return source;
}

/** Sets the attributes that a new source queue would have; those already in the template have been checked. */
function setTemplateAttributes(source: sqs.CfnQueue, plan: Plan, dlq: sqs.Queue): void {
  source.redrivePolicy = { deadLetterTargetArn: dlq.queueArn, maxReceiveCount: plan.maxReceiveCount };
  source.visibilityTimeout ??= plan.sourceVisibilityTimeout.toSeconds();
  source.messageRetentionPeriod ??= plan.sourceRetention.toSeconds();
  source.maximumMessageSize ??= MESSAGE_BYTES_MAX;
}

/** Returns the queue that the prop refers to. */
function queueOf(scope: Construct, existing: GivenSourceQueue): sqs.IQueue {
  if ('queueUrl' in existing) {
    return existing;
  }
  const { queueArn, encryptionKey } = existing;
  return sqs.Queue.fromQueueAttributes(scope, 'SourceQueue', { queueArn, ...(encryptionKey && { keyArn: encryptionKey.keyArn }) });
}

/** The source queue of each `Redeliver`. */
const SOURCES = new WeakMap<IConstruct, sqs.IQueue>();

/** Records the source queue of this construct. */
export function registerSource(orchestrator: IConstruct, source: sqs.IQueue): void {
  SOURCES.set(orchestrator, source);
}

/**
 * Returns the construct in the app that already uses the queue as its source queue. ARNs with tokens are only compared
 * in the same stack.
 */
export function ownerOf(existing: GivenSourceQueue, stack: Stack): IConstruct | undefined {
  const { queueArn } = existing;
  return stack.node.root.node.findAll().find((found) => {
    const source = SOURCES.get(found);
    const isSameArn = source?.queueArn === queueArn && (!Token.isUnresolved(queueArn) || Stack.of(found) === stack);
    return source !== undefined && (source === existing || isSameArn);
  });
}
