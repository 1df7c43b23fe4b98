/**
 * How a delay of a {@link Backoff} is spread. It only shrinks, except for the additive one, which gives way at the cap; none
 * passes it.
 */
export type Jitter = 'none' | 'half' | 'full' | AdditiveJitter;

/** From the delay to that and `max_seconds` more. */
export interface AdditiveJitter {
  readonly kind: 'additive';
  readonly max_seconds: number;
}

/** When the next retry comes. All delays are whole seconds, at most 900; with `long_delays` at most 43,200. */
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

/** `max_attempts` and `backoff` of a retry preset of AWS's durable execution SDKs. */
export type PresetName = keyof typeof PRESETS;

/** Further calls within the invocation when the target fails; they spend no attempt. */
export interface Immediate {
  /** Calls after the first one, 1 to 10. */
  readonly max_attempts: number;
  /** Milliseconds before each of them, 0 to 10,000. */
  readonly delay_ms: number;
}

/**
 * When calls stop because the target is down, how often it is probed, and for how long messages are held. In the words of
 * Resilience4j.
 */
export interface CircuitBreaker {
  /** It opens if this share of the last calls met an outage, 0.01 to 1 … */
  readonly failure_rate?: number;
  /** … of at least this many, 1 to 1000 … */
  readonly minimum_calls?: number;
  /** … in this time, at most an hour. */
  readonly window_seconds?: number;
  /** While it is open, one call in this time; twice as long after each that fails … */
  readonly probe_interval_seconds?: number;
  /** … up to this, at most 600. */
  readonly probe_interval_seconds_max?: number;
  /** Globs on the error type: what is an outage. */
  readonly opens_on?: readonly string[];
  /** A message is held for so long in all, a minute to 14 days. */
  readonly hold_seconds_max?: number;
}

/**
 * The retry policy, as the functions and `redeliver local --policy` read it: `schemas/retry-policy.schema.json` says
 * what each member means and its default.
 */
export interface PolicyDocument {
  readonly preset?: PresetName;
  readonly max_attempts?: number;
  readonly backoff?: Backoff;
  readonly max_age_seconds?: number;
  readonly long_delays?: boolean;
  readonly max_redelivery_per_second?: number;
  readonly immediate?: Immediate;
  readonly circuit_breaker?: CircuitBreaker | false;
  readonly max_redrives?: number;
  readonly retryable?: readonly string[];
  readonly non_retryable?: readonly string[];
}

/** The longest that `DelaySeconds` can be ("Amazon SQS message quotas"). */
export const DELAY_SECONDS_MAX = 900;
/** The longest that SQS hides a message, and the longest delay that is reached in hops. */
export const LONG_DELAY_SECONDS_MAX = 43_200;
const DEFAULT_ATTEMPTS = 5;
const DEFAULT_REDRIVES = 20;
/** The policy's `circuit_breaker`, as far as delays follow from it. */
const DEFAULT_BREAKER = { probe_interval_seconds_max: 120, hold_seconds_max: 86_400 };
/** Of the 900 s in which a held message is back after its target, so much is for receives, calls and sends. */
const HOLD_SLACK_SECONDS = 30;
/** The shortest hold, `hold` in the functions. */
const HOLD_SECONDS_MIN = 15;
/** The first delay of a message that SQS moved; each further one is twice as long, up to {@link DELAY_SECONDS_MAX}. */
const FIRST_REDRIVE_SECONDS = 5;

/** As the functions have them: schemas/vectors/policies.json is read by the tests of both. */
const PRESETS = {
  durable_default: preset(5, 5, 60),
  durable_none: preset(0, 5, 60),
  durable_transient: preset(2, 5, 300),
  durable_resource_availability: preset(4, 5, 300),
  durable_critical: preset(9, 1, 60, 1.5),
};

/** Retries that the policy allows. */
export function maxAttempts({ preset, max_attempts }: PolicyDocument): number {
  // A preset that there is not is reported elsewhere.
  return max_attempts ?? (preset === undefined ? undefined : PRESETS[preset]?.max_attempts) ?? DEFAULT_ATTEMPTS;
}

/** The longest delay before a retry, in seconds; 0 where there is no retry. */
export function longestDelaySeconds(policy: PolicyDocument): number {
  return Math.max(0, ...longestDelays(policy, maxAttempts(policy)));
}

/**
 * The longest that a message can be on its way by its delays before so many retries (all of them, unless said
 * otherwise), in seconds: every delay as long as its jitter lets it be, cut at `max_age_seconds`.
 */
export function worstCaseDelaySeconds(policy: PolicyDocument, retries = maxAttempts(policy)): number {
  const span = longestDelays(policy, Math.min(retries, maxAttempts(policy))).reduce((sum, delay) => sum + delay, 0);
  return Math.min(span, policy.max_age_seconds ?? Infinity);
}

/** {@link worstCaseDelaySeconds}, with a call that takes so long before each retry and after the last one. */
export function worstCaseSpanSeconds(policy: PolicyDocument, callSeconds: number): number {
  const calls = (maxAttempts(policy) + 1) * callSeconds;
  return Math.min(worstCaseDelaySeconds(policy) + calls, policy.max_age_seconds ?? Infinity);
}

/** The longest delay of a held message: it is done within 900 s of its target's return, one probe interval included. */
export function longestHoldSeconds({ circuit_breaker: breaker }: PolicyDocument): number {
  const { probe_interval_seconds_max } = { ...DEFAULT_BREAKER, ...(breaker || {}) };
  return DELAY_SECONDS_MAX - HOLD_SLACK_SECONDS - probe_interval_seconds_max;
}

/**
 * How much longer a message's way becomes, at worst, if its target is down: for as long as it may be held, and the end
 * of the last delay, which is never longer than what is left of that, or at least as long as the shortest hold.
 */
export function worstCaseHoldSeconds(policy: PolicyDocument, callSeconds: number): number {
  if (policy.circuit_breaker === false) {
    return 0;
  }
  const { hold_seconds_max: max } = { ...DEFAULT_BREAKER, ...policy.circuit_breaker };
  const longest = longestHoldSeconds(policy);
  // The first one may be of any length. Each waits for an invocation, in which it is not called at last.
  const holds = Math.ceil(max / longest) + 1;
  // A hold that is paced waits as long as one `DelaySeconds` can be.
  const last = policy.max_redelivery_per_second === undefined ? HOLD_SECONDS_MIN : DELAY_SECONDS_MAX;
  return max + last + holds * callSeconds;
}

/**
 * How much longer it becomes, at worst, if our own function is broken: a message that nobody answered for is moved by SQS
 * after so long, and comes back after a delay, as often as the policy says.
 */
export function worstCaseRedriveSeconds(
  { max_redrives: redrives = DEFAULT_REDRIVES, max_redelivery_per_second: rate }: PolicyDocument,
  unansweredSeconds: number,
): number {
  const own = (count: number): number => Math.min(FIRST_REDRIVE_SECONDS * 2 ** (count - 1), DELAY_SECONDS_MAX);
  const delays = Array.from({ length: redrives }, (_, index) => (rate === undefined ? own(index + 1) : DELAY_SECONDS_MAX));
  return delays.reduce((sum, delay) => sum + delay, redrives * unansweredSeconds);
}

/** What counts here of a preset: its jitter only shrinks, so it makes no delay longer. */
function preset(
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

/** Where many messages wait, a re-send that is paced waits as long as one `DelaySeconds` can be. */
function longestDelayBefore(policy: PolicyDocument, attempt: number): number {
  const own = ownDelayBefore(policy, attempt);
  return policy.max_redelivery_per_second === undefined ? own : Math.max(own, DELAY_SECONDS_MAX);
}

function ownDelayBefore({ preset, backoff: given, long_delays }: PolicyDocument, attempt: number): number {
  const backoff = given ?? (preset === undefined ? { kind: 'uniform' as const } : PRESETS[preset].backoff);
  const limit = long_delays ? LONG_DELAY_SECONDS_MAX : DELAY_SECONDS_MAX;
  switch (backoff.kind) {
    case 'uniform':
      return backoff.max_delay_seconds ?? DELAY_SECONDS_MAX;
    case 'exponential': {
      const cap = backoff.max_delay_seconds ?? DELAY_SECONDS_MAX;
      let base = backoff.initial_delay_seconds;
      // As the functions do it, to the bit: a power may differ from repeated multiplication.
      for (let n = 1; n < attempt && base < cap; n += 1) {
        base *= backoff.rate ?? 2;
      }
      const delay = Math.min(Math.ceil(base + (backoff.offset_seconds ?? 0)), cap);
      return spread(delay, cap, backoff.jitter);
    }
    case 'fixed':
      return spread(backoff.delay_seconds, limit, backoff.jitter);
    case 'schedule': {
      const delay = backoff.delays_seconds[Math.min(attempt, backoff.delays_seconds.length) - 1] ?? 0;
      return spread(delay, limit, backoff.jitter);
    }
  }
}

/** The cap holds for the sum: near it the delay gives way, not the spread. */
function spread(delay: number, cap: number, jitter: Jitter | undefined): number {
  return typeof jitter === 'object' ? Math.min(delay, Math.max(cap - jitter.max_seconds, 0)) + jitter.max_seconds : delay;
}
