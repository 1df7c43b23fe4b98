import { type Duration, Stack, Token, TokenComparison } from 'aws-cdk-lib';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import type { GivenSourceQueue } from './existing-queue';
import type { Given } from './given';
import type { Place, Plan } from './plan';
import { MESSAGE_BYTES_MAX } from './queues';
import { ofThisStack, saidOf, takerOf } from './source-queue';

/** What is wrong with an existing source queue, as far as the synth can see it. */
export function existingQueueProblems(
  props: Given,
  existing: GivenSourceQueue,
  { names }: Plan,
  stack: Stack,
): string[] {
  const { queueArn } = existing;
  const what = Construct.isConstruct(existing) ? `existingSourceQueue (${existing.node.path})` : 'existingSourceQueue.queueArn';
  const other = takerOf(existing, stack);
  if (other) {
    return [`${what} is the source queue of ${other.node.path} already; give each Redeliver a queue of its own.`];
  }
  if (!Token.isUnresolved(queueArn)) {
    if (queueArn.endsWith('.fifo')) {
      return ['existingSourceQueue.queueArn names a FIFO queue, which cannot delay single messages; use a standard queue.'];
    }
    if (!/^arn:[^:]+:sqs:[^:]+:[^:]+:[\w-]{1,80}$/.test(queueArn)) {
      return [`existingSourceQueue.queueArn is "${queueArn}"; give a queue's ARN: arn:aws:sqs:REGION:ACCOUNT:NAME.`];
    }
  }
  const { account, region, name } = whereaboutsOf(existing);
  const elsewhere = (known: string, there: string): boolean => Token.compareStrings(known, there) === TokenComparison.DIFFERENT;
  if (elsewhere(stack.region, region) || elsewhere(stack.account, account)) {
    return [`${what} is of ${account} in ${region}, but the stack is of ${stack.account} in ${stack.region}; a DLQ must be where its queue is.`];
  }
  if ([names.intermediateDlq, names.annotationQueue, names.finalDlq].some((inner) => inner === name)) {
    return [`${what} has the name ${name}, which one of redeliver's own inner queues is to have; change it, or prefix or stage.`];
  }
  return existing instanceof sqs.Queue ? queueOfTheAppProblems(props, existing, what, stack) : [];
}

/** Where a queue is and its name, as far as they are known. */
function whereaboutsOf(existing: GivenSourceQueue): Place & { readonly name: string | undefined } {
  if (existing instanceof sqs.Queue) {
    return { ...existing.env, name: (existing.node.defaultChild as sqs.CfnQueue).queueName };
  }
  const [, , , region = '', account = '', name] = existing.queueArn.split(':');
  return { region, account, name };
}

/** What its template says, and redeliver would have to change. */
function queueOfTheAppProblems(props: Given, queue: sqs.Queue, what: string, stack: Place): string[] {
  const problems: string[] = [];
  if (queue.fifo) {
    problems.push(`${what} is a FIFO queue, which cannot delay single messages; use a standard queue.`);
  }
  const template = ofThisStack(queue, stack);
  if (queue.deadLetterQueue || template?.redrivePolicy !== undefined) {
    problems.push(`${what} has a dead-letter queue already; remove it there: redeliver's takes its place, and what lies in the old one stays.`);
  }
  const size = template?.maximumMessageSize;
  if (size !== undefined && !Token.isUnresolved(size) && size !== MESSAGE_BYTES_MAX) {
    problems.push(`${what} has maxMessageSizeBytes ${size}; use ${MESSAGE_BYTES_MAX}, or remove it: a re-send may be larger than the message was.`);
  }
  const { visibilityTimeout, retention } = saidOf(template);
  const differ = (one: Duration | undefined, other: Duration | undefined): boolean =>
    one !== undefined && other !== undefined && one.toMilliseconds() !== other.toMilliseconds();
  if (differ(visibilityTimeout, props.sourceVisibilityTimeout)) {
    problems.push(`${what} has a visibilityTimeout of its own; remove sourceVisibilityTimeout.`);
  }
  if (differ(retention, props.sourceRetention)) {
    problems.push(`${what} has a retentionPeriod of its own; remove sourceRetention.`);
  }
  return problems;
}
