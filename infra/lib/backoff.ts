import type { Duration } from 'aws-cdk-lib';

/**
 * The jitter of a delay. It only shortens delays, except `additive`, which lengthens them; no delay exceeds the cap.
 */
export class Jitter {
  /** No jitter: the full delay. */
  public static readonly NONE = new Jitter('none');
  /** A random delay from half the delay to the full delay. */
  public static readonly HALF = new Jitter('half');
  /** A random delay from 0 to the full delay. */
  public static readonly FULL = new Jitter('full');

  /** Creates jitter that selects a random delay from the delay to the delay plus `max`, up to the cap. */
  public static additive(max: Duration): Jitter {
    return new Jitter({ kind: 'additive', max });
  }

  /** @internal */
  public readonly _given: GivenJitter;

  private constructor(given: GivenJitter) {
    this._given = given;
  }
}

/** The delays before retries: whole seconds, at most 900 s, or 12 hours with `longDelays`. */
export class Backoff {
  /** Creates a backoff with random delays from 0 to `maxDelay`. */
  public static uniform(options?: UniformOptions): Backoff {
    return new Backoff({ ...options, kind: 'uniform' });
  }

  /** Creates a backoff in which each delay is a multiple of the previous one. */
  public static exponential(options: ExponentialOptions): Backoff {
    return new Backoff({ ...options, kind: 'exponential' });
  }

  /** Creates a backoff with a fixed delay. */
  public static fixed(delay: Duration, options?: JitterOptions): Backoff {
    return new Backoff({ ...options, kind: 'fixed', delay });
  }

  /** Creates a backoff with these delays, in order; the last one repeats. */
  public static schedule(delays: Duration[], options?: JitterOptions): Backoff {
    return new Backoff({ ...options, kind: 'schedule', delays });
  }

  /** @internal */
  public readonly _given: GivenBackoff;

  private constructor(given: GivenBackoff) {
    this._given = given;
  }
}

/** Options of a uniform backoff. */
export interface UniformOptions {
  /** The longest delay. Default: 900 s. */
  readonly maxDelay?: Duration;
}

/** Options of a backoff with jitter. */
export interface JitterOptions {
  /** The jitter of each delay. Default: `Jitter.FULL`. */
  readonly jitter?: Jitter;
}

/** Options of an exponential backoff. */
export interface ExponentialOptions extends JitterOptions {
  /** The first delay. */
  readonly initialDelay: Duration;
  /** The factor between consecutive delays, 1 to 100. Default: 2. */
  readonly rate?: number;
  /** A constant that is added to every delay. Default: none. */
  readonly offset?: Duration;
  /** The longest delay. Default: 900 s. */
  readonly maxDelay?: Duration;
}

export type GivenJitter = 'none' | 'half' | 'full' | { readonly kind: 'additive'; readonly max: Duration };

/** A backoff by its kind. */
export type GivenBackoff =
  | ({ readonly kind: 'uniform' } & UniformOptions)
  | ({ readonly kind: 'exponential' } & ExponentialOptions)
  | ({ readonly kind: 'fixed'; readonly delay: Duration } & JitterOptions)
  | ({ readonly kind: 'schedule'; readonly delays: Duration[] } & JitterOptions);
