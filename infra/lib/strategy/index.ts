import type { StrategyDefinition } from './definition';
import { delayedResend } from './delayed-resend';
import { directResend } from './direct-resend';
import { visibility } from './visibility';

/** What becomes of a message that failed. */
export enum Strategy {
  /** It is handed off to a function that sends it again with a delay. */
  DELAYED_RESEND = 'delayed-resend',
  /**
   * The message-processor sends it again itself. A retry costs half the requests, and one invocation instead of two; all else is
   * the same. Choose it if retries cost you something, and if the message-processor may have the right to send to the source
   * queue: a handler of your own has it, too, then. What SQS moved (a crash, a timeout), and a retry that is more than 900 s
   * away, still goes by the intermediate DLQ.
   */
  DIRECT_RESEND = 'direct-resend',
  /** It stays on the source queue, hidden for the delay; there is no intermediate DLQ and no failed-message-processor. */
  VISIBILITY = 'visibility',
}

/** Each strategy by its name. */
export const STRATEGIES: { readonly [S in Strategy]: StrategyDefinition } = {
  [Strategy.DELAYED_RESEND]: delayedResend,
  [Strategy.DIRECT_RESEND]: directResend,
  [Strategy.VISIBILITY]: visibility,
};
