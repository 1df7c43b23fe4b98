// Message attributes, and which of them SQS takes: "Amazon SQS message metadata" in the Amazon SQS Developer Guide.

import { childrenOf, hasTwice, member, stringOf } from './json.ts';
import { bytesOf, hasIllegal } from './text.ts';

/** `String`, `Number` or `Binary`, each with an optional `.label`; bytes are the value of `Binary`. */
export interface Attribute {
  readonly dataType: string;
  readonly value: string | Uint8Array;
}

/** By name. A map, since `__proto__` is a name that SQS takes. */
export type Attributes = ReadonlyMap<string, Attribute>;

export const ATTRIBUTES_MAX = 10;
export const MESSAGE_BYTES_MAX = 1_048_576;

/** The names that are ours. */
export const FAILURE = 'Failure';
export const REDELIVER = 'Redeliver';
export const DEAD_LETTER = 'DeadLetter';
export const ANNOTATION: readonly string[] = [DEAD_LETTER, 'ErrorType', 'ErrorDetails'];

export function text(attribute: Attribute | undefined): string | undefined {
  return typeof attribute?.value === 'string' ? attribute.value : undefined;
}

/** What attributes take of the message's limit. */
export function sizeOf(attributes: Attributes): number {
  return [...attributes].reduce((sum, [name, { dataType, value }]) => {
    return sum + bytesOf(name) + bytesOf(dataType) + (typeof value === 'string' ? bytesOf(value) : value.byteLength);
  }, 0);
}

/**
 * Why SQS would refuse it, by a name for logs. What its documentation leaves open it may take, as it has done before.
 */
export function whyRefused(name: string, { dataType, value }: Attribute): string | undefined {
  const isBinary = dataType.startsWith('Binary');
  if (!isAttributeName(name)) {
    return 'AttributeName';
  }
  if (!/^(?:String|Number|Binary)/.test(dataType) || [...dataType].length > 256) {
    return 'AttributeType';
  }
  if (hasIllegal(dataType) || (typeof value === 'string' && hasIllegal(value))) {
    return 'IllegalCharacter';
  }
  if ((typeof value === 'string') === isBinary) {
    return 'AttributeValue';
  }
  if (value.length === 0) {
    return 'EmptyAttribute';
  }
  return dataType.startsWith('Number') && !MAY_BE_NUMBER.test(value as string) ? 'NotANumber' : undefined;
}

const MAY_BE_NUMBER = /^\p{White_Space}*[+-]?(?:inf|infinity|nan|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)\p{White_Space}*$/iu;

export function isAttributeName(name: string): boolean {
  return (
    /^(?:[\w.-]|[^\0-\x7F])+$/.test(name) &&
    /^[\x00-\x7F\p{Alphabetic}\p{N}]+$/u.test(name) &&
    [...name].length <= 256 &&
    name.split('.').every((part) => part !== '') &&
    !/^(?:AWS|Amazon)\./i.test(name)
  );
}

/** Whether SQS takes it by its documentation, with nothing left open. */
function isSurelyTaken(name: string, attribute: Attribute): boolean {
  const { dataType, value } = attribute;
  return (
    whyRefused(name, attribute) === undefined &&
    /^[\x00-\x7F]{1,255}$/.test(name) &&
    bytesOf(dataType) < 256 &&
    /^(?:String|Number|Binary)(?:\..+)?$/s.test(dataType) &&
    (!/^Number(?:\.|$)/.test(dataType) || isDocumentedNumber(value as string))
  );
}

/** At most 38 digits of precision, from 10^-128 to 10^126; zeros at the ends are no digits of precision. */
function isDocumentedNumber(number: string): boolean {
  const [, whole = '', fraction = ''] = /^-?(\d+)(?:\.(\d+))?$/.exec(number) ?? [];
  const digits = whole + fraction;
  const trimmed = digits.replace(/^0+/, '');
  const precise = trimmed.replace(/0+$/, '');
  // The power of ten of its first digit.
  const power = whole.length - (digits.length - trimmed.length) - 1;
  const isWithin = power >= -128 && (power < 126 || (power === 126 && precise === '1'));
  return whole !== '' && (precise === '' || (precise.length <= 38 && isWithin));
}

/**
 * The attributes beside one of our documents, together with those that the document folds: `folded` is the text of that
 * member. None if we cannot have folded them: SQS would not surely take them, one has the name of another, or they are
 * more than ten.
 */
export function unfolded(others: Attributes, folded: string): Attributes | undefined {
  if (!folded.startsWith('{')) {
    return undefined;
  }
  // Of two with one name the last one counts, as for every reader of maps.
  const found = new Map(childrenOf(folded).map((child) => [child.name, attributeOf(child.text)]));
  const whole = new Map(others);
  for (const [name, attribute] of found) {
    if (attribute === undefined || name === FAILURE || whole.has(name) || !isSurelyTaken(name, attribute)) {
      return undefined;
    }
    whole.set(name, attribute);
  }
  return whole.size <= ATTRIBUTES_MAX ? whole : undefined;
}

function attributeOf(folded: string): Attribute | undefined {
  const found = childrenOf(folded).filter(({ name }) => ['data_type', 'text', 'base64'].includes(name));
  const [dataType, value, base64] = ['data_type', 'text', 'base64'].map((name) => stringOf(member(found, name)));
  const hasOneValue = (value === undefined) !== (base64 === undefined);
  if (!folded.startsWith('{') || hasTwice(found) || dataType === undefined || !hasOneValue) {
    return undefined;
  }
  const bytes = base64 === undefined ? undefined : bytesOfBase64(base64);
  const either = value ?? bytes;
  return either === undefined ? undefined : { dataType, value: either };
}

/** Node.js reads any text as base64; what it would not write so is none. */
export function bytesOfBase64(base64: string): Uint8Array | undefined {
  const bytes = Buffer.from(base64, 'base64');
  return bytes.toString('base64') === base64 ? bytes : undefined;
}
