// The testing helper: what would be handed off?

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createHandler, type Message } from '../src/index.ts';
import { tryMessage } from '../src/testing.ts';
import { NEVER, id, record } from './world.ts';

test('a message is made around data, or is what it is', async () => {
  let found: Message | undefined;
  const handler = createHandler(async (message) => void (found = message));
  const result = await tryMessage(handler, { data: { n: 1 }, metadata: { retry_attempt: 2 }, attributes: { a: { dataType: 'Binary', value: new Uint8Array([0, 255]) } } });
  assert.deepEqual([result.done, result.called, result.reported, result.handOff], [true, true, false, undefined]);
  assert.deepEqual([found?.data, found?.retryAttempt], [{ n: 1 }, 2]);
  assert.deepEqual(found?.attributes.a, { dataType: 'Binary', value: new Uint8Array([0, 255]) });
  const plain = { ENVELOPE: 'optional', MESSAGE_ID_POINTER: '/order' };
  await tryMessage(handler, { body: '{"order":17}', settings: plain });
  assert.deepEqual([found?.data, found?.idempotencyKey, found?.body], [{ order: 17 }, '17', '{"order":17}']);
  await tryMessage(handler, { record: record(7) });
  assert.equal(found?.messageId, id(7));
});

test('a plain body that is no JSON is a permanent error for who wants its data, without the value', async () => {
  const settings = { ENVELOPE: 'optional' };
  const { handOff } = await tryMessage(({ data }) => data, { body: 'canary', settings });
  assert.deepEqual([handOff?.failure.type, handOff?.failure.kind, handOff?.failure.details], ['InvalidData', 'permanent', 'the body is not JSON']);
  const { done } = await tryMessage(({ body }) => assert.equal(body, 'canary'), { body: 'canary', settings });
  assert.equal(done, true);
});

test('it says what is invalid, what has no place, and what hangs', async () => {
  const invalid = await tryMessage(() => {}, { body: 'x' });
  assert.deepEqual([invalid.called, invalid.handOff?.failure.type], [false, 'InvalidMessage']);
  const attributes = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`a${n}`, { dataType: 'String', value: 'x' }]));
  const noPlace = await tryMessage(() => Promise.reject(new Error()), { attributes });
  assert.deepEqual([noPlace.done, noPlace.reported, noPlace.handOff], [false, true, undefined]);
  const hangs = await tryMessage(() => NEVER, { seconds: 0.1 });
  assert.equal(hangs.handOff?.failure.type, 'Timeout');
  await assert.rejects(tryMessage(() => {}, { settings: { RETRY_POLICY: 'x' } }), /RETRY_POLICY is not JSON/);
});
