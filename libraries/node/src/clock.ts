// The one door to the time.

export interface Clock {
  /** Milliseconds since 1970. */
  now(): number;
  /** Ends after so many milliseconds, or when the signal says so. */
  sleep(milliseconds: number, until: AbortSignal): Promise<void>;
}

/** The longest time that a timer of Node.js takes. */
const TIMER_MAX = 2 ** 31 - 1;

export const SYSTEM_CLOCK: Clock = {
  now: () => Date.now(),
  sleep: (milliseconds, until) =>
    new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        until.removeEventListener('abort', done);
        resolve();
      };
      const timer = setTimeout(done, Math.min(Math.max(0, milliseconds), TIMER_MAX));
      until.addEventListener('abort', done);
      if (until.aborted) {
        done();
      }
    }),
};

/** When to end so that `reserve` is left before the deadline, but never more than half of what remains. */
export function keepFree(reserve: number, now: number, deadline: number): number {
  return deadline - Math.min(reserve, Math.max(0, deadline - now) / 2);
}

/** Something to wait for that comes again and again. */
export class Bell {
  private ring: () => void = () => {};
  private next = new Promise<void>((resolve) => (this.ring = resolve));

  /** Whoever waits goes on. */
  toll(): void {
    this.ring();
    this.next = new Promise((resolve) => (this.ring = resolve));
  }

  /** Waits for it, or for so many milliseconds. */
  async wait(clock: Clock, milliseconds: number): Promise<void> {
    const over = new AbortController();
    await Promise.race([this.next, clock.sleep(milliseconds, over.signal)]);
    over.abort();
  }
}
