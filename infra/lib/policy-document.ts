import type { Duration } from 'aws-cdk-lib';

import type { GivenBackoff, Jitter } from './backoff';
import type { Backoff, CircuitBreaker, PolicyDocument } from './policy';
import type { CircuitBreakerOptions, RetryPolicy } from './retry-policy';

/** Returns the policy document that the functions read. */
export function documentOf({ _given }: RetryPolicy): PolicyDocument {
  if ('document' in _given) {
    return _given.document as PolicyDocument;
  }
  const { options: given } = _given;
  const { immediate, circuitBreaker, backoff } = given;
  return omitUndefined({
    preset: given.preset,
    max_attempts: given.maxAttempts,
    backoff: backoff && backoffOf(backoff._given),
    max_age_seconds: seconds(given.maxAge),
    long_delays: given.longDelays,
    immediate: immediate && { max_attempts: immediate.maxAttempts, delay_ms: immediate.delay.toMilliseconds() },
    circuit_breaker: circuitBreaker && breakerOf(circuitBreaker._given),
    max_redrives: given.maxRedrives,
    on_give_up: given.onGiveUp,
    retryable: given.retryable,
    non_retryable: given.nonRetryable,
  });
}

/**
 * Replaces the document's member names in a sentence with those of {@link RetryPolicy}: `policy/max_age_seconds`
 * becomes `policy.maxAge`.
 */
export function withPropNames(sentence: string): string {
  const paths = sentence.replace(/\bpolicy(?:\/\w+)+/g, (pointer) => pointer.replace(/\/(\d+)/g, '[$1]').replace(/\//g, '.'));
  return paths.replace(/\b[a-z]+(?:_[a-z]+)+\b/g, (member) => PROP_NAMES[member] ?? member);
}

/** Prop names by document member. Document members contain the unit in their name; props are `Duration`s. */
const PROP_NAMES: Readonly<Record<string, string>> = {
  max_attempts: 'maxAttempts',
  max_age_seconds: 'maxAge',
  long_delays: 'longDelays',
  delay_ms: 'delay',
  circuit_breaker: 'circuitBreaker',
  max_redrives: 'maxRedrives',
  on_give_up: 'onGiveUp',
  non_retryable: 'nonRetryable',
  initial_delay_seconds: 'initialDelay',
  offset_seconds: 'offset',
  max_delay_seconds: 'maxDelay',
  delay_seconds: 'delay',
  delays_seconds: 'delays',
  max_seconds: 'max',
  opens_on: 'opensOn',
  hold_seconds_max: 'holdMax',
};

function backoffOf(given: GivenBackoff): Backoff {
  switch (given.kind) {
    case 'uniform':
      return omitUndefined({ kind: given.kind, max_delay_seconds: seconds(given.maxDelay) });
    case 'exponential':
      return omitUndefined({
        kind: given.kind,
        initial_delay_seconds: seconds(given.initialDelay),
        rate: given.rate,
        offset_seconds: seconds(given.offset),
        max_delay_seconds: seconds(given.maxDelay),
        jitter: jitterOf(given.jitter),
      });
    case 'fixed':
      return omitUndefined({ kind: given.kind, delay_seconds: seconds(given.delay), jitter: jitterOf(given.jitter) });
    case 'schedule':
      return omitUndefined({ kind: given.kind, delays_seconds: given.delays.map(seconds), jitter: jitterOf(given.jitter) });
  }
}

function jitterOf(jitter: Jitter | undefined): unknown {
  const given = jitter?._given;
  return typeof given === 'object' ? { kind: given.kind, max_seconds: seconds(given.max) } : given;
}

function breakerOf(given: CircuitBreakerOptions | false): CircuitBreaker | false {
  return given && omitUndefined({
    per: given.per,
    opens_on: given.opensOn,
    hold_seconds_max: seconds(given.holdMax),
  });
}

/** Returns seconds, possibly with a fraction, which the schema rejects. */
function seconds(duration: Duration | undefined): number | undefined {
  return duration && duration.toMilliseconds() / 1000;
}

/** Removes undefined members. */
function omitUndefined(members: object): any {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}
