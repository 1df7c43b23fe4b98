// The records of an SQS event. One that cannot be read fails alone.

import { bytesOfBase64, type Attribute, type Attributes } from './attributes.ts';

/** An SQS event as Lambda gives it, as far as it is read. */
export interface SqsEvent {
  readonly Records: readonly SqsRecord[];
}

export interface SqsRecord {
  readonly messageId: string;
  readonly receiptHandle?: string;
  readonly body: string;
  readonly attributes: SqsSystemAttributes;
  readonly messageAttributes: Readonly<Record<string, SqsRecordAttribute>>;
  readonly eventSourceARN: string;
}

export interface SqsSystemAttributes {
  readonly SentTimestamp: string;
  readonly ApproximateReceiveCount?: string;
  readonly ApproximateFirstReceiveTimestamp?: string;
  readonly SenderId?: string;
  readonly MessageGroupId?: string;
  readonly AWSTraceHeader?: string;
  readonly DeadLetterQueueSourceArn?: string;
}

export interface SqsRecordAttribute {
  readonly dataType: string;
  readonly stringValue?: string | undefined;
  /** Base64. */
  readonly binaryValue?: string | undefined;
}

/** What Lambda reads of the answer: which records come back. */
export interface SqsBatchResponse {
  batchItemFailures: { itemIdentifier: string }[];
}

/** A message as it was received. */
export interface Received {
  /** SQS's id of it. */
  readonly id: string;
  readonly body: string;
  readonly attributes: Attributes;
  /** When it was sent to the first queue. */
  readonly sentAt: number;
  readonly messageGroupId: string | undefined;
  readonly traceHeader: string | undefined;
  readonly queueArn: string;
  /** As it came, for the handler. */
  readonly record: SqsRecord;
}

export interface Records {
  readonly readable: readonly Received[];
  /** SQS's ids of the others: they are reported as failed. */
  readonly unreadable: readonly string[];
}

const YEAR_10_000 = 253_402_300_800_000;
const YEAR_0 = -62_167_219_200_000;

/** @throws if it is no SQS event, or a record could not even be reported: SQS delivers all of it again. */
export function recordsOf(event: unknown): Records {
  const records = (event as SqsEvent | null | undefined)?.Records;
  if (!Array.isArray(records)) {
    const how = 'invoke this function by an event source mapping on its queue';
    throw new Error(`expected an SQS event, {"Records":[…]}; ${how}`);
  }
  const [readable, unreadable]: [Received[], string[]] = [[], []];
  records.forEach((record: SqsRecord | null, index) => {
    const id = record?.messageId;
    // An empty identifier would fail the whole batch all the same.
    if (typeof id !== 'string' || id === '') {
      throw new Error(`record ${index} of the event has no messageId, so it could not be reported as failed`);
    }
    const received = receivedOf(record as SqsRecord);
    if (received === undefined) {
      unreadable.push(id);
    } else {
      readable.push(received);
    }
  });
  return { readable, unreadable };
}

function receivedOf(record: SqsRecord): Received | undefined {
  const { messageId: id, body, eventSourceARN: queueArn } = record;
  const system: Partial<SqsSystemAttributes> = record.attributes ?? {};
  const texts = [id, body, queueArn, ...Object.values(system).filter((value) => value != null)];
  const attributes = attributesOf(record.messageAttributes ?? {});
  const sentAt = moment(system.SentTimestamp);
  const counts = /^\+?\d+$/.test(system.ApproximateReceiveCount ?? '1');
  const firstReceived = system.ApproximateFirstReceiveTimestamp;
  const isSound =
    texts.every((text) => typeof text === 'string' && text.isWellFormed()) &&
    Boolean(body && queueArn) &&
    counts &&
    (firstReceived == null || moment(firstReceived) !== undefined);
  if (!isSound || attributes === undefined || sentAt === undefined) {
    return undefined;
  }
  const { MessageGroupId: messageGroupId, AWSTraceHeader: traceHeader } = system;
  return { id, body, attributes, sentAt, messageGroupId, traceHeader, queueArn, record };
}

/** None if one has no value of its type: dropping it would lose the producer's data. */
function attributesOf(of: Readonly<Record<string, SqsRecordAttribute | null>>): Attributes | undefined {
  const attributes = new Map<string, Attribute>();
  for (const [name, attribute] of Object.entries(of)) {
    const { dataType, stringValue, binaryValue } = attribute ?? {};
    const isBinary = typeof dataType === 'string' && dataType.startsWith('Binary');
    const value = isBinary && typeof binaryValue === 'string' ? bytesOfBase64(binaryValue) : stringValue;
    const isText = typeof value === 'string' && value.isWellFormed();
    if (typeof dataType !== 'string' || !(isBinary ? value instanceof Uint8Array : isText)) {
      return undefined;
    }
    attributes.set(name, { dataType, value: value as Attribute['value'] });
  }
  return attributes;
}

/** Milliseconds since 1970, of a moment that RFC 3339 can say: it is written into the message. */
function moment(text: unknown): number | undefined {
  const at = typeof text === 'string' && /^[+-]?\d+$/.test(text) ? Number(text) : Number.NaN;
  return at >= YEAR_0 && at < YEAR_10_000 ? at : undefined;
}
