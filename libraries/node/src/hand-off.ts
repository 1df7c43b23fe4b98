// What is to be done with a record that is not done: it is handed off, with the reason.

import type { Accepted, Refused } from './accept.ts';
import type { Attributes } from './attributes.ts';
import type { Outgoing } from './delivery.ts';
import { kindOf, ours, wholeSeconds, type HandlerError } from './errors.ts';
import { attached, type Delivery, type HandOff, type Kind } from './failure.ts';
import { firstSent } from './metadata.ts';
import type { Outcome } from './permits.ts';
import type { Received } from './record.ts';
import type { Event } from './telemetry.ts';
import { bytesOf } from './text.ts';
import { rfc3339 } from './time.ts';

export interface Sending {
  readonly received: Received;
  /** None if it has no place for the reason: ten attributes, or 1 MiB. SQS's redrive takes the message, without it. */
  readonly outgoing: Outgoing | undefined;
  /** What has happened once it is confirmed, if that is worth a line of its own. */
  readonly confirmed: Event | undefined;
}

type NotDone = Exclude<Outcome, { is: 'success' }>;

/** What is to be done with a message that is not done. */
export function handedOff(accepted: Accepted, outcome: NotDone, now: number): Sending {
  const { received, parsed, metadata, cameBack } = accepted;
  const { handOff, loggable } = handOffOf(outcome);
  const fields = { message_id: metadata.messageId, retry_attempt: metadata.retryAttempt };
  const told = handedOffEvent(fields, loggable, handOff.kind, now - firstSent(metadata, received.sentAt));
  // A message may be held a hundred times: one line a batch tells of it.
  const confirmed = handOff.kind === 'held' ? undefined : told;
  return sending(received, handOff, deliveryOf(received, cameBack, now), parsed.handedOff, confirmed);
}

/** An invalid message is the failed-message-processor's to give up: it finds the same. */
export function refusal({ received, attributes, cameBack, why }: Refused, now: number): Sending {
  const { handOff, loggable } = handOffOf({ is: 'failure', error: ours('InvalidMessage', why, 'permanent') });
  const told = handedOffEvent({ sqs_message_id: received.id }, loggable, handOff.kind, now - received.sentAt);
  return sending(received, handOff, deliveryOf(received, cameBack, now), attributes, told);
}

function sending(
  received: Received, handOff: HandOff, delivery: Delivery, producers: Attributes, confirmed: Event | undefined,
): Sending {
  const { body, messageGroupId, traceHeader } = received;
  const attributes = attached(handOff, delivery, producers, bytesOf(body));
  return { received, outgoing: attributes && { body, attributes, messageGroupId, traceHeader }, confirmed };
}

function deliveryOf({ id, queueArn, sentAt }: Received, cameBack: Delivery['cameBack'], failedAt: number): Delivery {
  return { failedAt, sourceMessageId: id, sourceQueueArn: queueArn, sentAt, cameBack };
}

function handOffOf(outcome: NotDone): { handOff: HandOff; loggable: string } {
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
