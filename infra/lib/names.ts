import { Stack, Stage, Token } from 'aws-cdk-lib';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { IConstruct } from 'constructs';

/**
 * The names of a `Redeliver`'s resources. They are fixed, since queues that refer to each other would create a cycle.
 */
export interface Names {
  readonly prefix: string;
  readonly sourceQueue: string;
  /** The DLQ of a FIFO source queue. It must also be a FIFO queue. */
  readonly sourceDlq: string;
  /** Notices about blocked groups. */
  readonly blockedQueue: string;
  readonly intermediateDlq: string;
  readonly annotationQueue: string;
  readonly finalDlq: string;
  readonly messageProcessor: string;
  readonly failedMessageProcessor: string;
  readonly finalDlqAnnotator: string;
}

/** Returns the names of one deployment. The name of a FIFO queue must end with `.fifo`. */
export function namesOf(prefix = 'redeliver', stage = 'prod', isFifo = false): Names {
  const common = `${prefix}-${stage}`;
  return {
    prefix: common,
    sourceQueue: `${common}-source${isFifo ? '.fifo' : ''}`,
    sourceDlq: `${common}-source-dlq.fifo`,
    blockedQueue: `${common}-blocked`,
    intermediateDlq: `${common}-intermediate-dlq`,
    annotationQueue: `${common}-annotation`,
    finalDlq: `${common}-final-dlq`,
    messageProcessor: `${common}-message-processor`,
    failedMessageProcessor: `${common}-failed-message-processor`,
    finalDlqAnnotator: `${common}-final-dlq-annotator`,
  };
}

/** Returns the names of all queues except the source queue, for any strategy. */
export function innerQueueNames(names: Names): readonly string[] {
  return [names.intermediateDlq, names.sourceDlq, names.blockedQueue, names.annotationQueue, names.finalDlq];
}

/** The names of an `AsyncRetry`'s resources. */
export interface AsyncNames {
  readonly prefix: string;
  readonly retryQueue: string;
  readonly annotationQueue: string;
  readonly finalDlq: string;
  readonly asyncRetryHandler: string;
  readonly finalDlqAnnotator: string;
}

/**
 * Returns the names of one deployment of an `AsyncRetry`. Some are the same as in {@link namesOf}, so the default
 * prefix differs.
 */
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

/**
 * Checks the names of queues, stacks and functions. Functions have the lowest limit, 64 characters ("CreateFunction").
 */
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

/**
 * Finds another construct in the app whose final DLQ has the same name in the same account and region, since the
 * deployment would fail. The queue `existing` is checked elsewhere.
 */
export function duplicateNameProblems(
  { prefix, finalDlq }: Pick<Names, 'prefix' | 'finalDlq'>,
  scope: IConstruct,
  existing?: sqs.CfnQueue,
): string[] {
  const queues = scope.node.root.node.findAll().filter((found): found is sqs.CfnQueue => found instanceof sqs.CfnQueue && found !== existing);
  const duplicate = queues.find((queue) => queue.queueName === finalDlq && isSamePlace(Stack.of(queue), Stack.of(scope)));
  const owner = duplicate?.node.scope?.node.scope;
  return owner
    ? [`prefix and stage make the name "${prefix}" for ${scope.node.path}, which ${owner.node.path} uses in the same account and region; change one of them.`]
    : [];
}

/**
 * Compares the accounts and regions of two stacks. Without an environment, stacks of the same stage are deployed to the
 * same account and region; stacks of different stages may not be.
 */
function isSamePlace(one: Stack, other: Stack): boolean {
  const isKnown = !Token.isUnresolved(one.account) && !Token.isUnresolved(one.region);
  return one.account === other.account && one.region === other.region && (isKnown || Stage.of(one) === Stage.of(other));
}
