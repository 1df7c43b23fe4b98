// One batch: parse → call the handler → hand off what failed → report.

import { accept, type Accepted, type Refused } from './accept.ts';
import type { Breaker } from './breaker.ts';
import { callAll, type Call } from './calls.ts';
import { keepFree, type Clock } from './clock.ts';
import { deliver, type Queue } from './delivery.ts';
import { handedOff, refusal, type Sending } from './hand-off.ts';
import type { Message } from './message.ts';
import { firstSent } from './metadata.ts';
import { Permits } from './permits.ts';
import { recordsOf, type Received, type SqsBatchResponse } from './record.ts';
import type { Settings } from './settings.ts';
import { Telemetry } from './telemetry.ts';

/** Kept free at the end of an invocation, for the sends and the answer. */
const SEND_RESERVE = 5000;
/** Of that, for the answer. */
const ANSWER_RESERVE = 500;

/** What a batch needs of the world, and what outlives it. */
export interface World {
  readonly settings: Settings;
  readonly queue: Queue;
  readonly clock: Clock;
  readonly breaker: Breaker | undefined;
  /** Takes lines of telemetry. */
  readonly write: (lines: string) => void;
}

/** @throws if the event is none of SQS: nothing of it is known to be done, and SQS delivers all of it again. */
export async function processBatch(
  world: World, handle: (message: Message) => unknown, event: unknown, deadline: number,
): Promise<SqsBatchResponse> {
  const { settings, clock } = world;
  const telemetry = new Telemetry(settings.functionName, settings.logging, () => clock.now(), world.write);
  const { readable, unreadable } = recordsOf(event);
  try {
    unreadable.forEach((sqs_message_id) => {
      telemetry.observe({ name: 'unreadable_record', fields: { sqs_message_id }, metrics: { UnreadableRecord: 1 } });
    });
    const failed = await processRecords(world, telemetry, handle, readable, deadline);
    const ids = new Set([...unreadable, ...failed]);
    return { batchItemFailures: [...ids].sort().map((itemIdentifier) => ({ itemIdentifier })) };
  } finally {
    telemetry.flush();
  }
}

/** SQS's ids of the records that are not done. */
async function processRecords(
  world: World,
  telemetry: Telemetry,
  handle: (message: Message) => unknown,
  records: readonly Received[],
  deadline: number,
): Promise<readonly string[]> {
  const { settings, queue, clock, breaker } = world;
  const { policy, maxConcurrency } = settings;
  const now = clock.now();
  const opened = records.map((received) => accept(settings.idSources, received));
  const accepted = opened.filter((one): one is Accepted => 'parsed' in one);
  const refused = opened.filter((one): one is Refused => 'why' in one);
  const permits = new Permits(breaker, policy, telemetry, () => clock.now());
  permits.learn(accepted);
  // Fixed before the calls begin: a handler that hangs must leave the time in which its messages are sent on.
  const end = keepFree(SEND_RESERVE, now, deadline);
  const calls = await callAll({ handle, policy, permits, clock, telemetry, maxConcurrency, end }, accepted);

  const ended = clock.now();
  tellHeld(telemetry, calls, ended);
  const sendings = accepted.flatMap((one, index) => {
    const { outcome, seconds } = calls[index] as Call;
    return outcome.is === 'success' ? tellProcessed(telemetry, one, seconds, ended) : handedOff(one, outcome, ended);
  });
  sendings.push(...refused.map((one) => refusal(one, now)));
  const answerBy = keepFree(ANSWER_RESERVE, clock.now(), deadline);
  return send(queue, clock, answerBy, telemetry, sendings);
}

/** A record is done when, and only when, its own send is confirmed. */
async function send(
  queue: Queue, clock: Clock, answerBy: number, telemetry: Telemetry, sendings: readonly Sending[],
): Promise<readonly string[]> {
  const outgoing = sendings.flatMap((sending) => sending.outgoing ?? []);
  const outcomes = [...(await deliver(queue, clock, answerBy, outgoing))];
  return sendings.flatMap(({ received, outgoing, confirmed }) => {
    const error = outgoing === undefined ? { code: 'NoPlaceForFailure' } : outcomes.shift();
    if (error !== undefined) {
      const fields = { sqs_message_id: received.id, send: 'hand-off', code: error.code };
      telemetry.observe({ name: 'not_confirmed', fields, metrics: { NotConfirmed: 1 } });
      return [received.id];
    }
    if (confirmed !== undefined) {
      telemetry.observe(confirmed);
    }
    return [];
  });
}

function tellProcessed(telemetry: Telemetry, accepted: Accepted, target_seconds: number, now: number): [] {
  const { received, metadata } = accepted;
  const age_seconds = Math.max(0, now - firstSent(metadata, received.sentAt)) / 1000;
  const fields = { message_id: metadata.messageId, retry_attempt: metadata.retryAttempt, age_seconds, target_seconds };
  const metrics = { Processed: 1, MessageAgeSeconds: age_seconds, TargetSeconds: target_seconds };
  telemetry.observe({ name: 'processed', fields, metrics });
  return [];
}

function tellHeld(telemetry: Telemetry, calls: readonly Call[], now: number): void {
  const since = calls.flatMap(({ outcome }) => (outcome.is === 'held' ? [outcome.since] : []));
  if (since.length > 0) {
    const open_seconds = Math.max(0, now - since.reduce((least, one) => Math.min(least, one))) / 1000;
    const fields = { messages: since.length, open_seconds };
    telemetry.observe({ name: 'held', fields, metrics: { Held: since.length, CircuitOpen: 1 } });
  }
}
