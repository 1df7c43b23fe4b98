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

  /** A policy with a preset's number of retries and backoff. `maxAttempts` overrides the preset's. */
  public static preset(preset: Preset, options?: RetryRules): RetryPolicy {
    return new RetryPolicy({ options: { ...options, preset } });
  }

  /** A policy from a JSON file. The file is that of `redeliver simulate --policy` and `redeliver local --policy`. */
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
   * Delays may reach 12 hours, not only 900 s. The message waits on the intermediate DLQ in hops of 900 s. Default:
   * false.
   */
  readonly longDelays?: boolean;
  /** Further calls within the invocation when the target fails; they spend no attempt. Default: none. */
  readonly immediate?: Immediate;
  /**
   * Stops calls while the target is down. Default: `CircuitBreaker.of({})`, or `CircuitBreaker.OFF` with
   * `Strategy.VISIBILITY`.
   */
  readonly circuitBreaker?: CircuitBreaker;
  /**
   * The most returns of a message that SQS moved because of a crash, a timeout or a throttle. These spend no attempts.
   * Default: 20.
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
   * The messages that share a circuit: `group` (the same `MessageGroupId`), `attribute:NAME` (the same value of a
   * message attribute), or `target` (all). NAME has up to 256 letters, digits, `_`, `-` and `.`. Default: `group`.
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
