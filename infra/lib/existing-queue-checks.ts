import { Annotations, type Duration, Stack, Token, TokenComparison } from 'aws-cdk-lib';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import type { GivenSourceQueue } from './existing-queue';
import { innerQueueNames } from './names';
import type { NormalizedProps } from './normalized-props';
import type { Place, Plan } from './plan';
import { MESSAGE_BYTES_MAX } from './queues';
import { durationsInTemplate, ownerOf, queueOfThisStack } from './source-queue';

/** Returns problems with an existing source queue that are visible at synthesis. */
export function existingQueueProblems(
  props: NormalizedProps,
  existing: GivenSourceQueue,
  { names, isFifo }: Plan,
  stack: Stack,
): string[] {
  const { queueArn } = existing;
  const label = Construct.isConstruct(existing) ? `existingSourceQueue (${existing.node.path})` : 'existingSourceQueue.queueArn';
  const other = ownerOf(existing, stack);
  if (other) {
    return [`${label} is already the source queue of ${other.node.path}; give each Redeliver its own queue.`];
  }
  if (!Token.isUnresolved(queueArn)) {
    if (!/^arn:[^:]+:sqs:[^:]+:[^:]+:[\w-]{1,80}(\.fifo)?$/.test(queueArn)) {
      return [`existingSourceQueue.queueArn is "${queueArn}"; give a queue's ARN: arn:aws:sqs:REGION:ACCOUNT:NAME.`];
    }
    const problems = kindProblems('existingSourceQueue.queueArn names', queueArn.endsWith('.fifo'), isFifo);
    if (problems.length > 0) {
      return problems;
    }
  }
  const { account, region, name } = locationOf(existing);
  const elsewhere = (known: string, there: string): boolean => Token.compareStrings(known, there) === TokenComparison.DIFFERENT;
  if (elsewhere(stack.region, region) || elsewhere(stack.account, account)) {
    return [`${label} is in ${account}, ${region}, but the stack is in ${stack.account}, ${stack.region}; a DLQ must be in the account and region of its queue.`];
  }
  if (innerQueueNames(names).some((inner) => inner === name)) {
    return [`${label} is named ${name}, which is the name of one of redeliver's own queues; change it, or change prefix or stage.`];
  }
  return existing instanceof sqs.Queue ? appQueueProblems(props, existing, label, isFifo, stack) : [];
}

/** Warns about a FIFO queue of the app without high throughput. This is not visible for a queue given by its ARN. */
export function warnOfThroughput(scope: Construct, existing: GivenSourceQueue | undefined): void {
  if (!(existing instanceof sqs.Queue) || !existing.fifo) {
    return;
  }
  const { deduplicationScope, fifoThroughputLimit } = existing.node.defaultChild as sqs.CfnQueue;
  const [byGroup, perGroup]: string[] = [sqs.DeduplicationScope.MESSAGE_GROUP, sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID];
  if (deduplicationScope !== byGroup || fifoThroughputLimit !== perGroup) {
    Annotations.of(scope).addWarningV2(
      '@redeliver/cdk:noHighThroughput',
      `existingSourceQueue (${existing.node.path}) is a FIFO queue without high throughput, so SQS accepts 300 requests a second for each action, those of the retries ` +
        'included: set deduplicationScope to MESSAGE_GROUP and fifoThroughputLimit to PER_MESSAGE_GROUP_ID, or acknowledge this.',
    );
  }
}

/** Returns the problem if the strategy does not support the queue's type. */
function kindProblems(label: string, isFifo: boolean, needsFifo: boolean): string[] {
  if (isFifo === needsFifo) {
    return [];
  }
  return isFifo
    ? [`${label} a FIFO queue, which cannot delay individual messages; use a standard queue, or strategy ordered.`]
    : [`${label} a standard queue, which keeps no order; use a FIFO queue with strategy ordered, or another strategy.`];
}

/** Returns a queue's account, region and name, as far as known. */
function locationOf(existing: GivenSourceQueue): Place & { readonly name: string | undefined } {
  if (existing instanceof sqs.Queue) {
    return { ...existing.env, name: (existing.node.defaultChild as sqs.CfnQueue).queueName };
  }
  const [, , , region = '', account = '', name] = existing.queueArn.split(':');
  return { region, account, name };
}

/** Returns problems with settings in the queue's template that redeliver does not support. */
function appQueueProblems(props: NormalizedProps, queue: sqs.Queue, label: string, needsFifo: boolean, stack: Place): string[] {
  const problems = kindProblems(`${label} is`, queue.fifo, needsFifo);
  const template = queueOfThisStack(queue, stack);
  if (queue.deadLetterQueue || template?.redrivePolicy !== undefined) {
    problems.push(`${label} already has a dead-letter queue; remove it there: redeliver's replaces it, and messages in the old one stay there.`);
  }
  const size = template?.maximumMessageSize;
  if (size !== undefined && !Token.isUnresolved(size) && size !== MESSAGE_BYTES_MAX) {
    problems.push(`${label} has maxMessageSizeBytes ${size}; use ${MESSAGE_BYTES_MAX}, or remove it: a re-sent message may be larger than the original.`);
  }
  const { visibilityTimeout, retention } = durationsInTemplate(template);
  const differ = (one: Duration | undefined, other: Duration | undefined): boolean =>
    one !== undefined && other !== undefined && one.toMilliseconds() !== other.toMilliseconds();
  if (differ(visibilityTimeout, props.sourceVisibilityTimeout)) {
    problems.push(`${label} has its own visibilityTimeout; remove sourceVisibilityTimeout.`);
  }
  if (differ(retention, props.sourceRetention)) {
    problems.push(`${label} has its own retentionPeriod; remove sourceRetention.`);
  }
  return problems;
}
