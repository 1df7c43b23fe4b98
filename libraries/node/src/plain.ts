// Plain messages: a body of any text, and what an envelope has as `metadata` beside it, in the attribute `Redeliver`.

import { createHash } from 'node:crypto';

import {
  ATTRIBUTES_MAX, FAILURE, MESSAGE_BYTES_MAX, REDELIVER, isAttributeName, sizeOf, text, unfolded, type Attributes,
} from './attributes.ts';
import { childrenOf, hasTwice, isJson, member, members, nestsTooDeep, stringOf } from './json.ts';
import { InvalidMessage, firstMetadata, isUuid, readMetadata, type Metadata } from './metadata.ts';
import { bytesOf } from './text.ts';

const NAMESPACE = Buffer.from('9d1ff0a25f0c5c1e8c386d9a5a1b2f47', 'hex');
/** What a header of every server takes: printable ASCII, without a space at an end. */
const KEY = /^(?! )[ -~]{1,256}(?<! )$/;
/** Kept free if a message is named at its first hand-off: `Failure` must find room. */
const FAILURE_ROOM_BYTES = 2048;

/** Where the ids of plain messages stand. */
export interface IdSources {
  readonly attribute: string | undefined;
  /** The names of a JSON Pointer. */
  readonly pointer: readonly string[] | undefined;
}

export interface Plain {
  readonly metadata: Metadata;
  readonly idempotencyKey: string;
  /** The producer's, whole. */
  readonly attributes: Attributes;
  /** Those with which it is handed off. */
  readonly handedOff: Attributes;
}

/** `firstId` is SQS's id of its first delivery. */
export function readPlain(sources: IdSources, body: string, attributes: Attributes, firstId: string): Plain {
  const redeliver = attributes.get(REDELIVER);
  if (redeliver === undefined) {
    const { messageId, key } = idOf(sources, body, attributes, firstId);
    const handedOff = named(attributes, bytesOf(body), messageId, key);
    return { metadata: firstMetadata(messageId), idempotencyKey: key ?? messageId, attributes, handedOff };
  }
  const others = new Map(attributes);
  others.delete(REDELIVER);
  return { ...readDocument(text(redeliver) ?? '', others), handedOff: attributes };
}

function readDocument(document: string, others: Attributes): Omit<Plain, 'handedOff'> {
  const of = members(document);
  // As deep as it could be inside an envelope.
  if (of === undefined || hasTwice(of) || nestsTooDeep(`[${document}]`)) {
    throw new InvalidMessage(`/${REDELIVER} is not a JSON object in a String attribute, with each member once`);
  }
  const key = member(of, 'idempotency_key');
  const idempotencyKey = stringOf(key);
  if (key !== undefined && !KEY.test(idempotencyKey ?? '')) {
    throw new InvalidMessage(`/${REDELIVER}/idempotency_key is not a string of 1 to 256 printable ASCII characters`);
  }
  const folded = member(of, 'folded_attributes');
  const names = folded === undefined ? [] : childrenOf(folded).map(({ name }) => name);
  const attributes = folded === undefined ? others : unfolded(others, folded);
  if (attributes === undefined || names.includes(REDELIVER)) {
    throw new InvalidMessage(`/${REDELIVER}/folded_attributes are not attributes that find their places again`);
  }
  const metadata = readMetadata(of, `/${REDELIVER}`);
  return { metadata, idempotencyKey: idempotencyKey ?? metadata.messageId, attributes };
}

/** With its id beside it, unless there is no place for that, or no room. */
function named(attributes: Attributes, bodyBytes: number, messageId: string, key: string | undefined): Attributes {
  const document = JSON.stringify({ message_id: messageId, idempotency_key: key });
  const withId = new Map(attributes).set(REDELIVER, { dataType: 'String', value: document });
  const hasRoom = bodyBytes + sizeOf(withId) + FAILURE_ROOM_BYTES <= MESSAGE_BYTES_MAX;
  return attributes.size <= ATTRIBUTES_MAX - 2 && hasRoom ? withId : attributes;
}

/** A producer's own id if there is one, else SQS's: as it is if it is a UUID, else the UUID that it becomes. */
export function idOf(
  sources: IdSources, body: string, attributes: Attributes, firstId: string,
): { messageId: string; key: string | undefined } {
  const inAttribute = sources.attribute === undefined ? undefined : text(attributes.get(sources.attribute));
  const id = inAttribute || inBody(sources, body) || ofCloudEvent(body) || firstId;
  return isUuid(id) ? { messageId: id, key: undefined } : { messageId: uuidOf(id), key: KEY.test(id) ? id : undefined };
}

/** A UUID of version 5. */
function uuidOf(name: string): string {
  const hash = createHash('sha1').update(NAMESPACE).update(name).digest();
  hash[6] = ((hash[6] as number) & 0x0f) | 0x50;
  hash[8] = ((hash[8] as number) & 0x3f) | 0x80;
  return hash.toString('hex', 0, 16).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

function inBody({ pointer }: IdSources, body: string): string | undefined {
  if (pointer === undefined || !isJson(body)) {
    return undefined;
  }
  let value: string | undefined = body.trim();
  for (const name of pointer) {
    value = value === undefined ? undefined : member(childrenOf(value), name);
  }
  // A number as it is written: 12345678901234567890 is not what a float makes of it.
  return value !== undefined && /^[-\d]/.test(value) ? value : stringOf(value);
}

/** `source` and `id`, which are unique together ("CloudEvents", version 1.0.2). No URI reference has a space. */
function ofCloudEvent(body: string): string | undefined {
  const of = members(body.replace(/^\p{White_Space}+/u, '')) ?? [];
  const [version, id, source] = ['specversion', 'id', 'source'].map((name) => stringOf(member(of, name)));
  return version && id && source && !source.includes(' ') ? `${source} ${id}` : undefined;
}

/** Why no id can stand in an attribute of this name, if so. */
export function whyNoIdAttribute(name: string): string | undefined {
  if (name === FAILURE || name === REDELIVER) {
    return 'is an attribute that redeliver itself writes';
  }
  return isAttributeName(name) ? undefined : 'is not the name of a message attribute';
}

/** The names of a JSON Pointer (RFC 6901) to a member; none if it is no such pointer. */
export function pointerOf(pointer: string): readonly string[] | undefined {
  const names = pointer.split('/').slice(1);
  const isSound = pointer.startsWith('/') && names.every((name) => /^(?:[^~]|~[01])*$/s.test(name));
  // In this order, or `~01` would become `/`.
  return isSound ? names.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~')) : undefined;
}
