import type { StrategyDefinition } from './definition';
import { delayedResend } from './delayed-resend';
import { directResend } from './direct-resend';
import { ordered } from './ordered';
import { visibility } from './visibility';

/** The way that failed messages come back. */
export enum Strategy {
  /** Another function re-sends the message with a delay. */
  DELAYED_RESEND = 'delayed-resend',
  /**
   * The message-processor re-sends the message itself. A retry takes half the requests and one invocation instead of
   * two. Choose it if the cost of retries matters and the message-processor, including your own handler, may send to
   * the source queue. Messages that SQS moved (a crash, a timeout), and retries more than 900 s away, still take the
   * intermediate DLQ.
   */
  DIRECT_RESEND = 'direct-resend',
  /**
   * The message stays on the source queue, hidden for the delay, without an intermediate DLQ and
   * failed-message-processor.
   */
  VISIBILITY = 'visibility',
  /**
   * The source queue is a FIFO queue. A failed message stays on it, hidden for the delay, and the rest of its message
   * group waits behind it, so the order within the group is kept. Producers send a `MessageGroupId` and a
   * `MessageDeduplicationId`. The queue has high throughput: both the deduplication and the quota of requests are per
   * message group.
   */
  ORDERED = 'ordered',
}

/** Strategies by name. */
export const STRATEGIES: { readonly [S in Strategy]: StrategyDefinition } = {
  [Strategy.DELAYED_RESEND]: delayedResend,
  [Strategy.DIRECT_RESEND]: directResend,
  [Strategy.VISIBILITY]: visibility,
  [Strategy.ORDERED]: ordered,
};
