import { type Duration, Token } from 'aws-cdk-lib';
import * as sqs from 'aws-cdk-lib/aws-sqs';

import type { Place, Plan } from './plan.ts';
import type { ExistingSourceQueue, RedeliverProps } from './props.ts';
import { MESSAGE_BYTES_MAX } from './queues.ts';
import { ofThisStack, saidOf } from './source-queue.ts';

/** What is wrong with an existing source queue, as far as the synth can see it. */
export function existingQueueProblems(
  props: RedeliverProps,
  existing: ExistingSourceQueue,
  { names }: Plan,
  stack: Place,
): string[] {
  const { queueArn } = existing;
  const problems = existing instanceof sqs.Queue ? queueOfTheAppProblems(props, existing, stack) : [];
  if (!Token.isUnresolved(queueArn)) {
    const [, , , region = '', account = '', name = ''] = queueArn.split(':');
    const elsewhere = (known: string, there: string): boolean => !Token.isUnresolved(known) && known !== there;
    if (queueArn.endsWith('.fifo')) {
      problems.push(
        'existingSourceQueue.queueArn names a FIFO queue, which cannot delay single messages; use a standard queue.',
      );
    } else if (!/^arn:[^:]+:sqs:[^:]+:[^:]+:[\w-]{1,80}$/.test(queueArn)) {
      problems.push(
        `existingSourceQueue.queueArn is "${queueArn}"; give a queue's ARN: arn:aws:sqs:REGION:ACCOUNT:NAME.`,
      );
    } else if (elsewhere(stack.region, region) || elsewhere(stack.account, account)) {
      problems.push(
        `existingSourceQueue.queueArn names a queue of ${account} in ${region}, but the stack is of ${stack.account} in ` +
          `${stack.region}; a DLQ must be where its queue is.`,
      );
    } else if ([names.intermediateDlq, names.annotationQueue, names.finalDlq].includes(name)) {
      problems.push("existingSourceQueue.queueArn names one of redeliver's own inner queues; name the source queue.");
    }
  }
  return problems;
}

/** What its template says, and redeliver would have to change. */
function queueOfTheAppProblems(props: RedeliverProps, queue: sqs.Queue, stack: Place): string[] {
  const problems: string[] = [];
  const what = `existingSourceQueue (${queue.node.path})`;
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
