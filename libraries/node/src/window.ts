// The last calls, and whether they show an outage.

import type { CircuitBreaker, Met } from './policy.ts';

/** The newest calls of the window are looked at, so many times `minimum_calls`. */
const NEWEST_CALLS = 5;

interface Call {
  readonly at: number;
  /** Whose message it is: its `MessageGroupId`. */
  readonly tenant: string | undefined;
  readonly met: Met;
}

/** Calls that have ended, the newest last. */
export class Calls {
  private calls: Call[] = [];

  /** With it, only those that still say something. */
  push(call: Call, { window, minimumCalls }: CircuitBreaker): void {
    this.calls.push(call);
    // What no answer has followed says that the target is down however long ago it was.
    const sinceAnswer = this.calls.length - 1 - this.calls.findLastIndex(({ met }) => met === 'answer');
    const firstThatCounts = this.calls.findIndex(({ at }) => call.at - at < window);
    // A clock that was set back makes nothing old. Half a minute of answers must not outvote a busy flow's last second.
    const old = firstThatCounts === -1 ? this.calls.length : firstThatCounts;
    const kept = Math.min(Math.max(this.calls.length - old, sinceAnswer), minimumCalls * NEWEST_CALLS);
    this.calls = this.calls.slice(this.calls.length - kept);
  }

  areRecent(window: number, now: number): boolean {
    const newest = this.calls.at(-1);
    return newest !== undefined && now - newest.at < window;
  }

  get length(): number {
    return this.calls.length;
  }

  get outages(): number {
    return this.calls.filter(({ met }) => met === 'outage').length;
  }

  /**
   * Whether enough of enough calls met an outage, the last one among them, and also of those that are not of the tenant
   * with the most outages: what is wrong with one tenant is no outage for the others.
   */
  showAnOutage({ failureRate, minimumCalls }: CircuitBreaker): boolean {
    const shows = (calls: number, outages: number) => outages / calls >= failureRate;
    const [calls, outages] = [this.length, this.outages];
    if (this.calls.at(-1)?.met !== 'outage' || calls < minimumCalls || !shows(calls, outages)) {
      return false;
    }
    const worst = this.worstTenant();
    return calls === worst.calls || shows(calls - worst.calls, outages - worst.outages);
  }

  /** Of two with as many outages it is the one with fewer calls: the other's answers say that the target is there. */
  private worstTenant(): { calls: number; outages: number } {
    const tenants = new Map<string, { calls: number; outages: number }>();
    for (const { tenant, met } of this.calls) {
      if (tenant !== undefined) {
        const { calls, outages } = tenants.get(tenant) ?? { calls: 0, outages: 0 };
        tenants.set(tenant, { calls: calls + 1, outages: outages + (met === 'outage' ? 1 : 0) });
      }
    }
    const sorted = [...tenants.values()].sort((a, b) => b.outages - a.outages || a.calls - b.calls);
    return sorted[0] ?? { calls: 0, outages: 0 };
  }
}
