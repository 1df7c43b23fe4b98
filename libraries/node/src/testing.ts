/**
 * A handler on one message, without AWS: what would be handed off?
 *
 * ```ts
 * const result = await tryMessage(handler, { data: { order: 17 } });
 * assert.equal(result.handOff?.failure.kind, 'permanent');
 * ```
 */

import { randomUUID } from 'node:crypto';

import type { Attribute } from './attributes.ts';
import { Breaker } from './breaker.ts';
import { SYSTEM_CLOCK } from './clock.ts';
import type { Outgoing } from './delivery.ts';
import { HANDLE, handlerIn, type Handle, type Handler, type LambdaContext } from './handler.ts';
import type { SqsRecord } from './record.ts';
import { readSettings } from './settings.ts';

/** A message to try; with neither `data` nor `body` nor `record` it is an envelope with an empty `data`. */
export interface Trial {
  /** What an envelope is made around. */
  readonly data?: unknown;
  /** Further members of the envelope's `metadata`, such as `retry_attempt`. */
  readonly metadata?: Readonly<Record<string, unknown>>;
  /** The body as it is, instead of an envelope. */
  readonly body?: string;
  /** The producer's message attributes. */
  readonly attributes?: Readonly<Record<string, Attribute>>;
  /** A record as Lambda gives it, instead of all of the above. */
  readonly record?: SqsRecord;
  /** Settings as in the environment, such as `ENVELOPE` and `RETRY_POLICY`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** What is left of the invocation: the handler is cut off 5 s before that, or after half of it. */
  readonly seconds?: number;
}

/** What has become of it. */
export interface Result {
  /** The target is done with it: nothing is sent. */
  readonly done: boolean;
  /** Whether the handler was called: a message that is invalid does not come to it. */
  readonly called: boolean;
  /** What would be sent to the intermediate DLQ. */
  readonly handOff?: HandedOff;
  /** It would be reported as failed, without a reason: it cannot be read, or has no place for one. SQS moves it. */
  readonly reported: boolean;
  /** The lines of logs and metrics. */
  readonly lines: readonly Readonly<Record<string, unknown>>[];
}

export interface HandedOff {
  /** The attribute `Failure`, read. */
  readonly failure: {
    readonly type?: string;
    readonly details?: string;
    readonly kind: 'transient' | 'permanent' | 'snooze' | 'not_started' | 'held';
    readonly retry_after_seconds?: number;
  };
  readonly body: string;
  /** All message attributes, `Failure` among them. */
  readonly attributes: Readonly<Record<string, Attribute>>;
}

/**
 * Runs what `createHandler` was given, or has made of it, on one message. Each trial has a circuit breaker of its own.
 */
export function tryMessage<Data, Context extends LambdaContext>(
  handle: Handle<Data, Context>, trial?: Trial,
): Promise<Result>;
export function tryMessage<Context extends LambdaContext>(handler: Handler<Context>, trial?: Trial): Promise<Result>;
export async function tryMessage<Data, Context extends LambdaContext>(
  handler: Handle<Data, Context> | Handler<Context>, trial: Trial = {},
): Promise<Result> {
  const { [HANDLE]: inside } = handler as { readonly [HANDLE]?: Handle<Data, Context> };
  const handle = inside ?? (handler as Handle<Data, Context>);
  const settings = readSettings({ INTERMEDIATE_DLQ_URL: 'https://sqs.invalid/0/intermediate-dlq', ...trial.settings });
  const sent: Outgoing[] = [];
  const lines: Readonly<Record<string, unknown>>[] = [];
  let called = false;
  const { circuitBreaker } = settings.policy;
  const world = {
    settings,
    queue: { send: async (entries: readonly Outgoing[]) => entries.map((entry) => void sent.push(entry)) },
    clock: SYSTEM_CLOCK,
    breaker: circuitBreaker && new Breaker(circuitBreaker),
    write: (line: string) => void lines.push(JSON.parse(line)),
  };
  const one = handlerIn<Data, Context>(() => world, (message, context) => {
    called = true;
    return handle(message, context);
  });
  const end = Date.now() + 1000 * (trial.seconds ?? 30);
  const context = { getRemainingTimeInMillis: () => Math.max(0, end - Date.now()) } as Context;
  const answer = await one({ Records: [recordOf(trial)] }, context);
  const reported = answer.batchItemFailures.length > 0;
  const handOff = sent[0] && handedOff(sent[0]);
  return { done: handOff === undefined && !reported, called, ...(handOff && { handOff }), reported, lines };
}

function handedOff({ body, attributes }: Outgoing): HandedOff {
  const failure = JSON.parse(attributes.get('Failure')?.value as string) as HandedOff['failure'];
  return { failure, body, attributes: Object.fromEntries(attributes) };
}

function recordOf({ record, body, data = {}, metadata, attributes = {} }: Trial): SqsRecord {
  const envelope = () => JSON.stringify({ metadata: { message_id: randomUUID(), ...metadata }, data });
  return record ?? {
    messageId: randomUUID(),
    body: body ?? envelope(),
    attributes: { SentTimestamp: String(Date.now()), ApproximateReceiveCount: '1' },
    messageAttributes: Object.fromEntries(Object.entries(attributes).map(([name, of]) => [name, written(of)])),
    eventSourceARN: 'arn:aws:sqs:eu-west-1:000000000000:source',
  };
}

function written({ dataType, value }: Attribute): SqsRecord['messageAttributes'][string] {
  return typeof value === 'string' ? { dataType, stringValue: value } : { dataType, binaryValue: base64(value) };
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('base64');
}
