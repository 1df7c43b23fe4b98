import type { Strategy } from '../props.ts';
import type { StrategyDefinition } from './definition.ts';
import { delayedResend } from './delayed-resend.ts';
import { directResend } from './direct-resend.ts';
import { visibility } from './visibility.ts';

/** Each strategy by its name. */
export const STRATEGIES: { readonly [S in Strategy]: StrategyDefinition } = {
  'delayed-resend': delayedResend,
  'direct-resend': directResend,
  visibility,
};
