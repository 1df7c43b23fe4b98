import { Duration } from 'aws-cdk-lib';

import type { Strategy } from './choices';
import type { CommonSettings } from './common-settings';
import type { Names } from './names';
import type { PolicyDocument } from './policy';
import type { ProvisionedPollers } from './props';
import type { UserFunction } from './user-function';

/** The checked props of a `Redeliver` with every default filled in. */
export interface Plan extends CommonSettings {
  readonly names: Names;
  readonly strategy: Strategy;
  readonly policy: PolicyDocument;
  /** The policy with the strategy's defaults. */
  readonly fullPolicy: PolicyDocument;
  /** True if the source queue is a FIFO queue. */
  readonly isFifo: boolean;
  /** True if messages are held while the target is down. */
  readonly hasCircuitBreaker: boolean;
  /** The source queue's `maxReceiveCount`. */
  readonly maxReceiveCount: number;
  readonly sourceRetention: Duration;
  readonly sourceVisibilityTimeout: Duration;
  readonly batchSize: number;
  /** The time that Lambda waits for a batch to fill; messages in the batch already count as received. */
  readonly maxBatchingWindow: Duration;
  /** The user's function that replaces the message-processor. */
  readonly userFunction: UserFunction | undefined;
  readonly maxConcurrentCalls: number;
  /** The maximum number of concurrent invocations, limited by `maxConcurrency` or by pollers. */
  readonly maxConcurrency: number;
  /** Provisioned pollers, which replace `maxConcurrency`. */
  readonly pollers: Required<ProvisionedPollers> | undefined;
  readonly reservedConcurrency: number | undefined;
  /** The timeout of the message-processor or of the user's function. */
  readonly timeout: Duration;
  /** The timeout of one call; `undefined` for handlers and users' functions, which only have the function's timeout. */
  readonly targetTimeout: Duration | undefined;
}

/** The stack's account and region; tokens if unknown at synthesis. */
export interface Place {
  readonly account: string;
  readonly region: string;
}

/**
 * The visibility timeout must be at least six times the function's timeout plus the batching window ("Configuring a
 * queue to use with Lambda").
 */
export const VISIBILITY_FACTOR = 6;

/** Returns the longest time from the moment a message can be received until its call has ended. */
export function deliverySeconds({ maxBatchingWindow, timeout }: Plan): number {
  return maxBatchingWindow.toSeconds() + timeout.toSeconds();
}

/**
 * The share of the retention at which the alarm on a message's age fires, which leaves time to act before SQS deletes
 * the message.
 */
export const RETENTION_SHARE = 0.8;

/**
 * The retention of all queues except the source queue. It is longer than the source queue's, since a redriven message
 * keeps its age.
 */
export const INNER_RETENTION = Duration.days(14);
