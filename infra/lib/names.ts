import type { Stack } from 'aws-cdk-lib';
import * as sqs from 'aws-cdk-lib/aws-sqs';

/** Fixed names: queues allow each other by name, since references to each other would be a cycle. */
export interface Names {
  readonly prefix: string;
  readonly sourceQueue: string;
  readonly intermediateDlq: string;
  readonly annotationQueue: string;
  readonly finalDlq: string;
  readonly messageProcessor: string;
  readonly failedMessageProcessor: string;
  readonly finalDlqAnnotator: string;
}

/** The names of one deployment. */
export function namesOf(prefix = 'redeliver', stage = 'prod'): Names {
  const common = `${prefix}-${stage}`;
  return {
    prefix: common,
    sourceQueue: `${common}-source`,
    intermediateDlq: `${common}-intermediate-dlq`,
    annotationQueue: `${common}-annotation`,
    finalDlq: `${common}-final-dlq`,
    messageProcessor: `${common}-message-processor`,
    failedMessageProcessor: `${common}-failed-message-processor`,
    finalDlqAnnotator: `${common}-final-dlq-annotator`,
  };
}

/** Of the retries of asynchronous invocations. */
export interface AsyncNames {
  readonly prefix: string;
  readonly retryQueue: string;
  readonly annotationQueue: string;
  readonly finalDlq: string;
  readonly asyncRetryHandler: string;
  readonly finalDlqAnnotator: string;
}

/** The names of one deployment of {@link AsyncNames}; the default prefix is not that of {@link namesOf}, which some are of. */
export function asyncNamesOf(prefix = 'redeliver-async', stage = 'prod'): AsyncNames {
  const { prefix: common, annotationQueue, finalDlq, finalDlqAnnotator } = namesOf(prefix, stage);
  return {
    prefix: common,
    retryQueue: `${common}-retry`,
    annotationQueue,
    finalDlq,
    asyncRetryHandler: `${common}-async-retry-handler`,
    finalDlqAnnotator,
  };
}

/** The names must do for queues, stacks and functions, which are the shortest: 64 characters ("CreateFunction"). */
export function nameProblems({ prefix }: Pick<Names, 'prefix'>): string[] {
  const room = 64 - '-failed-message-processor'.length;
  if (/^[A-Za-z][A-Za-z0-9-]*$/.test(prefix) && prefix.length <= room) {
    return [];
  }
  return [
    `prefix and stage make the name "${prefix}", which must start with a letter and be at most ${room} letters, digits ` +
      'and hyphens; shorten or change them.',
  ];
}

/** Two constructs with one name would fail at the deployment; each has a final DLQ. The given queue is looked at elsewhere. */
export function takenProblems({ prefix, finalDlq }: Pick<Names, 'prefix' | 'finalDlq'>, stack: Stack, given?: sqs.CfnQueue): string[] {
  const queues = stack.node.findAll().filter((found) => found instanceof sqs.CfnQueue && found !== given);
  const taken = queues.some((queue) => (queue as sqs.CfnQueue).queueName === finalDlq);
  return taken
    ? [`prefix and stage make the name "${prefix}", which another construct of this stack has; change one of them.`]
    : [];
}
