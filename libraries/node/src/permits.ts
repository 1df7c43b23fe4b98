// The circuit breaker of this environment: all its calls ask it, and tell it what they met.

import type { Accepted } from './accept.ts';
import { Breaker, type Change, type Permit } from './breaker.ts';
import { TIMEOUT, type HandlerError } from './errors.ts';
import { heldSince } from './metadata.ts';
import { mayBeHeld, met, type Policy } from './policy.ts';
import type { Telemetry } from './telemetry.ts';

/** What became of one message. */
export type Outcome =
  | { readonly is: 'success' }
  | { readonly is: 'failure'; readonly error: HandlerError }
  /** The calls' end came before its turn. */
  | { readonly is: 'not started' }
  /** Its target has been down since then: it was not called, or its call was the probe that met this. */
  | { readonly is: 'held'; readonly since: number; readonly probed?: HandlerError };

/** What a held message says of its target is believed for so long: the longest delay, and as long on the queue. */
const HELD_MOMENTS_AGO = 1_800_000;

/** The breaker of an environment, as one batch sees it. */
export class Permits {
  private readonly breaker: Breaker | undefined;
  private readonly policy: Policy;
  private readonly telemetry: Telemetry;
  private readonly now: () => number;

  constructor(breaker: Breaker | undefined, policy: Policy, telemetry: Telemetry, now: () => number) {
    this.breaker = breaker;
    this.policy = policy;
    this.telemetry = telemetry;
    this.now = now;
  }

  /**
   * What the messages of a batch say: an environment that has just begun knows of an outage by those that were held.
   */
  learn(accepted: readonly Accepted[]): void {
    const now = this.now();
    const told = accepted.flatMap(({ metadata, received: { sentAt } }) => {
      const since = heldSince(metadata, sentAt);
      return since !== undefined && now - sentAt < HELD_MOMENTS_AGO ? [{ since, sentAt }] : [];
    });
    if (told.length > 0) {
      const since = told.reduce((least, { since }) => Math.min(least, since), Infinity);
      const toldAt = told.reduce((most, { sentAt }) => Math.max(most, sentAt), -Infinity);
      this.breaker?.learn(since, toldAt, now);
    }
  }

  /** Whether this message may be called now; else since when its target is down. */
  ask(accepted: Accepted): Permitted | 'wait' | { readonly heldSince: number } {
    // What was held for as long as it may be is called whatever is known: its failures spend its attempts.
    const breaker = mayBeHeld(this.policy, accepted.metadata.heldSeconds) ? this.breaker : undefined;
    const now = this.now();
    const permission = breaker?.ask(now);
    if (permission === 'wait') {
      return 'wait';
    }
    return permission === 'hold'
      ? { heldSince: breaker?.openSince ?? now }
      : new Permitted(permission, (permit, error) => this.record(permit, accepted, error), breaker);
  }

  /** Since when the target is down, if it is. */
  get openSince(): number | undefined {
    return this.breaker?.openSince;
  }

  /** Since when the target is down, if that was its probe, and still is. */
  private record(permit: Permit, accepted: Accepted, error: HandlerError | undefined): number | undefined {
    const said = error === undefined ? 'answer' : met(this.policy, error);
    const { metadata, received } = accepted;
    const change = this.breaker?.record(permit, said, metadata.messageId, received.messageGroupId, this.now());
    if (change !== undefined) {
      this.tell(change, error?.loggable ?? '');
    }
    return change?.is === 'probe_failed' ? this.openSince : undefined;
  }

  private tell(change: Change, error_type: string): void {
    if (change.is === 'opened') {
      const { calls, outages, probeIn } = change;
      const fields = { calls, outages, error_type, probe_in_seconds: probeIn / 1000 };
      this.telemetry.observe({ name: 'circuit_opened', fields, metrics: { CircuitOpen: 1 } });
    } else if (change.is === 'probe_failed') {
      const fields = { error_type, probe_in_seconds: change.probeIn / 1000 };
      this.telemetry.observe({ name: 'probe_failed', fields, metrics: { Probes: 1, CircuitOpen: 1 } });
    } else {
      const fields = { open_seconds: change.openFor / 1000, probes: change.probes };
      this.telemetry.observe({ name: 'circuit_closed', fields, metrics: { Probes: 1 } });
    }
  }
}

/** One call that was permitted: recorded, given back or cut off, whatever comes first. */
export class Permitted {
  readonly isProbe: boolean;
  private permit: Permit | undefined;
  private readonly tell: (permit: Permit, error: HandlerError | undefined) => number | undefined;
  private readonly breaker: Breaker | undefined;

  constructor(permit: Permit | undefined, tell: Permitted['tell'], breaker: Breaker | undefined) {
    this.isProbe = permit?.isProbe ?? false;
    this.permit = permit;
    this.tell = tell;
    this.breaker = breaker;
  }

  /** What the call met. A probe of a target that is still down spends no attempt: it was this side's question. */
  record(error: HandlerError | undefined): Outcome {
    const permit = this.take();
    const since = permit && this.tell(permit, error);
    if (error === undefined) {
      return { is: 'success' };
    }
    return since === undefined ? { is: 'failure', error } : { is: 'held', since, probed: error };
  }

  /** The call is not made. */
  giveBack(): void {
    const permit = this.take();
    if (permit !== undefined) {
      this.breaker?.giveBack(permit);
    }
  }

  /** The invocation's end came before the call's. */
  cutOff(): void {
    this.record(TIMEOUT);
  }

  private take(): Permit | undefined {
    const { permit } = this;
    this.permit = undefined;
    return permit;
  }
}
