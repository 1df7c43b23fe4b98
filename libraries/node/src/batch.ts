// One batch: parse → call the handler → hand off what failed → report.

import { accept, type Accepted, type Refused } from './accept.ts';
import type { Attributes } from './attributes.ts';
import type { Breaker } from './breaker.ts';
import { callAll, type Call } from './calls.ts';
import { keepFree, type Clock } from './clock.ts';
import { deliver, type Outgoing, type Queue } from './delivery.ts';
import { kindOf, ours, wholeSeconds, type HandlerError } from './errors.ts';
import { attached, type Delivery, type HandOff, type Kind } from './failure.ts';
import type { Message } from './message.ts';
import { firstSent } from './metadata.ts';
import { Permits, type Outcome } from './permits.ts';
import { recordsOf, type Received, type SqsBatchResponse } from './record.ts';
import type { Settings } from './settings.ts';
import { Telemetry, type Event } from './telemetry.ts';
import { rfc3339 } from './time.ts';

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

/** What is to be done with a record. */
interface Sending {
  readonly received: Received;
  /** None if it has no place for the reason: ten attributes, or 1 MiB. SQS's redrive takes the message, without it. */
  readonly outgoing: Outgoing | undefined;
  /** What has happened once it is confirmed, if that is worth a line of its own. */
  readonly confirmed: Event | undefined;
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
  world: World, telemetry: Telemetry, handle: (message: Message) => unknown, records: readonly Received[], deadline: number,
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

function handedOff(accepted: Accepted, outcome: Exclude<Outcome, { is: 'success' }>, now: number): Sending {
  const { received, parsed, metadata, cameBack } = accepted;
  const { handOff, loggable } = handOffOf(outcome);
  const fields = { message_id: metadata.messageId, retry_attempt: metadata.retryAttempt };
  const told = handedOffEvent(fields, loggable, handOff.kind, now - firstSent(metadata, received.sentAt));
  // A message may be held a hundred times: one line a batch tells of it.
  const confirmed = handOff.kind === 'held' ? undefined : told;
  return sending(received, handOff, deliveryOf(received, cameBack, now), parsed.handedOff, confirmed);
}

/** An invalid message is the failed-message-processor's to give up: it finds the same. */
function refusal({ received, attributes, cameBack, why }: Refused, now: number): Sending {
  const { handOff, loggable } = handOffOf({ is: 'failure', error: ours('InvalidMessage', why, 'permanent') });
  const told = handedOffEvent({ sqs_message_id: received.id }, loggable, handOff.kind, now - received.sentAt);
  return sending(received, handOff, deliveryOf(received, cameBack, now), attributes, told);
}

function sending(
  received: Received, handOff: HandOff, delivery: Delivery, producers: Attributes, confirmed: Event | undefined,
): Sending {
  const { body, messageGroupId, traceHeader } = received;
  const attributes = attached(handOff, delivery, producers, Buffer.byteLength(body));
  return { received, outgoing: attributes && { body, attributes, messageGroupId, traceHeader }, confirmed };
}

function deliveryOf({ id, queueArn, sentAt }: Received, cameBack: Delivery['cameBack'], failedAt: number): Delivery {
  return { failedAt, sourceMessageId: id, sourceQueueArn: queueArn, sentAt, cameBack };
}

function handOffOf(outcome: Exclude<Outcome, { is: 'success' }>): { handOff: HandOff; loggable: string } {
  const of = (error: HandlerError, kind: Kind, retryAfterSeconds?: number) => {
    const { type, details, loggable } = error;
    return { handOff: { type, details, kind, retryAfterSeconds }, loggable };
  };
  if (outcome.is === 'failure') {
    return of(outcome.error, kindOf(outcome.error), wholeSeconds(outcome.error.retryAfterSeconds));
  }
  if (outcome.is === 'not started') {
    return of(ours('NotStarted', '', 'transient'), 'not_started');
  }
  const notCalled = () => `not called: the target has been down since ${rfc3339(outcome.since)}`;
  return of(outcome.probed ?? ours('CircuitOpen', notCalled(), 'transient'), 'held');
}

function handedOffEvent(fields: Event['fields'], error_type: string, kind: Kind, age: number): Event {
  const age_seconds = Math.max(0, age) / 1000;
  const metrics = { HandedOff: 1, MessageAgeSeconds: age_seconds };
  return { name: 'handed_off', fields: { ...fields, error_type, kind, age_seconds }, by: kind, metrics };
}

function tellProcessed(telemetry: Telemetry, { received, metadata }: Accepted, target_seconds: number, now: number): [] {
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
