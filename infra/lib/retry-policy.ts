import type { Duration } from 'aws-cdk-lib';
import { readFileSync } from 'node:fs';

import type { Backoff } from './backoff';
import type { OnGiveUp, Preset } from './choices';
import { RedeliverPropsError } from './props-error';

/** A retry policy: when a failed message comes back, and when it is given up (docs/policy.md). */
export class RetryPolicy {
  /** A policy from its members. */
  public static of(options: RetryPolicyOptions): RetryPolicy {
    return new RetryPolicy({ options });
  }

  /** A policy with the number of retries and the backoff of a preset; `maxAttempts` overrides the preset's. */
  public static preset(preset: Preset, options?: RetryRules): RetryPolicy {
    return new RetryPolicy({ options: { ...options, preset } });
  }

  /** A policy from a JSON file, as for `redeliver simulate --policy` and `redeliver local --policy`. */
  public static fromFile(path: string): RetryPolicy {
    try {
      return new RetryPolicy({ document: JSON.parse(readFileSync(path, 'utf8')) });
    } catch (error) {
      throw new RedeliverPropsError([`policy cannot be read from ${path}: ${(error as Error).message}; name a JSON file.`]);
    }
  }

  /** A policy from the content of such a file. */
  public static fromJson(document: { [member: string]: any }): RetryPolicy {
    return new RetryPolicy({ document });
  }

  /** @internal */
  public readonly _given: GivenPolicy;

  private constructor(given: GivenPolicy) {
    this._given = given;
  }
}

/** The members of a policy without its backoff. */
export interface RetryRules {
  /** Retries after the first processing, 0 to 1000. Default: 5, or the preset's. */
  readonly maxAttempts?: number;
  /** A message is given up if its next retry would come later than this after its first send. Default: no limit. */
  readonly maxAge?: Duration;
  /**
   * Delays may reach 12 hours; the message waits on the intermediate DLQ in hops of 900 s. Default: false, which limits
   * delays to 900 s.
   */
  readonly longDelays?: boolean;
  /** Further calls within the invocation when the target fails; they spend no attempt. Default: none. */
  readonly immediate?: Immediate;
  /**
   * Stops calls while the target is down, so that an outage spends no attempts. Default: `CircuitBreaker.of({})`, or
   * `CircuitBreaker.OFF` with `Strategy.VISIBILITY`.
   */
  readonly circuitBreaker?: CircuitBreaker;
  /**
   * The most times that a message comes back after SQS moved it because of a crash, a timeout or a throttle. These
   * spend no attempts. Default: 20.
   */
  readonly maxRedrives?: number;
  /**
   * The rest of a group, with strategy `ordered`, when one of its messages is given up. Default: `OnGiveUp.CONTINUE`.
   */
  readonly onGiveUp?: OnGiveUp;
  /** Globs (`*` and `?`) on the error type: only these are retried. Default: all are. */
  readonly retryable?: string[];
  /** Globs on the error type: these are never retried. Default: none. */
  readonly nonRetryable?: string[];
}

/** The members of a policy. */
export interface RetryPolicyOptions extends RetryRules {
  /** The delays before retries. Default: `Backoff.uniform()`, 0 s to 900 s each. */
  readonly backoff?: Backoff;
}

/** Immediate retries within the invocation. */
export interface Immediate {
  /** Calls after the first one, 1 to 10. */
  readonly maxAttempts: number;
  /** The time before each of them, at most 10 s. */
  readonly delay: Duration;
}

/** Holds messages while the target is down. */
export class CircuitBreaker {
  /** No circuit breaker: every message is tried, and an outage spends attempts. */
  public static readonly OFF = new CircuitBreaker(false);

  /** A circuit breaker with these settings. */
  public static of(options: CircuitBreakerOptions): CircuitBreaker {
    return new CircuitBreaker({ ...options });
  }

  /** @internal */
  public readonly _given: CircuitBreakerOptions | false;

  private constructor(given: CircuitBreakerOptions | false) {
    this._given = given;
  }
}

/** Settings of a circuit breaker. */
export interface CircuitBreakerOptions {
  /**
   * The messages that share a circuit, and are held together: `group` (the same `MessageGroupId`), `attribute:NAME`
   * (the same value of a message attribute; up to 256 letters, digits, `_`, `-` and `.`), or `target` (all). Default:
   * `group`.
   */
  readonly per?: string;
  /**
   * Globs on error types of your own that count as an outage, beside the built-in ones (docs/handlers.md). Default:
   * none.
   */
  readonly opensOn?: string[];
  /** The longest total time that a message is held, a minute to 14 days. Default: a day. */
  readonly holdMax?: Duration;
}

/** Members, or a document of `schemas/retry-policy.schema.json`. */
export type GivenPolicy = { readonly options: GivenRules } | { readonly document: unknown };

/** The members of either factory. */
export interface GivenRules extends RetryPolicyOptions {
  readonly preset?: Preset;
}
