// The circuit breaker: whether a target may be called. `crates/core/src/breaker.rs` draws its states; both are held to
// schemas/vectors/breaker.json.

import type { CircuitBreaker, Met } from './policy.ts';
import { spread } from './spread.ts';
import { Calls } from './window.ts';

/** Calls at once of the last level of a slow start. 1, 2, 4 … 32 are 63 calls: more than an environment has at once. */
const SLOW_START_CALLS_MAX = 32;

/** A call that was permitted: its outcome must be recorded, or it is given back. */
export interface Permit {
  readonly epoch: number;
  /** It asks if a target that is down is back. */
  readonly isProbe: boolean;
}

/** `wait`: a call that is running will tell. `hold`: the target is down. */
export type Permission = Permit | 'wait' | 'hold';

/** What a call has changed; times in milliseconds. */
export type Change =
  | { readonly is: 'opened'; readonly calls: number; readonly outages: number; readonly probeIn: number }
  | { readonly is: 'probe_failed'; readonly probeIn: number }
  | { readonly is: 'closed'; readonly openFor: number; readonly probes: number };

type State =
  | { readonly is: 'closed'; readonly calls: Calls }
  | {
      readonly is: 'open';
      readonly since: number;
      probeAt: number;
      /** What it waits after a probe that fails. */
      nextInterval: number;
      isProbing: boolean;
      probes: number;
    }
  | { readonly is: 'slow start'; level: Level; running: number; readonly calls: Calls };

/** So many calls at once of a slow start; of those that have ended, how many met an outage. */
interface Level {
  readonly callsAtOnce: number;
  readonly ended: number;
  readonly outages: number;
}

/** The breaker of one environment. */
export class Breaker {
  private readonly settings: CircuitBreaker;
  private state: State = { is: 'closed', calls: new Calls() };
  /** Which of its states this is: a call that began in another one says nothing of this one. */
  private epoch = 0;
  /** Of its last closing: a target that flaps is not probed every few seconds anew. */
  private closedBefore: { readonly at: number; readonly nextInterval: number } | undefined;

  constructor(settings: CircuitBreaker) {
    this.settings = settings;
  }

  ask(now: number): Permission {
    const { state } = this;
    const permit = { epoch: this.epoch, isProbe: state.is === 'open' };
    if (state.is === 'closed') {
      return permit;
    }
    if (state.is === 'slow start') {
      if (state.running >= state.level.callsAtOnce) {
        return 'wait';
      }
      state.running += 1;
      return permit;
    }
    if (state.isProbing) {
      return 'wait';
    }
    // A clock that was set back must not keep the target from being probed.
    state.probeAt = Math.min(state.probeAt, now + this.settings.probeIntervalMax);
    if (now < state.probeAt) {
      return 'hold';
    }
    state.isProbing = true;
    state.probes += 1;
    return permit;
  }

  /** What a permitted call met. The message is whose call it was: its id spreads the probes of many environments. */
  record(permit: Permit, met: Met, messageId: string, tenant: string | undefined, now: number): Change | undefined {
    const { state, settings } = this;
    // It began before the target went down, or before it came back.
    if (permit.epoch !== this.epoch) {
      return undefined;
    }
    if (state.is === 'open') {
      if (met === 'outage') {
        const probeIn = jittered(state.nextInterval, messageId, state.probes);
        state.isProbing = false;
        state.probeAt = now + probeIn;
        state.nextInterval = this.doubled(state.nextInterval);
        return { is: 'probe_failed', probeIn };
      }
      this.closedBefore = { at: now, nextInterval: state.nextInterval };
      const level = { callsAtOnce: 2, ended: 0, outages: 0 };
      this.become({ is: 'slow start', level, running: 0, calls: new Calls() });
      return { is: 'closed', openFor: Math.max(0, now - state.since), probes: state.probes };
    }
    state.calls.push({ at: now, tenant, met }, settings);
    if (state.calls.showAnOutage(settings)) {
      return this.open(state.calls, messageId, now);
    }
    if (state.is === 'slow start') {
      state.running = Math.max(0, state.running - 1);
      const next = after(state.level, met, settings.failureRate);
      if (next === undefined) {
        this.become({ is: 'closed', calls: state.calls });
      } else {
        state.level = next;
      }
    }
    return undefined;
  }

  /** A permitted call was not made. */
  giveBack(permit: Permit): void {
    const { state } = this;
    if (permit.epoch !== this.epoch) {
      return;
    }
    if (state.is === 'slow start') {
      state.running = Math.max(0, state.running - 1);
    } else if (state.is === 'open') {
      state.isProbing = false;
      state.probes -= 1;
    }
  }

  /**
   * What a message says that arrives: it was held, its target has been down since then, and it was sent again at
   * `toldAt`. An environment that knows nothing better is half-open at once, instead of learning it by calls that fail.
   */
  learn(downSince: number, toldAt: number, now: number): void {
    const { state } = this;
    const { window, probeInterval, probeIntervalMax } = this.settings;
    const wasBack = this.closedBefore !== undefined && toldAt <= this.closedBefore.at;
    if (state.is !== 'closed' || wasBack || state.calls.areRecent(window, now)) {
      return;
    }
    // After hours nobody needs to begin with short intervals.
    const nextInterval = Math.min(Math.max(now - downSince, probeInterval), probeIntervalMax);
    const since = Math.min(downSince, now);
    this.become({ is: 'open', since, probeAt: now, nextInterval, isProbing: false, probes: 0 });
  }

  /** Since when it is open, if it is. */
  get openSince(): number | undefined {
    return this.state.is === 'open' ? this.state.since : undefined;
  }

  private open(calls: Calls, messageId: string, now: number): Change {
    const { probeInterval, probeIntervalMax } = this.settings;
    // A target that is down again so soon was not really back: it is probed as seldom as before.
    const flaps = this.closedBefore !== undefined && now - this.closedBefore.at < probeIntervalMax;
    const interval = flaps ? (this.closedBefore?.nextInterval ?? probeInterval) : probeInterval;
    const probeIn = jittered(interval, messageId, 0);
    const nextInterval = this.doubled(interval);
    this.become({ is: 'open', since: now, probeAt: now + probeIn, nextInterval, isProbing: false, probes: 0 });
    return { is: 'opened', calls: calls.length, outages: calls.outages, probeIn };
  }

  private become(state: State): void {
    this.state = state;
    this.epoch += 1;
  }

  private doubled(interval: number): number {
    return Math.min(2 * interval, this.settings.probeIntervalMax);
  }
}

/** The level after one more call: again if it did not go well; none after the last one. */
function after(level: Level, met: Met, failureRate: number): Level | undefined {
  const { callsAtOnce } = level;
  const [ended, outages] = [level.ended + 1, level.outages + (met === 'outage' ? 1 : 0)];
  if (ended < callsAtOnce) {
    return { callsAtOnce, ended, outages };
  }
  const next = outages / ended < failureRate ? 2 * callsAtOnce : callsAtOnce;
  return next <= SLOW_START_CALLS_MAX ? { callsAtOnce: next, ended: 0, outages: 0 } : undefined;
}

/** From three quarters of it to all of it: many environments find out at the same moment. */
function jittered(interval: number, messageId: string, probe: number): number {
  const longest = Math.floor(interval);
  return spread({ messageId, generation: 0, attempt: probe }, longest - Math.floor(longest / 4), longest);
}
