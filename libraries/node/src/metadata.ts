// `metadata` of an envelope, and what `Redeliver` is beside a plain body: the rules of schemas/message.schema.json.

import { childrenOf, digitsOf, member, stringOf, type Child } from './json.ts';
import { parseRfc3339 } from './time.ts';

export interface Metadata {
  /** As the producer wrote it: a hyphenated UUID. */
  readonly messageId: string;
  readonly retryAttempt: number;
  readonly redriveGeneration: number;
  readonly firstSentTime: number | undefined;
  readonly snoozeCount: number;
  readonly heldSince: number | undefined;
  readonly heldSeconds: number;
  readonly redriveCount: number;
}

/** It came back from the final DLQ as it was; of the final record the generation, if there is one. */
export interface CameBack {
  readonly generationBefore: number | undefined;
}

/** A message is not what it has to be; the text has no value of it. */
export class InvalidMessage extends Error {}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const GENERATION_MAX = 100;
const COUNTS: Readonly<Record<string, number>> = {
  max_attempts: 1000,
  retry_attempt: 1000,
  snooze_count: 100,
  redrive_generation: GENERATION_MAX,
  held_seconds: 1_210_500,
  redrive_count: 1000,
};
const TIMES = ['expires_at', 'next_retry_time', 'first_sent_time', 'held_since'];

export function isUuid(text: string): boolean {
  return UUID.test(text);
}

export function firstMetadata(messageId: string): Metadata {
  const none = { firstSentTime: undefined, heldSince: undefined };
  return { messageId, retryAttempt: 0, redriveGeneration: 0, snoozeCount: 0, heldSeconds: 0, redriveCount: 0, ...none };
}

/** `at` is where the object stands, for people. */
export function readMetadata(of: readonly Child[], at: string): Metadata {
  const wrong = (name: string, rule: string): never => {
    throw new InvalidMessage(`${at}/${name} ${rule}`);
  };
  const count = (name: string): number => {
    const text = member(of, name);
    const max = COUNTS[name] as number;
    const value = text === undefined ? 0 : digitsOf(text, max);
    return value ?? wrong(name, `is not an integer from 0 to ${max}, written in digits`);
  };
  const time = (name: string): number | undefined => {
    const text = member(of, name);
    return text === undefined ? undefined : (timeOf(text) ?? wrong(name, 'is not a time as RFC 3339 has it'));
  };
  Object.keys(COUNTS).forEach(count);
  TIMES.forEach(time);
  const history = member(of, 'retry_history');
  if (history !== undefined && !isHistory(history)) {
    wrong('retry_history', 'is not a list of up to 5 failures');
  }
  const messageId = stringOf(member(of, 'message_id')) ?? '';
  return {
    messageId: isUuid(messageId) ? messageId : wrong('message_id', 'is not a hyphenated UUID'),
    retryAttempt: count('retry_attempt'),
    redriveGeneration: count('redrive_generation'),
    firstSentTime: time('first_sent_time'),
    snoozeCount: count('snooze_count'),
    heldSince: time('held_since'),
    heldSeconds: count('held_seconds'),
    redriveCount: count('redrive_count'),
  };
}

/** Until its next re-send a message that came back says of itself what was true of the generation before. */
export function inItsGeneration(metadata: Metadata, cameBack: CameBack | undefined): Metadata {
  if (cameBack === undefined) {
    return metadata;
  }
  const before = Math.max(metadata.redriveGeneration, cameBack.generationBefore ?? 0);
  return { ...firstMetadata(metadata.messageId), redriveGeneration: Math.min(before + 1, GENERATION_MAX) };
}

/**
 * When the message was first sent, by what it says if that is believed: after a re-send, and not later than it was
 * sent.
 */
export function firstSent({ firstSentTime: first, ...counts }: Metadata, sentAt: number): number {
  const { retryAttempt, snoozeCount, heldSeconds, redriveCount } = counts;
  const wasSentAgain = [retryAttempt, snoozeCount, heldSeconds, redriveCount].some((count) => count > 0);
  return wasSentAgain && first !== undefined && first <= sentAt ? first : sentAt;
}

/** Since when it is held, if that is believed of a delivery that was sent then. */
export function heldSince({ heldSince: since, heldSeconds }: Metadata, sentAt: number): number | undefined {
  return since !== undefined && heldSeconds > 0 && since <= sentAt ? since : undefined;
}

function timeOf(text: string): number | undefined {
  const said = stringOf(text);
  return said === undefined ? undefined : parseRfc3339(said);
}

function isHistory(text: string): boolean {
  const entries = childrenOf(text);
  return text.startsWith('[') && entries.length <= 5 && !hasLoneSurrogate(text) && entries.every(isPastFailure);
}

function isPastFailure({ text }: Child): boolean {
  const of = childrenOf(text);
  const isShort = (name: string, max: number) => {
    const said = stringOf(member(of, name));
    return said !== undefined && [...said].length <= max;
  };
  return (
    text.startsWith('{') &&
    digitsOf(member(of, 'attempt'), 1000) !== undefined &&
    timeOf(member(of, 'failed_at') ?? '') !== undefined &&
    isShort('error_type', 128) &&
    isShort('error_details', 256)
  );
}

function hasLoneSurrogate(json: string): boolean {
  let found = false;
  JSON.parse(json, (name: string, value: unknown) => {
    found ||= !name.isWellFormed() || (typeof value === 'string' && !value.isWellFormed());
    return value;
  });
  return found;
}
