/** Delays of {@link RetryPolicy}: applied after the cap, so it only shrinks. */
export type Jitter = 'none' | 'half' | 'full';

/** When the next retry comes. All delays are whole seconds, at most 900: what `DelaySeconds` of SQS can express. */
export type Backoff =
  | { readonly kind: 'uniform'; readonly max_delay_seconds?: number }
  | {
      readonly kind: 'exponential';
      readonly initial_delay_seconds: number;
      readonly rate?: number;
      readonly max_delay_seconds?: number;
      readonly jitter?: Jitter;
    }
  | { readonly kind: 'fixed'; readonly delay_seconds: number; readonly jitter?: Jitter }
  | { readonly kind: 'schedule'; readonly delays_seconds: readonly number[]; readonly jitter?: Jitter };

/**
 * The retry policy, as the functions and `redeliver local --policy` read it: `schemas/retry-policy.schema.json` says
 * what each member means and its default.
 */
export interface RetryPolicy {
  readonly max_attempts?: number;
  readonly backoff?: Backoff;
  readonly max_age_seconds?: number;
  readonly retryable?: readonly string[];
  readonly non_retryable?: readonly string[];
}

/** The longest that `DelaySeconds` can be ("Amazon SQS message quotas"). */
export const DELAY_SECONDS_MAX = 900;
const DEFAULT_ATTEMPTS = 5;

/** Retries that the policy allows. */
export function maxAttempts(policy: RetryPolicy): number {
  return policy.max_attempts ?? DEFAULT_ATTEMPTS;
}

/**
 * The longest that a message can be on its way by its delays alone, in seconds: every delay as long as its jitter lets
 * it be, cut at `max_age_seconds`.
 */
export function worstCaseDelaySeconds(policy: RetryPolicy): number {
  let span = 0;
  for (let attempt = 1; attempt <= maxAttempts(policy); attempt += 1) {
    span += longestDelaySeconds(policy.backoff ?? { kind: 'uniform' }, attempt);
  }
  return Math.min(span, policy.max_age_seconds ?? Infinity);
}

function longestDelaySeconds(backoff: Backoff, attempt: number): number {
  switch (backoff.kind) {
    case 'uniform':
      return backoff.max_delay_seconds ?? DELAY_SECONDS_MAX;
    case 'exponential': {
      const delay = backoff.initial_delay_seconds * (backoff.rate ?? 2) ** (attempt - 1);
      return Math.min(delay, backoff.max_delay_seconds ?? DELAY_SECONDS_MAX);
    }
    case 'fixed':
      return backoff.delay_seconds;
    case 'schedule':
      return backoff.delays_seconds[Math.min(attempt, backoff.delays_seconds.length) - 1] ?? 0;
  }
}
