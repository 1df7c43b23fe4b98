import type { Duration } from 'aws-cdk-lib';
import { readFileSync } from 'node:fs';

import type { Backoff } from './backoff';
import type { Preset } from './choices';
import { RedeliverPropsError } from './props-error';

/** When a failed message comes back, and when it is given up. docs/policy.md says what each member means. */
export class RetryPolicy {
  /** A policy by its members. */
  public static of(options: RetryPolicyOptions): RetryPolicy {
    return new RetryPolicy({ options });
  }

  /** The number of retries and the backoff of a preset. `maxAttempts` beside it counts. */
  public static preset(preset: Preset, options?: RetryRules): RetryPolicy {
    return new RetryPolicy({ options: { ...options, preset } });
  }

  /** The policy in a JSON file: the one that `redeliver simulate --policy` and `redeliver local --policy` read. */
  public static fromFile(path: string): RetryPolicy {
    try {
      return new RetryPolicy({ document: JSON.parse(readFileSync(path, 'utf8')) });
    } catch (error) {
      throw new RedeliverPropsError([`policy cannot be read from ${path}: ${(error as Error).message}; name a JSON file.`]);
    }
  }

  /** What such a file has in it. */
  public static fromJson(document: { [member: string]: any }): RetryPolicy {
    return new RetryPolicy({ document });
  }

  /** @internal */
  public readonly _given: GivenPolicy;

  private constructor(given: GivenPolicy) {
    this._given = given;
  }
}

/** What a policy can say in addition to its backoff. */
export interface RetryRules {
  /** Retries after the first processing, 0 to 1000. Default: 5, or the preset's. */
  readonly maxAttempts?: number;
  /** A message is given up if its next retry would come later than this after its first send. Default: no limit. */
  readonly maxAge?: Duration;
  /**
   * Delays may reach 12 hours: the message waits on the intermediate DLQ in hops of 900 s. Default: false, so that no delay is longer
   * than 900 s.
   */
  readonly longDelays?: boolean;
  /** About so many messages come back to the source queue in a second, at most. Default: no limit. */
  readonly maxRedeliveryPerSecond?: number;
  /** Further calls within the invocation when the target fails; they spend no attempt. Default: none. */
  readonly immediate?: Immediate;
  /**
   * When calls stop because the target is down, so that an outage costs no attempts. Default: `CircuitBreaker.of({})`; with
   * `Strategy.VISIBILITY` `CircuitBreaker.OFF`.
   */
  readonly circuitBreaker?: CircuitBreaker;
  /**
   * How often a message comes back that SQS moved because nobody answered for it: a crash, a timeout, a throttle. These are no
   * attempts. Default: 20.
   */
  readonly maxRedrives?: number;
  /** Globs (`*` and `?`) on the error type: these are retried, all others are not. Default: all are. */
  readonly retryable?: string[];
  /** Globs on the error type: these are never retried. Default: none. */
  readonly nonRetryable?: string[];
}

/** All that a policy can say. */
export interface RetryPolicyOptions extends RetryRules {
  /** When the next retry comes. Default: `Backoff.uniform()`, each after 0 s to 900 s. */
  readonly backoff?: Backoff;
}

/** Calls within the invocation. */
export interface Immediate {
  /** Calls after the first one, 1 to 10. */
  readonly maxAttempts: number;
  /** The time before each of them, at most 10 s. */
  readonly delay: Duration;
}

/** Holds messages while the target is down. */
export class CircuitBreaker {
  /** Every message is called, and an outage costs attempts. */
  public static readonly OFF = new CircuitBreaker(false);

  /** When it opens, how the target is probed, and for how long messages are held. In the words of Resilience4j. */
  public static of(options: CircuitBreakerOptions): CircuitBreaker {
    return new CircuitBreaker({ ...options });
  }

  /** @internal */
  public readonly _given: CircuitBreakerOptions | false;

  private constructor(given: CircuitBreakerOptions | false) {
    this._given = given;
  }
}

/** Of a circuit breaker. */
export interface CircuitBreakerOptions {
  /** It opens if at least this share of the calls within `window` met an outage, 0.01 to 1. Default: 0.8. */
  readonly failureRate?: number;
  /** It does not open before so many calls within `window`, 1 to 1000. Default: 10. */
  readonly minimumCalls?: number;
  /** The time before now whose calls count, at most an hour. Default: 30 s. */
  readonly window?: Duration;
  /** While it is open, the target is called once in this time, which doubles after each such call that fails. Default: 15 s. */
  readonly probeInterval?: Duration;
  /** The longest that `probeInterval` grows to, at most 600 s. Default: 120 s. */
  readonly probeIntervalMax?: Duration;
  /**
   * Globs on the error type: what is an outage. Default: `Http.*`, `HttpStatus.429`, `HttpStatus.5*`, `Lambda.*`,
   * `Sandbox.Timedout`, `Timeout`.
   */
  readonly opensOn?: string[];
  /** A message is held for so long in all, a minute to 14 days. Default: a day. */
  readonly holdMax?: Duration;
}

/** Members, or a document of `schemas/retry-policy.schema.json`. */
export type GivenPolicy = { readonly options: GivenRules } | { readonly document: unknown };

/** The members of either factory. */
export interface GivenRules extends RetryPolicyOptions {
  readonly preset?: Preset;
}
