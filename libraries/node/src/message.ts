// What a handler gets.

import type { Attribute } from './attributes.ts';
import type { Accepted } from './accept.ts';
import { PermanentError } from './errors.ts';
import type { SqsRecord } from './record.ts';

/** A message on its way to a handler. It may come more than once: see {@link Message.idempotencyKey}. */
export class Message<Data = unknown> {
  /** The body as it was received. */
  readonly body: string;
  /** `metadata.message_id` as the producer wrote it; of a plain message the UUID that its id is, or becomes. */
  readonly messageId: string;
  /** The same for all copies of the message: the producer's own id, or {@link messageId} if that is all there is. */
  readonly idempotencyKey: string;
  /** Retries made so far: 0 at the first delivery. Copies of a message may differ in it. */
  readonly retryAttempt: number;
  /** How often it was sent back from the final DLQ. */
  readonly redriveGeneration: number;
  /** The producer's message attributes. */
  readonly attributes: Readonly<Record<string, Attribute>>;
  /** The record of the event, as Lambda gave it. */
  readonly record: SqsRecord;
  /** Aborted when the call is cut off, 5 s before the invocation's end: what is still done then, nobody waits for. */
  readonly signal: AbortSignal;
  readonly #text: string;
  readonly #remaining: () => number;
  #data: { readonly value: Data } | undefined;

  constructor({ parsed, metadata, received }: Accepted, signal: AbortSignal, remaining: () => number) {
    this.body = received.body;
    this.messageId = metadata.messageId;
    this.idempotencyKey = parsed.idempotencyKey;
    this.retryAttempt = metadata.retryAttempt;
    this.redriveGeneration = metadata.redriveGeneration;
    // Copies: what a handler changes must not change what is handed off. Without a prototype `__proto__` is a name,
    // too.
    const copies = [...parsed.attributes].map(([name, { dataType, value }]) => {
      return [name, { dataType, value: typeof value === 'string' ? value : Uint8Array.from(value) }] as const;
    });
    this.attributes = Object.setPrototypeOf(Object.fromEntries(copies), null) as Record<string, Attribute>;
    this.record = received.record;
    this.signal = signal;
    this.#text = parsed.data;
    this.#remaining = remaining;
  }

  /**
   * `data` of the envelope; of a plain message its body, parsed as JSON: what is none is a permanent `InvalidData`
   * error.
   */
  get data(): Data {
    try {
      this.#data ??= { value: JSON.parse(this.#text) as Data };
    } catch {
      // Not the parser's own words: they quote the text.
      throw new PermanentError('the body is not JSON', { type: 'InvalidData' });
    }
    return this.#data.value;
  }

  /** Until the call is cut off. */
  remainingTimeInMillis(): number {
    return this.#remaining();
  }
}
