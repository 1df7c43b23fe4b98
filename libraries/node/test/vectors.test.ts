// The rules that other languages have, too: schemas/vectors/README.md. A file that is missing fails its test.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { accept } from '../src/accept.ts';
import type { Attributes } from '../src/attributes.ts';
import { Breaker, type Change, type Permit } from '../src/breaker.ts';
import { PermanentError, RetryAfter, Snooze, Unavailable, errorOf, type HandlerError } from '../src/errors.ts';
import { handedOff, refusal, type Sending } from '../src/hand-off.ts';
import { Message } from '../src/message.ts';
import type { Outcome } from '../src/permits.ts';
import { readPolicy } from '../src/policy.ts';
import { recordsOf, type SqsRecord } from '../src/record.ts';
import { readSettings } from '../src/settings.ts';
import { spread } from '../src/spread.ts';
import { parseRfc3339 } from '../src/time.ts';

function read(file: string): any[] {
  const url = new URL(`../../../schemas/vectors/${file}`, import.meta.url);
  const vectors = JSON.parse(readFileSync(url, 'utf8'));
  assert.ok(vectors.length > 0, file);
  return vectors;
}

interface HandOffVector {
  readonly name: string;
  readonly now: string;
  readonly settings?: Record<string, string>;
  readonly policy?: object;
  readonly record: SqsRecord;
  /** `<fill>` in the body stands for this text, as often as it takes until the body has so many bytes. */
  readonly body_filled?: { readonly with: string; readonly to_bytes: number };
  readonly outcome?: any;
  readonly expect: Record<string, any>;
}

test('each record is handed off as the vectors say', () => {
  const wrong = read('hand-offs.json').flatMap((vector: HandOffVector) => {
    try {
      assert.deepEqual(found(vector), vector.expect);
      return [];
    } catch (error) {
      return [`${vector.name}: ${(error as Error).message}`];
    }
  });
  assert.deepEqual(wrong, []);
});

function found({ now, settings = {}, policy, record, body_filled, outcome }: HandOffVector): Record<string, unknown> {
  const moment = parseRfc3339(now) as number;
  const queue = { INTERMEDIATE_DLQ_URL: 'https://sqs.invalid/0/intermediate' };
  const { idSources } = readSettings({ ...queue, ...settings, RETRY_POLICY: policy && JSON.stringify(policy) });
  const [received] = recordsOf({ Records: [{ ...record, body: filled(record.body, body_filled) }] }).readable;
  assert.ok(received, 'the record can be read');
  const opened = accept(idSources, received);
  if ('why' in opened) {
    const { outgoing } = refusal(opened, moment);
    const failure = outgoing && JSON.parse(outgoing.attributes.get('Failure')?.value as string);
    assert.deepEqual(failure && [failure.kind, failure.type], failure && ['permanent', 'InvalidMessage']);
    return { invalid: true };
  }
  const { messageId, idempotencyKey, retryAttempt, redriveGeneration, attributes } = new Message(opened, AbortSignal.any([]), () => 0);
  const message = {
    message_id: messageId,
    idempotency_key: idempotencyKey,
    retry_attempt: retryAttempt,
    redrive_generation: redriveGeneration,
    attributes: written(new Map(Object.entries(attributes))),
  };
  if (outcome.success) {
    return { message, done: true };
  }
  return { message, ...sent(handedOff(opened, notDone(outcome), moment)) };
}

function filled(body: string, fill: HandOffVector['body_filled']): string {
  const times = fill && (fill.to_bytes - Buffer.byteLength(body) + '<fill>'.length) / Buffer.byteLength(fill.with);
  return fill ? body.replace('<fill>', fill.with.repeat(times ?? 0)) : body;
}

function sent({ outgoing }: Sending): Record<string, unknown> {
  if (outgoing === undefined) {
    return { no_place: true };
  }
  const { attributes, messageGroupId, traceHeader } = outgoing;
  const group = messageGroupId !== undefined && { message_group_id: messageGroupId };
  const trace = traceHeader !== undefined && { trace_header: traceHeader };
  return { hand_off: { attributes: written(attributes), ...group, ...trace } };
}

function written(attributes: Attributes): Record<string, unknown> {
  return Object.fromEntries([...attributes].map(([name, { dataType: DataType, value }]) => {
    const of = typeof value === 'string' ? { StringValue: value } : { BinaryValue: Buffer.from(value).toString('base64') };
    return [name, { DataType, ...of }];
  }));
}

function notDone(outcome: any): Exclude<Outcome, { is: 'success' }> {
  if (outcome.not_started) {
    return { is: 'not started' };
  }
  if (outcome.held) {
    return { is: 'held', since: parseRfc3339(outcome.held.since) as number };
  }
  if (outcome.probed) {
    const { since, error } = outcome.probed;
    return { is: 'held', since: parseRfc3339(since) as number, probed: thrown(error) };
  }
  return { is: 'failure', error: thrown(outcome.error) };
}

/** As a handler throws it. */
function thrown({ kind, type, details = '', retry_after_seconds: after }: any): HandlerError {
  if (kind === 'permanent') {
    return errorOf(new PermanentError(details, { type }));
  }
  if (kind === 'snooze') {
    return errorOf(new Snooze(after, details, { type }));
  }
  if (kind === 'unavailable') {
    return errorOf(new Unavailable(details, { type, retryAfterSeconds: after }));
  }
  const plain = Object.assign(new Error(details), { name: type });
  return errorOf(after === undefined ? plain : new RetryAfter(after, details, { type }));
}

test('the circuit breaker goes through its states as the vectors say', () => {
  const wrong = read('breaker.json').flatMap(({ name, circuit_breaker, steps }) => {
    const breaker = new Breaker(readPolicy(JSON.stringify({ circuit_breaker })).circuitBreaker ?? assert.fail());
    const permits = new Map<string, Permit>();
    try {
      steps.forEach((step: any, index: number) => {
        const result = stepped(breaker, permits, step);
        const since = breaker.openSince === undefined ? null : breaker.openSince - EPOCH;
        assert.deepEqual([result, since], [step.expect, step.open_since_ms], `step ${index}: ${JSON.stringify(step)}`);
      });
      return [];
    } catch (error) {
      return [`${name}: ${(error as Error).message}`];
    }
  });
  assert.deepEqual(wrong, []);
});

const EPOCH = Date.UTC(2026, 0);

function stepped(breaker: Breaker, permits: Map<string, Permit>, step: any): unknown {
  const now = EPOCH + step.at_ms;
  if (step.ask !== undefined) {
    const permission = breaker.ask(now);
    if (typeof permission === 'string') {
      return permission;
    }
    permits.set(step.ask, permission);
    return permission.isProbe ? 'probe' : 'call';
  }
  if (step.record !== undefined) {
    const { permit, met, message_id, tenant } = step.record;
    const change = breaker.record(permits.get(permit) ?? assert.fail(permit), met, message_id, tenant, now);
    return change === undefined ? null : changed(change);
  }
  if (step.give_back !== undefined) {
    breaker.giveBack(permits.get(step.give_back) ?? assert.fail(step.give_back));
    return null;
  }
  breaker.learn(EPOCH + step.learn.down_since_ms, EPOCH + step.learn.told_at_ms, now);
  return null;
}

function changed(change: Change): object {
  if (change.is === 'opened') {
    return { opened: { calls: change.calls, outages: change.outages, probe_in_ms: change.probeIn } };
  }
  if (change.is === 'probe_failed') {
    return { probe_failed: { probe_in_ms: change.probeIn } };
  }
  return { closed: { open_for_ms: change.openFor, probes: change.probes } };
}

test('a draw is the one that all languages make', () => {
  for (const { name, message_id: messageId, generation, retries } of read('backoff.json')) {
    for (const { attempt, shortest_seconds, longest_seconds, delay_seconds } of retries) {
      const drawn = spread({ messageId, generation, attempt }, shortest_seconds, longest_seconds);
      assert.equal(drawn, delay_seconds, `${name}, retry ${attempt}`);
    }
  }
});

test('a policy is taken or refused as far as a handler follows it', () => {
  const ours = /^\/(?:circuit_breaker|immediate|retryable|non_retryable|preset)/;
  for (const { name, document, text, refused = [] } of read('policies.json')) {
    const wrong = refused.filter((pointer: string) => ours.test(pointer));
    const policy = () => readPolicy(text ?? JSON.stringify(document));
    if (wrong.length === 0) {
      assert.ok(refused.includes('') || policy(), name);
      continue;
    }
    assert.throws(policy, ({ message }: Error) => {
      const pointers = message.replace('is refused: ', '').split('; ').map((one) => one.split(' ')[0]);
      assert.deepEqual([...new Set(pointers)].sort(), wrong, name);
      return true;
    });
  }
});
