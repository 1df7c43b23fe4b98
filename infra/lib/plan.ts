import { Duration } from 'aws-cdk-lib';

import type { Commons } from './commons';
import type { Names } from './names';
import type { PolicyDocument } from './policy';
import type { ProvisionedPollers } from './props';
import type { Strategy } from './strategy/index';
import type { UserFunction } from './user-function';

/** What is to be deployed: the props with every default filled in, found to be sound. */
export interface Plan extends Commons {
  readonly names: Names;
  readonly strategy: Strategy;
  readonly policy: PolicyDocument;
  /** Whether messages are held while the target is down. */
  readonly hasCircuitBreaker: boolean;
  /** Of the source queue. */
  readonly maxReceiveCount: number;
  readonly sourceRetention: Duration;
  readonly sourceVisibilityTimeout: Duration;
  readonly batchSize: number;
  /** For how long Lambda waits for a batch to fill; the messages that are in it already are received. */
  readonly maxBatchingWindow: Duration;
  /** In the message-processor's place. */
  readonly userFunction: UserFunction | undefined;
  readonly maxConcurrentCalls: number;
  /** Invocations at the same time, whatever limits them. */
  readonly maxConcurrency: number;
  /** In its place. */
  readonly pollers: Required<ProvisionedPollers> | undefined;
  readonly reservedConcurrency: number | undefined;
  /** The message-processor's, or that of the function in its place. */
  readonly timeout: Duration;
  /** Of one call; a handler or a function of your own has none but the function's. */
  readonly targetTimeout: Duration | undefined;
}

/** Where the stack goes; tokens where nobody knows yet. */
export interface Place {
  readonly account: string;
  readonly region: string;
}

/** "Configuring a queue to use with Lambda": the visibility timeout is at least six times the function's, and the batching window. */
export const VISIBILITY_FACTOR = 6;

/** How long a message that can be received takes at worst, until its call is over. */
export function deliverySeconds({ maxBatchingWindow, timeout }: Plan): number {
  return maxBatchingWindow.toSeconds() + timeout.toSeconds();
}

/** When a message's age is an alarm, as a share of the retention: time enough to act before SQS deletes it. */
export const RETENTION_SHARE = 0.8;

/** Of all queues but the source queue. A redriven message keeps its first clock, so it is longer than the source's. */
export const INNER_RETENTION = Duration.days(14);
