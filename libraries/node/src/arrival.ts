// The producer's attributes of a message, taken from ours.

import { ANNOTATION, DEAD_LETTER, FAILURE, text, unfolded, type Attributes } from './attributes.ts';
import { digitsOf, hasTwice, member, members, stringOf, type Child } from './json.ts';
import type { CameBack } from './metadata.ts';
import { hasIllegal } from './text.ts';

const U32_MAX = 0xffff_ffff;

type Check = (text: string) => boolean;

const isText: Check = (json) => stringOf(json) !== undefined;
const isU32: Check = (json) => digitsOf(json, U32_MAX) !== undefined;
const isU64: Check = (json) => /^\d+$/.test(json) && BigInt(json) < 1n << 64n;
const isLegal: Check = (json) => !hasIllegal(stringOf(json) ?? '\0');
const isCode: Check = (json) => /^[A-Z_]{1,64}$/.test(stringOf(json) ?? '');
const isBoolean: Check = (json) => json === 'true' || json === 'false';
const isObject: Check = (json) => json.startsWith('{');
const orNull = (check: Check): Check => (json) => json === 'null' || check(json);

/** The members of `Failure` that this version knows. */
const OF_FAILURE: Readonly<Record<string, Check>> = {
  type: isText, details: isText, kind: isText, retry_after_seconds: isU64, failed_at: isLegal,
  source_message_id: isLegal, source_queue_arn: isLegal, first_sent_time: isLegal, new_generation: isBoolean,
  generation_before: isU32, due_at: isLegal, attempts: isU32, verdict: isCode, stage: isText, explanation: isText,
  folded_attributes: isObject,
};
const OF_DEAD_LETTER: Readonly<Record<string, Check>> = {
  stage: isText, cause: isCause, attempts: orNull(isU32), redrive_generation: orNull(isU32),
  held_seconds: orNull(isU32), redrive_count: orNull(isU32), first_sent_time: orNull(isText),
  dead_lettered_at: isText, source_queue_arn: orNull(isText), sqs_message_id: isText, fingerprint: isText,
  folded_attributes: isObject,
};
const REQUIRED_OF_DEAD_LETTER = ['stage', 'cause', 'dead_lettered_at', 'sqs_message_id', 'fingerprint'];

/**
 * `Failure` is reserved, so it is never the producer's, and on the source queue nobody believes it; but what it folds
 * is put back. `DeadLetter`, `ErrorType` and `ErrorDetails` are ours only if `DeadLetter` is a document that we can
 * have written.
 */
export function takenApart(all: Attributes): { attributes: Attributes; cameBack: CameBack | undefined } {
  const others = new Map(all);
  others.delete(FAILURE);
  const failure = documentOf(text(all.get(FAILURE)), OF_FAILURE);
  const folded = failure && member(failure, 'folded_attributes');
  // A hand-off folds nothing: what one says that it folds somebody has made up.
  const folds = failure?.some(({ name }) => name === 'verdict' || name === 'due_at');
  const whole = (folds && folded !== undefined && unfolded(others, folded)) || others;
  return unannotated(whole) ?? { attributes: whole, cameBack: undefined };
}

function unannotated(attributes: Attributes): { attributes: Attributes; cameBack: CameBack } | undefined {
  const json = text(attributes.get(DEAD_LETTER));
  const record = documentOf(json, OF_DEAD_LETTER, REQUIRED_OF_DEAD_LETTER);
  // The annotator writes no white space before it.
  if (record === undefined || !json?.startsWith('{')) {
    return undefined;
  }
  const others = new Map([...attributes].filter(([name]) => !ANNOTATION.includes(name)));
  const whole = unfolded(others, member(record, 'folded_attributes') ?? '{}');
  // The annotator annotates nothing that has an annotation still.
  if (whole === undefined || unannotated(whole) !== undefined) {
    return undefined;
  }
  return { attributes: whole, cameBack: { generationBefore: digitsOf(member(record, 'redrive_generation'), U32_MAX) } };
}

/** The members of a document that we can have written; a later version may have written more. */
function documentOf(
  json: string | undefined, known: Readonly<Record<string, Check>>, required: readonly string[] = [],
): readonly Child[] | undefined {
  const of = json === undefined ? undefined : members(json);
  const ours = of?.filter(({ name }) => Object.hasOwn(known, name)) ?? [];
  const isOurs =
    of?.every(({ name }) => name.isWellFormed()) &&
    !hasTwice(ours) &&
    ours.every(({ name, text }) => known[name]?.(text)) &&
    required.every((name) => ours.some((child) => child.name === name));
  return isOurs ? of : undefined;
}

function isCause(json: string): boolean {
  return documentOf(json, { type: isText, message: isText, unverified: isBoolean }, ['type', 'message']) !== undefined;
}
