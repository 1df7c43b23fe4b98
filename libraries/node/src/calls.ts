// The calls to the handler: bounded concurrency, the circuit breaker before each, a guard around each, at once again
// after a blip, and an end before the deadline.

import type { Accepted } from './accept.ts';
import { Bell, type Clock } from './clock.ts';
import { TIMEOUT, errorOf, type HandlerError } from './errors.ts';
import { Message } from './message.ts';
import type { Outcome, Permits, Permitted } from './permits.ts';
import { retriesAtOnce, type Policy } from './policy.ts';
import type { Telemetry } from './telemetry.ts';

/** Before all calls are cut off, so that a further call is left in time. */
const CUT_OFF = 100;
/** Between two looks at a breaker that another batch keeps waiting. */
const BETWEEN_LOOKS = 100;

/** An outcome, and how long the target took, retries at once included. */
export interface Call {
  readonly outcome: Outcome;
  readonly seconds: number;
}

/** All that the calls of a batch need. */
export interface Calling {
  readonly handle: (message: Message) => unknown;
  readonly policy: Policy;
  readonly permits: Permits;
  readonly clock: Clock;
  readonly telemetry: Telemetry;
  readonly maxConcurrency: number;
  /** When the calls end. */
  readonly end: number;
}

/**
 * Calls the handler for every message, so many at a time, as far as the circuit breaker allows. One call's failure or
 * hanging is its own. At the end what still runs is cut off as `Timeout`, and nothing is started any more.
 */
export async function callAll(calling: Calling, accepted: readonly Accepted[]): Promise<readonly Call[]> {
  const { clock, permits, end } = calling;
  const calls: (Call | undefined)[] = accepted.map(() => undefined);
  const running = new Map<number, OneCall>();
  const [bell, startedAt] = [new Bell(), clock.now()];
  const seconds = (since: number) => Math.max(0, clock.now() - since) / 1000;
  const start = (index: number, permitted: Permitted) => {
    const call = new OneCall(calling, accepted[index] as Accepted);
    const since = clock.now();
    running.set(index, call);
    void call.run(permitted).then((outcome) => {
      // What was cut off has its outcome: what it has said later is too late.
      if (running.delete(index)) {
        calls[index] = { outcome, seconds: seconds(since) };
        bell.toll();
      }
    });
  };
  // Whose turn has come is below it: so a call that was cut off, which may have had its effect, is known from one that
  // never began.
  let next = 0;
  let probe: number | undefined;
  for (;;) {
    let looksAgain = false;
    while (running.size < calling.maxConcurrency && next < accepted.length) {
      const asked = permits.ask(accepted[next] as Accepted);
      if (asked === 'wait') {
        looksAgain = true;
        break;
      }
      if ('heldSince' in asked) {
        calls[next] = { outcome: { is: 'held', since: asked.heldSince }, seconds: 0 };
      } else {
        probe = asked.isProbe ? next : probe;
        start(next, asked);
      }
      next += 1;
    }
    const now = clock.now();
    if (running.size === 0 && next === accepted.length) {
      break;
    }
    if (now >= end) {
      // A call that has come back counts, also at the very end: what a handler has blocked is heard first.
      await new Promise((resolve) => setImmediate(resolve));
      break;
    }
    // A call of another batch may tell, whose end wakes nobody here.
    await bell.wait(clock, looksAgain ? Math.min(BETWEEN_LOOKS, end - now) : end - now);
  }
  const cutOff = [...running.values()];
  running.clear();
  cutOff.forEach((call) => call.cutOff());
  const downSince = permits.openSince;
  return calls.map((call, index) => {
    if (call !== undefined) {
      return call;
    }
    if (downSince !== undefined && probe === index) {
      return { outcome: { is: 'held', since: downSince, probed: TIMEOUT }, seconds: seconds(startedAt) };
    }
    if (index < next) {
      return { outcome: { is: 'failure', error: TIMEOUT }, seconds: seconds(startedAt) };
    }
    return { outcome: downSince === undefined ? { is: 'not started' } : { is: 'held', since: downSince }, seconds: 0 };
  });
}

/** The call of one message, and those at once after it. */
class OneCall {
  private readonly calling: Calling;
  private readonly accepted: Accepted;
  private permitted: Permitted | undefined;
  private aborter = new AbortController();
  private isCutOff = false;

  constructor(calling: Calling, accepted: Accepted) {
    this.calling = calling;
    this.accepted = accepted;
  }

  /** Until it is done, the blips that the policy allows are over, or no time remains. It never fails. */
  async run(permitted: Permitted): Promise<Outcome> {
    const { policy, permits, clock, telemetry, end } = this.calling;
    // A call whose turn comes too late would be cut off at once, and spend an attempt for nothing.
    if (clock.now() >= end) {
      permitted.giveBack();
      return { is: 'not started' };
    }
    let outcome = await this.guarded(permitted);
    for (let made = 0; outcome.is === 'failure' && !this.isCutOff; made += 1) {
      // Judged anew each time: the last call may have met another error, one that is no blip.
      const again = retriesAtOnce(policy, outcome.error);
      if (again === undefined || made >= again.maxAttempts || clock.now() + again.delay >= end - CUT_OFF) {
        break;
      }
      await clock.sleep(again.delay, this.aborter.signal);
      // The target has gone down meanwhile, or is just back and has as many calls as it gets: the error that is known
      // is worth more than waiting.
      const asked = this.isCutOff ? 'wait' : permits.ask(this.accepted);
      if (asked === 'wait' || 'heldSince' in asked) {
        break;
      }
      const { messageId, retryAttempt } = this.accepted.metadata;
      const fields = { message_id: messageId, retry_attempt: retryAttempt, error_type: outcome.error.loggable };
      telemetry.observe({ name: 'retried_immediately', fields, metrics: { ImmediateRetries: 1 } });
      outcome = (await this.inTime(asked)) ?? outcome;
    }
    return outcome;
  }

  /** The invocation ends: whatever it still says, nobody hears. */
  cutOff(): void {
    this.isCutOff = true;
    this.permitted?.cutOff();
    this.aborter.abort(new Error(TIMEOUT.details));
  }

  /**
   * A further call that the end cuts off does not count: it would leave a `Timeout`, and the error that is known is
   * better.
   */
  private async inTime(permitted: Permitted): Promise<Outcome | undefined> {
    const { clock, end } = this.calling;
    const over = new AbortController();
    const time = clock.sleep(end - CUT_OFF - clock.now(), over.signal).then(() => undefined);
    const outcome = await Promise.race([this.guarded(permitted), time]);
    over.abort();
    if (outcome === undefined) {
      this.cutOff();
    }
    return outcome;
  }

  /** One call, and what it says of the target. */
  private async guarded(permitted: Permitted): Promise<Outcome> {
    this.permitted = permitted;
    this.aborter = new AbortController();
    const error = await this.call(this.aborter.signal);
    return permitted.record(error);
  }

  private async call(signal: AbortSignal): Promise<HandlerError | undefined> {
    const { handle, clock, end } = this.calling;
    try {
      await handle(new Message(this.accepted, signal, () => Math.max(0, end - clock.now())));
      return undefined;
    } catch (thrown) {
      return errorOf(thrown);
    }
  }
}
