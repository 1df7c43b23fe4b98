// Delivery: pack → send → try again what can be → one outcome per message. As `delivery.rs` of the Rust functions.

import { ATTRIBUTES_MAX, MESSAGE_BYTES_MAX, sizeOf, whyRefused, type Attributes } from './attributes.ts';
import { Bell, type Clock } from './clock.ts';
import { bytesOf, hasIllegal } from './text.ts';

/** A message on its way to SQS. */
export interface Outgoing {
  readonly body: string;
  readonly attributes: Attributes;
  readonly messageGroupId: string | undefined;
  readonly traceHeader: string | undefined;
}

/**
 * Why an entry is not confirmed. `refused`: the same again would fail the same way. `throttled`, `not sent`: later.
 * `service`, `no answer`: it may or may not have been done, so that another request may do it twice.
 */
export interface EntryError {
  readonly fault: 'refused' | 'throttled' | 'not sent' | 'service' | 'no answer';
  /** SQS's code; never a payload. */
  readonly code: string;
}

/** Nothing if it is confirmed. */
export type EntryOutcome = EntryError | undefined;

export interface Queue {
  /** One request of at most 10 entries and 1 MiB; it never fails. One outcome each, in order. */
  send(entries: readonly Outgoing[], cutOff: AbortSignal): Promise<readonly EntryOutcome[]>;
}

const BATCH_ENTRIES_MAX = 10;
const BATCH_BYTES_MAX = MESSAGE_BYTES_MAX;
/** Batches on their way at the same time. */
const CONCURRENT_BATCHES = 8;
/**
 * So often a message may be sent without an answer that says that it was refused: each but the first may make a copy.
 */
const SENDS_PERHAPS_DONE_MAX = 2;
/** Before the first resend of refused entries; doubles each time. */
const FIRST_WAIT = 50;
/** Between two resends at most, and before one that may make a copy. */
const LONGEST_WAIT = 2000;
/** The least time that an answer has. */
const PATIENCE_MIN = 5000;
const NO_ANSWER: EntryError = { fault: 'no answer', code: 'NoAnswerBeforeDeadline' };

/** Sends all before the deadline. One outcome each, in order; what SQS would refuse fails alone, and is not sent. */
export async function deliver(
  queue: Queue, clock: Clock, deadline: number, messages: readonly Outgoing[],
): Promise<readonly EntryOutcome[]> {
  const refused = messages.map(whyNotSendable);
  const batches = pack(messages.filter((_, index) => refused[index] === undefined));
  const outcomes: EntryOutcome[][] = [];
  const waiting = [...batches.entries()];
  const worker = async () => {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      outcomes[next[0]] = await settle(queue, clock, deadline, next[1]);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENT_BATCHES }, worker));
  const inOrder = outcomes.flat();
  return refused.map((code) => (code === undefined ? inOrder.shift() : { fault: 'refused', code }));
}

/** Into batches that SQS takes: in order, none lost, each as full as order and limits allow. */
export function pack(messages: readonly Outgoing[]): readonly (readonly Outgoing[])[] {
  const batches: Outgoing[][] = [];
  let bytes = Infinity;
  for (const message of messages) {
    const batch = batches.at(-1);
    bytes += size(message);
    if (batch === undefined || batch.length === BATCH_ENTRIES_MAX || bytes > BATCH_BYTES_MAX) {
      batches.push([message]);
      bytes = size(message);
    } else {
      batch.push(message);
    }
  }
  return batches;
}

function size({ body, attributes }: Outgoing): number {
  return bytesOf(body) + sizeOf(attributes);
}

/** Why SQS would refuse it, by a name for logs. */
export function whyNotSendable(message: Outgoing): string | undefined {
  const { body, attributes, messageGroupId, traceHeader } = message;
  if (body === '') {
    return 'EmptyBody';
  }
  if (attributes.size > ATTRIBUTES_MAX) {
    return 'TooManyAttributes';
  }
  if (size(message) > MESSAGE_BYTES_MAX) {
    return 'TooLarge';
  }
  if (hasIllegal(body)) {
    return 'IllegalCharacter';
  }
  for (const [name, attribute] of attributes) {
    const why = whyRefused(name, attribute);
    if (why !== undefined) {
      return why;
    }
  }
  if (messageGroupId !== undefined && !/^(?:[!-~]|(?![\0-\x7F])[\p{Alphabetic}\p{N}]){1,128}$/u.test(messageGroupId)) {
    return 'MessageGroupId';
  }
  if (traceHeader === '') {
    return 'EmptyTraceHeader';
  }
  return traceHeader !== undefined && hasIllegal(traceHeader) ? 'IllegalCharacter' : undefined;
}

interface Entry {
  outcome: EntryOutcome;
  /** When it is sent (again). */
  due: number | undefined;
  /** Requests that may still be answered. */
  underWay: number;
  /** Sends of which no answer says that they were not done. */
  perhapsDone: number;
}

/** Each entry of a batch, tried until it has an outcome that another try cannot better. */
async function settle(
  queue: Queue, clock: Clock, deadline: number, batch: readonly Outgoing[],
): Promise<EntryOutcome[]> {
  const entries: Entry[] = batch.map(() => ({ outcome: NO_ANSWER, due: clock.now(), underWay: 0, perhapsDone: 0 }));
  const [over, bell] = [new AbortController(), new Bell()];
  let refusals = 0;
  // An entry sent twice has two requests under way: the first answer that confirms it counts, whichever that is.
  const request = async (places: readonly number[]) => {
    const answers = await queue.send(places.map((place) => batch[place] as Outgoing), over.signal);
    refusals += 1;
    answered(places.map((place) => entries[place] as Entry), answers, refusals, clock.now(), deadline);
    bell.toll();
  };
  for (;;) {
    const now = clock.now();
    const mayChange = ({ outcome, due, underWay }: Entry) => outcome !== undefined && (due !== undefined || underWay > 0);
    if (now >= deadline || !entries.some(mayChange)) {
      over.abort();
      return entries.map(({ outcome }) => outcome);
    }
    const due = takeDue(entries, now, deadline);
    if (due.length > 0) {
      void request(due);
    }
    const nextDue = Math.min(deadline, ...entries.map((entry) => entry.due ?? deadline));
    await bell.wait(clock, nextDue - now);
  }
}

/** The numbers of the entries that are to be sent now. */
function takeDue(entries: readonly Entry[], now: number, deadline: number): number[] {
  // Half of what remains: the one more send must have time for its own answer.
  const patience = inTime(now + Math.max((deadline - now) / 2, PATIENCE_MIN), deadline);
  return [...entries.entries()].flatMap(([place, entry]) => {
    if (entry.due === undefined || entry.due > now) {
      return [];
    }
    // The last refusal says nothing of this send.
    if (entry.perhapsDone === 0) {
      entry.outcome = NO_ANSWER;
    }
    entry.underWay += 1;
    // Counted before there is an answer, since none may come. A refusal takes it back.
    entry.perhapsDone += 1;
    entry.due = entry.perhapsDone < SENDS_PERHAPS_DONE_MAX ? patience : undefined;
    return [place];
  });
}

function answered(
  entries: readonly Entry[], answers: readonly EntryOutcome[], refusals: number, now: number, deadline: number,
): void {
  const soon = inTime(now + jittered(Math.min(FIRST_WAIT * 2 ** (refusals - 1), LONGEST_WAIT), now), deadline);
  const last = inTime(now + jittered(Math.min(LONGEST_WAIT, (deadline - now) / 2), now), deadline);
  entries.forEach((entry, index) => {
    // If it has too few answers the rest has none.
    const error = index < answers.length ? answers[index] : NO_ANSWER;
    entry.underWay -= 1;
    if (error === undefined || entry.outcome === undefined) {
      [entry.outcome, entry.due] = [undefined, undefined];
      return;
    }
    const mayBeDone = error.fault === 'service' || error.fault === 'no answer';
    entry.perhapsDone -= mayBeDone ? 0 : 1;
    // No refusal of a later send takes back that an earlier one may have been done.
    if (mayBeDone || entry.perhapsDone === 0) {
      entry.outcome = error;
    }
    // What may have been done waits long, since it is sent only once more; a refusal says that nothing was done, so
    // soon.
    const again = mayBeDone ? last : soon;
    const mayBeSent = error.fault !== 'refused' && entry.perhapsDone < SENDS_PERHAPS_DONE_MAX;
    entry.due = mayBeSent && again !== undefined ? Math.min(again, entry.due ?? again) : undefined;
  });
}

/** Nothing is sent that the deadline leaves no time for. */
function inTime(then: number, deadline: number): number | undefined {
  return then < deadline ? then : undefined;
}

/** The clock's own part of a second takes up to half of it away, so that many instances do not move in step. */
function jittered(longest: number, now: number): number {
  return longest - (longest * (now % 1000)) / 2000;
}
