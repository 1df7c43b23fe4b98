// A record to call the handler for, or why it must not come to it.

import { takenApart } from './arrival.ts';
import type { Attributes } from './attributes.ts';
import { parse, type Parsed } from './envelope.ts';
import { InvalidMessage, inItsGeneration, type CameBack, type Metadata } from './metadata.ts';
import type { IdSources } from './plain.ts';
import type { Received } from './record.ts';

/** A valid message. */
export interface Accepted {
  readonly received: Received;
  readonly parsed: Parsed;
  /** In its generation. */
  readonly metadata: Metadata;
  readonly cameBack: CameBack | undefined;
}

/** One that is not what it has to be. */
export interface Refused {
  readonly received: Received;
  /** With which it is handed off. */
  readonly attributes: Attributes;
  readonly cameBack: CameBack | undefined;
  readonly why: string;
}

export function accept(sources: IdSources | undefined, received: Received): Accepted | Refused {
  const { attributes, cameBack } = takenApart(received.attributes);
  try {
    const parsed = parse(sources, received.body, attributes, received.id);
    return { received, parsed, metadata: inItsGeneration(parsed.metadata, cameBack), cameBack };
  } catch (error) {
    if (!(error instanceof InvalidMessage)) {
      throw error;
    }
    return { received, attributes, cameBack, why: error.message };
  }
}
