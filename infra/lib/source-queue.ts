import { Duration, Stack, Token } from 'aws-cdk-lib';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct, IConstruct } from 'constructs';

import type { GivenSourceQueue } from './existing-queue';
import type { Given } from './given';
import type { Place, Plan } from './plan';
import { allowOnly, anyQueue, MESSAGE_BYTES_MAX } from './queues';

/** The resource of an existing queue, if it is one of this very stack: its attributes can be set in its template. */
export function ofThisStack(existing: GivenSourceQueue | undefined, stack: Place): sqs.CfnQueue | undefined {
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

/** Lets the source queue, and no other, move messages into its DLQ, which is there before it. */
export function allowSource(scope: Construct, { existingSourceQueue: existing }: Given, { names }: Plan): sqs.RedriveAllowPolicy {
  if (!existing) {
    return allowOnly(scope, names.sourceQueue);
  }
  const ours = ofThisStack(existing, Stack.of(scope));
  if (!ours) {
    const source = sqs.Queue.fromQueueArn(scope, 'AllowedToRedrive', existing.queueArn);
    return { redrivePermission: sqs.RedrivePermission.BY_QUEUE, sourceQueues: [source] };
  }
  // It refers to its DLQ. If it has no name of its own, nothing can name it without a cycle.
  return ours.queueName === undefined || Token.isUnresolved(ours.queueName)
    ? { redrivePermission: sqs.RedrivePermission.ALLOW_ALL }
    : allowOnly(scope, ours.queueName);
}

/** Creates the source queue; of an existing one that is of this stack, it sets the attributes. SQS moves its messages to this DLQ. */
export function createSourceQueue(scope: Construct, props: Given, plan: Plan, dlq: sqs.Queue): sqs.IQueue {
  const { existingSourceQueue: existing, encryptionKey } = props;
  const ours = ofThisStack(existing, Stack.of(scope));
  if (ours) {
    setInTemplate(ours, plan, dlq);
  }
  if (existing) {
    return queueOf(scope, existing);
  }
  return new sqs.Queue(scope, 'SourceQueue', {
    ...anyQueue(plan, encryptionKey),
    queueName: plan.names.sourceQueue,
    retentionPeriod: plan.sourceRetention,
    visibilityTimeout: plan.sourceVisibilityTimeout,
    deadLetterQueue: { queue: dlq, maxReceiveCount: plan.maxReceiveCount },
    // Nobody's dead letters: they would be taken for messages of producers.
    redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
  });
}

/** What a new source queue would have; what the template says already was found to be right. */
function setInTemplate(source: sqs.CfnQueue, plan: Plan, dlq: sqs.Queue): void {
  source.redrivePolicy = { deadLetterTargetArn: dlq.queueArn, maxReceiveCount: plan.maxReceiveCount };
  source.visibilityTimeout ??= plan.sourceVisibilityTimeout.toSeconds();
  source.messageRetentionPeriod ??= plan.sourceRetention.toSeconds();
  source.maximumMessageSize ??= MESSAGE_BYTES_MAX;
}

/** The queue behind the prop. */
function queueOf(scope: Construct, existing: GivenSourceQueue): sqs.IQueue {
  if ('queueUrl' in existing) {
    return existing;
  }
  const { queueArn, encryptionKey } = existing;
  return sqs.Queue.fromQueueAttributes(scope, 'SourceQueue', { queueArn, ...(encryptionKey && { keyArn: encryptionKey.keyArn }) });
}

/** Constructs with their source queues. */
const TAKEN = new WeakMap<IConstruct, sqs.IQueue>();

/** Takes a queue for this construct alone. */
export function takeSource(orchestrator: IConstruct, source: sqs.IQueue): void {
  TAKEN.set(orchestrator, source);
}

/** The construct of the app whose source queue it is already. An ARN with tokens is the same one within a stack alone. */
export function takerOf(existing: GivenSourceQueue, stack: Stack): IConstruct | undefined {
  const { queueArn } = existing;
  return stack.node.root.node.findAll().find((found) => {
    const taken = TAKEN.get(found);
    const isSameArn = taken?.queueArn === queueArn && (!Token.isUnresolved(queueArn) || Stack.of(found) === stack);
    return taken !== undefined && (taken === existing || isSameArn);
  });
}
