import type { Duration } from 'aws-cdk-lib';
import { readFileSync } from 'node:fs';

import type { Backoff } from './backoff';
import type { OnGiveUp, Preset } from './choices';
import { RedeliverPropsError } from './props-error';

/** A retry policy: when a failed message is retried, and when it is given up (docs/policy.md). */
export class RetryPolicy {
  /** Creates a policy from its members. */
  public static of(options: RetryPolicyOptions): RetryPolicy {
    return new RetryPolicy({ options });
  }

  /** Creates a policy with a preset's number of retries and backoff. `maxAttempts` overrides the preset's value. */
  public static preset(preset: Preset, options?: RetryRules): RetryPolicy {
    return new RetryPolicy({ options: { ...options, preset } });
  }

  /** Reads a policy from a JSON file, as `redeliver simulate --policy` and `redeliver local --policy` do. */
  public static fromFile(path: string): RetryPolicy {
    try {
      return new RetryPolicy({ document: JSON.parse(readFileSync(path, 'utf8')) });
    } catch (error) {
      throw new RedeliverPropsError([`policy cannot be read from ${path}: ${(error as Error).message}; name a JSON file.`]);
    }
  }

  /** Creates a policy from the content of such a file. */
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
  /** The number of retries after the first attempt, 0 to 1000. Default: 5, or the preset's value. */
  readonly maxAttempts?: number;
  /**
   * The maximum age of a message, since its first send. It is given up if its next retry would be later. Default: no
   * limit.
   */
  readonly maxAge?: Duration;
  /**
   * Allows delays of up to 12 hours instead of 900 s. The message waits on the intermediate DLQ in hops of 900 s.
   * Default: false.
   */
  readonly longDelays?: boolean;
  /** Further calls in the same invocation when the target fails. They spend no attempts. Default: none. */
  readonly immediate?: Immediate;
  /**
   * Stops calls while the target is down. Default: `CircuitBreaker.of({})`, or `CircuitBreaker.OFF` with
   * `Strategy.VISIBILITY`.
   */
  readonly circuitBreaker?: CircuitBreaker;
  /**
   * The maximum number of times that a message is re-sent after SQS moved it because of a crash, a timeout or a
   * throttle. These re-sends spend no attempts. Default: 20.
   */
  readonly maxRedrives?: number;
  /**
   * The handling of the rest of a group when one of its messages is given up, with strategy `ordered`. Default:
   * `OnGiveUp.CONTINUE`.
   */
  readonly onGiveUp?: OnGiveUp;
  /** Globs (`*` and `?`) on the error type: only matching errors are retried. Default: all errors are retried. */
  readonly retryable?: string[];
  /** Globs on the error type: matching errors are never retried. Default: none. */
  readonly nonRetryable?: string[];
}

/** The members of a policy. */
export interface RetryPolicyOptions extends RetryRules {
  /** The delays before retries. Default: `Backoff.uniform()`, 0 s to 900 s each. */
  readonly backoff?: Backoff;
}

/** Immediate retries in the same invocation. */
export interface Immediate {
  /** The number of calls after the first one, 1 to 10. */
  readonly maxAttempts: number;
  /** The delay before each of these calls, at most 10 s. */
  readonly delay: Duration;
}

/** A circuit breaker, which holds messages while the target is down. */
export class CircuitBreaker {
  /** No circuit breaker: the target is called for every message, and an outage spends attempts. */
  public static readonly OFF = new CircuitBreaker(false);

  /** Creates a circuit breaker with these settings. */
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
   * Globs on your own error types that count as an outage, in addition to the built-in ones (docs/handlers.md).
   * Default: none.
   */
  readonly opensOn?: string[];
  /** The maximum total time for which a message is held, a minute to 14 days. Default: a day. */
  readonly holdMax?: Duration;
}

/** The policy's members, or a document that conforms to `schemas/retry-policy.schema.json`. */
export type GivenPolicy = { readonly options: GivenRules } | { readonly document: unknown };

/** The members accepted by `of` and `preset`. */
export interface GivenRules extends RetryPolicyOptions {
  readonly preset?: Preset;
}
