import type { GivenBackoff, GivenJitter } from './backoff';
import type { CircuitBreakerOptions, GivenPolicy, GivenRules, Immediate } from './retry-policy';
import { type Check, duration, flag, fromFactory, listOf, members, needed, number, object, type Shape, text } from './shape';

/** Checks the types of a policy; the schema checks the values. */
export const policy: Check = fromFactory(['RetryPolicy.of(…)', 'RetryPolicy.preset(…)', 'RetryPolicy.fromFile(…)'], (given: GivenPolicy, name) =>
  'document' in given ? object(given.document, name) : members(RULES, 'RetryPolicy')(given.options, name),
);

const jitter = fromFactory(['Jitter.NONE', 'Jitter.HALF', 'Jitter.FULL', 'Jitter.additive(…)'], (given: GivenJitter, name) =>
  typeof given === 'object' ? duration(given.max, `${name}.max`) : [],
);

/** The members of each kind of {@link Backoff}. */
const BACKOFFS = {
  uniform: { maxDelay: duration },
  exponential: { initialDelay: needed(duration), rate: number, offset: duration, maxDelay: duration, jitter },
  fixed: { delay: needed(duration), jitter },
  schedule: { delays: needed(listOf(duration, 'a list of Durations')), jitter },
} satisfies { [K in GivenBackoff['kind']]: Shape<Omit<Extract<GivenBackoff, { kind: K }>, 'kind'>> };

const backoff = fromFactory(['Backoff.uniform(…)', 'Backoff.exponential(…)', 'Backoff.fixed(…)', 'Backoff.schedule(…)'], ({ kind, ...rest }: GivenBackoff, name) =>
  members(BACKOFFS[kind], `Backoff.${kind}`)(rest, name),
);

const IMMEDIATE = { maxAttempts: needed(number), delay: needed(duration) } satisfies Shape<Immediate>;

const globs = listOf(text, 'a list of strings');

const BREAKER = {
  per: text,
  opensOn: globs,
  holdMax: duration,
} satisfies Shape<CircuitBreakerOptions>;

const RULES = {
  preset: text,
  maxAttempts: number,
  backoff,
  maxAge: duration,
  longDelays: flag,
  immediate: members(IMMEDIATE, 'immediate'),
  circuitBreaker: fromFactory(['CircuitBreaker.OFF', 'CircuitBreaker.of(…)'], (given: CircuitBreakerOptions | false, name) =>
    given === false ? [] : members(BREAKER, 'CircuitBreaker.of')(given, name),
  ),
  maxRedrives: number,
  onGiveUp: text,
  retryable: globs,
  nonRetryable: globs,
} satisfies Shape<GivenRules>;
