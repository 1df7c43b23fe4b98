// A body as it came: an envelope `{"metadata":{…},"data":{…}}`, or a plain message.

import type { Attributes } from './attributes.ts';
import { hasTwice, member, members, nestsTooDeep } from './json.ts';
import { InvalidMessage, readMetadata, type Metadata } from './metadata.ts';
import { readPlain, type IdSources } from './plain.ts';

/** What a body and its attributes say. */
export interface Parsed {
  readonly metadata: Metadata;
  readonly idempotencyKey: string;
  /** The producer's, whole: for the handler. */
  readonly attributes: Attributes;
  /** Those with which it is handed off. */
  readonly handedOff: Attributes;
  /** The text of `data`; of a plain message its body. */
  readonly data: string;
  readonly isPlain: boolean;
}

/** Without sources of ids each message must be an envelope. */
export function parse(
  sources: IdSources | undefined, body: string, attributes: Attributes, firstId: string,
): Parsed {
  if (sources !== undefined && !looksLikeEnvelope(body)) {
    return { ...readPlain(sources, body, attributes, firstId), data: body, isPlain: true };
  }
  const top = members(body);
  if (top === undefined || hasTwice(top) || nestsTooDeep(body)) {
    throw new InvalidMessage('the body is not a JSON object of at most 128 levels, with each member once');
  }
  const metadata = members(member(top, 'metadata') ?? '');
  if (metadata === undefined || hasTwice(metadata)) {
    throw new InvalidMessage('/metadata is not an object with each member once');
  }
  const data = member(top, 'data');
  if (!data?.startsWith('{')) {
    throw new InvalidMessage('/data is not an object');
  }
  const read = readMetadata(metadata, '/metadata');
  return { metadata: read, idempotencyKey: read.messageId, attributes, handedOff: attributes, data, isPlain: false };
}

/** Whether it means to be one: what is wrong with it then is no reason to take it for a plain message. */
function looksLikeEnvelope(body: string): boolean {
  const top = members(body) ?? [];
  const hasId = (metadata: string) => members(metadata)?.some(({ name }) => name === 'message_id');
  return (
    top.some(({ name }) => name === 'data') && top.some(({ name, text }) => name === 'metadata' && hasId(text))
  );
}
