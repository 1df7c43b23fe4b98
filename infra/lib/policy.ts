/**
 * The jitter of a delay. It only shortens delays, except `additive`, which lengthens them; no delay exceeds the cap.
 */
export type Jitter = 'none' | 'half' | 'full' | AdditiveJitter;

/** Jitter that selects a random delay from the delay to the delay plus `max_seconds`. */
export interface AdditiveJitter {
  readonly kind: 'additive';
  readonly max_seconds: number;
}

/** The delays before retries: whole seconds, at most 900, or 43,200 with `long_delays`. */
export type Backoff =
  | { readonly kind: 'uniform'; readonly max_delay_seconds?: number }
  | {
      readonly kind: 'exponential';
      readonly initial_delay_seconds: number;
      readonly rate?: number;
      readonly offset_seconds?: number;
      readonly max_delay_seconds?: number;
      readonly jitter?: Jitter;
    }
  | { readonly kind: 'fixed'; readonly delay_seconds: number; readonly jitter?: Jitter }
  | { readonly kind: 'schedule'; readonly delays_seconds: readonly number[]; readonly jitter?: Jitter };

/** The name of a retry preset of AWS's durable execution SDKs, which sets `max_attempts` and `backoff`. */
export type PresetName = keyof typeof PRESETS;

/** Further calls in the same invocation when the target fails. They spend no attempts. */
export interface Immediate {
  /** The number of calls after the first one, 1 to 10. */
  readonly max_attempts: number;
  /** The delay before each of these calls in milliseconds, 0 to 10,000. */
  readonly delay_ms: number;
}

/** A circuit breaker: stops calls while the target is down, probes it, and holds messages. */
export interface CircuitBreaker {
  /** The messages that share a circuit: `group`, `attribute:NAME` or `target`. */
  readonly per?: string;
  /** Globs on your own error types that count as an outage, in addition to the built-in ones. */
  readonly opens_on?: readonly string[];
  /** The maximum total time for which a message is held, a minute to 14 days. */
  readonly hold_seconds_max?: number;
}

/**
 * The retry policy document that the functions and `redeliver local --policy` read. `schemas/retry-policy.schema.json`
 * documents each member and its default.
 */
export interface PolicyDocument {
  readonly preset?: PresetName;
  readonly max_attempts?: number;
  readonly backoff?: Backoff;
  readonly max_age_seconds?: number;
  readonly long_delays?: boolean;
  readonly immediate?: Immediate;
  readonly circuit_breaker?: CircuitBreaker | false;
  readonly max_redrives?: number;
  readonly on_give_up?: 'continue' | 'block';
  readonly retryable?: readonly string[];
  readonly non_retryable?: readonly string[];
}

/** The longest `DelaySeconds` ("Amazon SQS message quotas"). */
export const DELAY_SECONDS_MAX = 900;
/** The longest visibility timeout of SQS, and the longest delay in hops. */
export const LONG_DELAY_SECONDS_MAX = 43_200;

const DEFAULT_ATTEMPTS = 5;
const DEFAULT_REDRIVES = 20;
/** The default of `hold_seconds_max`. */
const DEFAULT_HOLD_SECONDS_MAX = 86_400;
/** The shortest hold late in an outage: 750 s with a jitter of 0.75 (crates/core/src/decide/breaker). */
const LONG_HOLD_SECONDS = 562.5;
/**
 * The number of earlier, shorter holds: the first takes a second, and each later one at least a quarter of the outage's
 * age.
 */
const SHORT_HOLDS = 35;
/** The shortest hold. */
const HOLD_SECONDS_MIN = 1;
/** The first delay of a message that SQS moved; it doubles with each redrive, up to {@link DELAY_SECONDS_MAX}. */
const FIRST_REDRIVE_SECONDS = 5;

/** The presets, which are the same as in the functions; schemas/vectors/policies.json tests both. */
const PRESETS = {
  durable_default: createPreset(5, 5, 60),
  durable_none: createPreset(0, 5, 60),
  durable_transient: createPreset(2, 5, 300),
  durable_resource_availability: createPreset(4, 5, 300),
  durable_critical: createPreset(9, 1, 60, 1.5),
};

/** Returns the policy with a strategy's defaults. A preset sets its own retries and backoff. */
export function withDefaultsOf(defaults: PolicyDocument, policy: PolicyDocument): PolicyDocument {
  // The schema reports an unknown preset.
  return { ...defaults, ...(policy.preset && PRESETS[policy.preset]), ...policy };
}

/** Returns the number of retries that the policy allows. */
export function maxAttempts({ preset, max_attempts }: PolicyDocument): number {
  // The schema reports an unknown preset.
  return max_attempts ?? (preset === undefined ? undefined : PRESETS[preset]?.max_attempts) ?? DEFAULT_ATTEMPTS;
}

/** Returns the longest delay before a retry in seconds, or 0 without retries. */
export function longestDelaySeconds(policy: PolicyDocument): number {
  return Math.max(0, ...longestDelays(policy, maxAttempts(policy)));
}

/**
 * Returns the longest sum of the delays before this many retries (all by default), in seconds, with maximum jitter,
 * limited by `max_age_seconds`.
 */
export function worstCaseDelaySeconds(policy: PolicyDocument, retries = maxAttempts(policy)): number {
  const span = longestDelays(policy, Math.min(retries, maxAttempts(policy))).reduce((sum, delay) => sum + delay, 0);
  return Math.min(span, policy.max_age_seconds ?? Infinity);
}

/** Returns {@link worstCaseDelaySeconds} plus a call of `callSeconds` before each retry and after the last delay. */
export function worstCaseSpanSeconds(policy: PolicyDocument, callSeconds: number): number {
  const calls = (maxAttempts(policy) + 1) * callSeconds;
  return Math.min(worstCaseDelaySeconds(policy) + calls, policy.max_age_seconds ?? Infinity);
}

/**
 * Returns the maximum time that an outage of the target adds, in seconds: the longest total hold, plus the
 * shortest hold, by which the last hold may exceed that limit, plus an invocation after each hold.
 */
export function worstCaseHoldSeconds({ circuit_breaker: breaker }: PolicyDocument, callSeconds: number): number {
  if (breaker === false) {
    return 0;
  }
  const max = breaker?.hold_seconds_max ?? DEFAULT_HOLD_SECONDS_MAX;
  // Each hold ends with an invocation.
  const holds = SHORT_HOLDS + Math.ceil(max / LONG_HOLD_SECONDS);
  return max + HOLD_SECONDS_MIN + holds * callSeconds;
}

/**
 * Returns the maximum time that failures of our own function add, in seconds: SQS moves an unanswered message after
 * `unansweredSeconds`, and it is re-sent after a delay, up to `max_redrives` times.
 */
export function worstCaseRedriveSeconds({ max_redrives: redrives = DEFAULT_REDRIVES }: PolicyDocument, unansweredSeconds: number): number {
  const delays = Array.from({ length: redrives }, (_, index) => Math.min(FIRST_REDRIVE_SECONDS * 2 ** index, DELAY_SECONDS_MAX));
  return delays.reduce((sum, delay) => sum + delay, redrives * unansweredSeconds);
}

/** Creates a preset without its jitter, which never lengthens a delay. */
function createPreset(
  max_attempts: number,
  initial_delay_seconds: number,
  max_delay_seconds: number,
  rate = 2,
): { readonly max_attempts: number; readonly backoff: Backoff } {
  return { max_attempts, backoff: { kind: 'exponential', initial_delay_seconds, rate, max_delay_seconds, jitter: 'none' } };
}

function longestDelays(policy: PolicyDocument, retries: number): number[] {
  return Array.from({ length: retries }, (_, index) => longestDelayBefore(policy, index + 1));
}

function longestDelayBefore({ preset, backoff: given, long_delays }: PolicyDocument, attempt: number): number {
  const backoff = given ?? (preset === undefined ? { kind: 'uniform' as const } : PRESETS[preset].backoff);
  const limit = long_delays ? LONG_DELAY_SECONDS_MAX : DELAY_SECONDS_MAX;
  switch (backoff.kind) {
    case 'uniform':
      return backoff.max_delay_seconds ?? DELAY_SECONDS_MAX;
    case 'exponential': {
      const cap = backoff.max_delay_seconds ?? DELAY_SECONDS_MAX;
      let base = backoff.initial_delay_seconds;
      // Repeated multiplication gives exactly the same result as in the functions; exponentiation might not.
      for (let n = 1; n < attempt && base < cap; n += 1) {
        base *= backoff.rate ?? 2;
      }
      const delay = Math.min(Math.ceil(base + (backoff.offset_seconds ?? 0)), cap);
      return longestWithJitter(delay, cap, backoff.jitter);
    }
    case 'fixed':
      return longestWithJitter(backoff.delay_seconds, limit, backoff.jitter);
    case 'schedule': {
      const delay = backoff.delays_seconds[Math.min(attempt, backoff.delays_seconds.length) - 1] ?? 0;
      return longestWithJitter(delay, limit, backoff.jitter);
    }
  }
}

/**
 * Returns the longest delay with its jitter. The cap limits the sum: near the cap, the delay shrinks, not the jitter.
 */
function longestWithJitter(delay: number, cap: number, jitter: Jitter | undefined): number {
  return typeof jitter === 'object' ? Math.min(delay, Math.max(cap - jitter.max_seconds, 0)) + jitter.max_seconds : delay;
}
