// The examples do what they say, with the package as a stranger imports it.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { IdempotencyItemAlreadyExistsError, IdempotencyItemNotFoundError } from '@aws-lambda-powertools/idempotency';
import { BasePersistenceLayer, type IdempotencyRecord } from '@aws-lambda-powertools/idempotency/persistence';
import { tryMessage } from '@redeliver/handler/testing';

import { handler as before } from '../examples/before.ts';
import { idempotent, type Order } from '../examples/idempotent.ts';
import { timed } from '../examples/middy.ts';
import { handler as orders } from '../examples/orders.ts';
import { id, record } from './world.ts';

process.env.INTERMEDIATE_DLQ_URL = 'https://sqs.invalid/0/intermediate';
const context = { getRemainingTimeInMillis: () => 30_000 };

test('ten lines before, and ten after', async () => {
  assert.deepEqual(await before({ Records: [{ messageId: 'm', body: 'not JSON' }] }), { batchItemFailures: [{ itemIdentifier: 'm' }] });
  const of = async (id: string) => (await tryMessage(orders, { data: { id } })).handOff?.failure;
  assert.equal(await of('17'), undefined);
  const { type, kind } = (await of('unknown')) ?? assert.fail();
  assert.deepEqual([type, kind], ['Order.Unknown', 'permanent']);
  assert.equal((await of('down'))?.kind, 'transient');
});

/** In memory, as DynamoDB does it. */
class Fake extends BasePersistenceLayer {
  readonly records = new Map<string, IdempotencyRecord>();

  protected async _getRecord(key: string): Promise<IdempotencyRecord> {
    return this.records.get(key) ?? Promise.reject(new IdempotencyItemNotFoundError());
  }

  protected async _putRecord(record: IdempotencyRecord): Promise<void> {
    const known = this.records.get(record.idempotencyKey);
    if (known !== undefined && !known.isExpired()) {
      throw new IdempotencyItemAlreadyExistsError('it is there', known);
    }
    this.records.set(record.idempotencyKey, record);
  }

  protected async _updateRecord(record: IdempotencyRecord): Promise<void> {
    this.records.set(record.idempotencyKey, record);
  }

  protected async _deleteRecord(record: IdempotencyRecord): Promise<void> {
    this.records.delete(record.idempotencyKey);
  }
}

test('with Powertools a copy of a message is charged once, and a failure is tried again', async () => {
  const store = new Fake();
  const charged: string[] = [];
  let isDown = true;
  const handler = idempotent(async ({ id }: Order) => {
    charged.push(id);
    if (isDown) {
      throw new Error('down');
    }
  }, store);
  const message = { data: { id: '17' }, metadata: { message_id: id(1) } };
  assert.equal((await tryMessage(handler, message)).handOff?.failure.details, 'down');
  isDown = false;
  for (const copy of [message, message, { ...message, metadata: { message_id: id(1), retry_attempt: 1 } }]) {
    assert.equal((await tryMessage(handler, copy)).done, true);
  }
  assert.deepEqual(charged, ['17', '17']);
  await tryMessage(handler, { ...message, metadata: { message_id: id(2) } });
  assert.equal(charged.length, 3);
});

test('with Powertools a copy that comes while the first is at work waits for its turn', async () => {
  const store = new Fake();
  let end: () => void = () => {};
  const handler = idempotent(() => new Promise((resolve) => (end = resolve)), store);
  const message = { data: { id: '17' }, metadata: { message_id: id(1) } };
  const first = tryMessage(handler, message);
  const { failure } = (await tryMessage(handler, message)).handOff ?? assert.fail();
  assert.deepEqual([failure.type, failure.kind], ['IdempotencyAlreadyInProgressError', 'transient']);
  end();
  assert.equal((await first).done, true);
});

test('middy is around the batch', async () => {
  const charged: string[] = [];
  let took = -1;
  const handler = timed(async (key) => void charged.push(key), (milliseconds) => (took = milliseconds));
  const lines: string[] = [];
  const { write } = process.stdout;
  process.stdout.write = ((line: string) => lines.push(line)) as never;
  try {
    const answer = await handler({ Records: [record(1), record(2)] }, context as never, {} as never);
    assert.deepEqual(answer, { batchItemFailures: [] });
  } finally {
    process.stdout.write = write;
  }
  assert.deepEqual(charged, [id(1), id(2)]);
  assert.ok(took >= 0);
  assert.equal(JSON.parse(lines.find((line) => line.includes('"batch"')) ?? '{}').Processed, 2);
});
