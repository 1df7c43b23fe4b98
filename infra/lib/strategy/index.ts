import type { Strategy } from '../props';
import type { StrategyDefinition } from './definition';
import { delayedResend } from './delayed-resend';
import { directResend } from './direct-resend';
import { visibility } from './visibility';

/** Each strategy by its name. */
export const STRATEGIES: { readonly [S in Strategy]: StrategyDefinition } = {
  'delayed-resend': delayedResend,
  'direct-resend': directResend,
  visibility,
};
