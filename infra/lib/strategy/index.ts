import { Strategy } from '../choices';
import type { StrategyDefinition } from './definition';
import { delayedResend } from './delayed-resend';
import { directResend } from './direct-resend';
import { ordered } from './ordered';
import { visibility } from './visibility';

export const DEFAULT_STRATEGY = Strategy.DELAYED_RESEND;

/** The strategies by name. */
export const STRATEGIES: { readonly [S in Strategy]: StrategyDefinition } = {
  [Strategy.DELAYED_RESEND]: delayedResend,
  [Strategy.DIRECT_RESEND]: directResend,
  [Strategy.VISIBILITY]: visibility,
  [Strategy.ORDERED]: ordered,
};
