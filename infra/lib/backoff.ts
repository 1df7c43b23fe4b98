import type { Duration } from 'aws-cdk-lib';

/** How a delay is spread. It only shrinks, except for the additive one, which gives way at the cap; none passes it. */
export class Jitter {
  /** All of the delay. */
  public static readonly NONE = new Jitter('none');
  /** From half of the delay to all of it. */
  public static readonly HALF = new Jitter('half');
  /** From 0 to the delay. */
  public static readonly FULL = new Jitter('full');

  /** From the delay to the delay plus `max`. */
  public static additive(max: Duration): Jitter {
    return new Jitter({ kind: 'additive', max });
  }

  /** @internal */
  public readonly _given: GivenJitter;

  private constructor(given: GivenJitter) {
    this._given = given;
  }
}

/** When the next retry comes. All delays are whole seconds, at most 900 s; with `longDelays` at most 12 hours. */
export class Backoff {
  /** Anything from 0 to the longest delay. */
  public static uniform(options?: UniformOptions): Backoff {
    return new Backoff({ ...options, kind: 'uniform' });
  }

  /** Each delay is a multiple of the one before. */
  public static exponential(options: ExponentialOptions): Backoff {
    return new Backoff({ ...options, kind: 'exponential' });
  }

  /** Always the same delay. */
  public static fixed(delay: Duration, options?: JitterOptions): Backoff {
    return new Backoff({ ...options, kind: 'fixed', delay });
  }

  /** These delays, one after the other; the last one again and again. */
  public static schedule(delays: Duration[], options?: JitterOptions): Backoff {
    return new Backoff({ ...options, kind: 'schedule', delays });
  }

  /** @internal */
  public readonly _given: GivenBackoff;

  private constructor(given: GivenBackoff) {
    this._given = given;
  }
}

/** Of a backoff that is drawn from a range. */
export interface UniformOptions {
  /** The longest delay. Default: 900 s. */
  readonly maxDelay?: Duration;
}

/** Of a backoff whose delays are spread. */
export interface JitterOptions {
  /** How each delay is spread. Default: `Jitter.FULL`. */
  readonly jitter?: Jitter;
}

/** Of a backoff whose delays grow. */
export interface ExponentialOptions extends JitterOptions {
  /** The first delay. */
  readonly initialDelay: Duration;
  /** Each further one is so many times as long, 1 to 100. Default: 2. */
  readonly rate?: number;
  /** What is added to each of them. Default: none. */
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
