// The hand-off in the attribute `Failure`: why a message failed. Byte for byte as the Rust functions write it.

import { ATTRIBUTES_MAX, FAILURE, MESSAGE_BYTES_MAX, sizeOf, type Attribute, type Attributes } from './attributes.ts';
import type { CameBack } from './metadata.ts';
import { ERROR_TYPE_BYTES_MAX, bytesOf, clean, largestFitting } from './text.ts';
import { rfc3339 } from './time.ts';

/** Bytes of the document. */
export const FAILURE_BYTES_MAX = 1024;

export type Kind = 'transient' | 'permanent' | 'snooze' | 'not_started' | 'held';

export interface HandOff {
  /** The error's name. */
  readonly type: string;
  /** For people. */
  readonly details: string;
  readonly kind: Kind;
  /** Whole seconds. */
  readonly retryAfterSeconds: number | undefined;
}

/** The delivery that failed. */
export interface Delivery {
  readonly failedAt: number;
  readonly sourceMessageId: string;
  readonly sourceQueueArn: string;
  readonly sentAt: number;
  readonly cameBack: CameBack | undefined;
}

/**
 * The producer's attributes and the document, its texts cut to the room that is left; none if it has no place: ten
 * attributes, or not even its bare bones within the size limit.
 */
export function attached(
  handOff: HandOff, delivery: Delivery, producers: Attributes, bodyBytes: number,
): Attributes | undefined {
  const left = MESSAGE_BYTES_MAX - bodyBytes - sizeOf(producers);
  if (producers.size >= ATTRIBUTES_MAX) {
    return undefined;
  }
  const cut = (bytes: number): Attribute => ({ dataType: 'String', value: json(handOff, delivery, bytes) });
  const fits = (bytes: number) => {
    const document = cut(bytes);
    return sizeOf(new Map([[FAILURE, document]])) <= left && bytesOf(document.value as string) <= FAILURE_BYTES_MAX;
  };
  const bytes = largestFitting(FAILURE_BYTES_MAX, fits);
  return bytes === undefined ? undefined : new Map(producers).set(FAILURE, cut(bytes));
}

/** What is undefined is not written. */
function json({ type, details, kind, retryAfterSeconds }: HandOff, delivery: Delivery, bytes: number): string {
  const said = (text: string, max: number) => clean(text, max) || undefined;
  return JSON.stringify({
    type: said(type, ERROR_TYPE_BYTES_MAX),
    details: said(details, bytes),
    kind,
    retry_after_seconds: retryAfterSeconds,
    failed_at: rfc3339(delivery.failedAt),
    source_message_id: delivery.sourceMessageId,
    source_queue_arn: delivery.sourceQueueArn,
    first_sent_time: rfc3339(delivery.sentAt),
    new_generation: delivery.cameBack && true,
    generation_before: delivery.cameBack?.generationBefore,
  });
}
