// A batch: each record's outcome is its own, and nothing is lost.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { PermanentError, RetryAfter, Snooze, Unavailable } from '../src/index.ts';
import { Permitted } from '../src/permits.ts';
import { FakeQueue, NEVER, START, Setup, envelope, id, record, ten, text } from './world.ts';

const on = (n: number, fail: () => unknown) => (message: any) => (message.data.n === n ? fail() : undefined);
const reject = (value: unknown) => on(3, () => Promise.reject(value));
const busy = () => {
  throw Object.assign(new Error('come later'), { name: 'Db.Busy' });
};

test('what a handler says is what is handed off, and the others are done', async () => {
  const setup = new Setup();
  const answers = [
    () => undefined,
    busy,
    () => Promise.reject(new PermanentError('no such order')),
    () => Promise.reject(new RetryAfter(1.5, 'soon', { type: 'Http.429' })),
    () => Promise.reject(new Snooze(60)),
    () => Promise.reject(new Unavailable('down', { retryAfterSeconds: 30 })),
  ];
  const failed = await setup.process(ten().slice(0, 6), (message) => answers[message.data.n]?.());
  assert.deepEqual(failed, []);
  const found = Object.values(setup.failures()).map(({ type, details, kind, retry_after_seconds }) => [type, details, kind, retry_after_seconds]);
  assert.deepEqual(found, [
    ['Db.Busy', 'come later', 'transient', undefined],
    ['PermanentError', 'no such order', 'permanent', undefined],
    ['Http.429', 'soon', 'transient', 2],
    ['Snooze', undefined, 'snooze', 60],
    ['Unavailable', 'down', 'transient', 30],
  ]);
});

test('the handler gets the message, and cannot change what is handed off', async () => {
  const setup = new Setup();
  const attributes = JSON.parse('{"__proto__":{"dataType":"String","stringValue":"odd"},"bytes":{"dataType":"Binary","binaryValue":"AP8="}}');
  const one = record(1, envelope(1, { retry_attempt: 2, redrive_generation: 3 }), { messageAttributes: attributes });
  await setup.process([one], (message) => {
    assert.deepEqual([message.messageId, message.idempotencyKey, message.retryAttempt, message.redriveGeneration], [id(1), id(1), 2, 3]);
    assert.deepEqual(message.data, { n: 1 });
    assert.equal(message.record, one);
    assert.equal(message.remainingTimeInMillis(), 25_000);
    assert.deepEqual(Object.keys(message.attributes), ['__proto__', 'bytes']);
    assert.deepEqual(message.attributes['__proto__'], { dataType: 'String', value: 'odd' });
    (message.attributes.bytes?.value as Uint8Array).fill(1);
    delete (message as any).attributes.bytes;
    (message as any).record.body = 'changed';
    return Promise.reject(new Error('x'));
  });
  const [sent] = setup.queue.confirmed;
  assert.equal(sent?.body, envelope(1, { retry_attempt: 2, redrive_generation: 3 }));
  assert.deepEqual([...(sent?.attributes.keys() ?? [])], ['__proto__', 'bytes', 'Failure']);
  assert.deepEqual(sent?.attributes.get('bytes'), { dataType: 'Binary', value: Buffer.from([0, 255]) });
});

test('a bad handler says a clear reason, and harms nobody else', async () => {
  const circular: any = {};
  circular.message = circular;
  const nasty = new Proxy({}, { get: () => { throw new Error('canary'); }, getPrototypeOf: () => { throw new Error('canary'); } });
  const cases: [string, (message: any) => unknown, RegExp][] = [
    ['a synchronous throw', on(3, busy), /^Db.Busy come later$/],
    ['undefined', reject(undefined), /^NotAnError the handler threw undefined instead of an error$/],
    ['null', reject(null), /^NotAnError the handler threw null instead of an error$/],
    ['a symbol', reject(Symbol('x')), /^NotAnError the handler threw symbol instead of an error$/],
    ['a string', reject('no stock'), /^NotAnError no stock$/],
    ['a throwing getter', reject({ name: 'X', get message() { throw new Error('canary'); } }), /^NotAnError the handler threw something that cannot be read$/],
    ['a proxy', reject(nasty), /^NotAnError the handler threw something that cannot be read$/],
    ['a message that is no text', reject(circular), /^NotAnError the handler threw an object that is no error$/],
    ['lone surrogates', reject(new Error('a\ud800b\udc00')), /^Error a\ufffdb\ufffd$/],
    ['2 MB', reject(new Error('é'.repeat(1_000_000))), /^Error é{300,}…$/],
    ['a thenable that throws', on(3, () => ({ get then() { throw new RangeError('no then'); } })), /^RangeError no then$/],
    ['an error of another realm', reject({ name: 'AbortError', message: 'aborted' }), /^AbortError aborted$/],
    ['an empty name', reject(Object.assign(new Error('x'), { name: '' })), /^undefined x$/],
    ['a wrong argument of ours', on(3, () => new Snooze(Number.NaN)), /^RangeError Snooze takes a number of seconds, 0 or more$/],
    ['no JSON', on(3, () => JSON.parse('{')), /^SyntaxError /],
  ];
  for (const [name, handle, expected] of cases) {
    const setup = new Setup();
    assert.deepEqual(await setup.process(ten(), handle), [], name);
    const failures = setup.failures();
    assert.deepEqual(Object.keys(failures), ['3'], name);
    assert.match(`${failures[3]?.type} ${failures[3]?.details}`, expected, name);
    assert.equal(failures[3]?.kind, 'transient', name);
    const [sent] = setup.queue.confirmed;
    assert.ok(Buffer.byteLength(sent?.attributes.get('Failure')?.value as string) <= 1024, name);
    assert.ok(!JSON.stringify([setup.lines, failures]).includes('canary'), name);
    assert.equal(setup.lines.at(-1)?.Processed, 9, name);
  }
});

test('an error\'s name is logged only if it stands in the source', async () => {
  class OrderError extends Error {
    override name = 'OrderError';
  }
  for (const [error, logged] of [
    [new OrderError(), 'OrderError'],
    [new TypeError(), 'TypeError'],
    [new PermanentError('', { type: 'Order.Unknown' }), 'Order.Unknown'],
    [new PermanentError('', { type: 'order 4711 of Ms Canary' }), 'FromTarget'],
    [Object.assign(new Error(), { name: 'AccessDenied' }), 'FromTarget'],
  ] as const) {
    const setup = new Setup();
    await setup.process([record(3)], reject(error));
    assert.equal(setup.lines[0]?.error_type, logged);
    assert.equal(setup.failures()[3]?.type, error.name);
  }
});

test('a record that cannot be read is reported, and an invalid message is handed off', async () => {
  const broken = [
    record(0, ''),
    record(1, envelope(1), { attributes: { SentTimestamp: 'x' } }),
    record(2, envelope(2), { messageAttributes: { a: { dataType: 'Binary', stringValue: 'x' } } }),
    record(3, 'a\ud800'),
    record(4, envelope(4), { eventSourceARN: '' }),
    record(5, envelope(5), { messageAttributes: { a: { dataType: 'Binary', binaryValue: '!' } } }),
    record(6, envelope(6), { messageAttributes: null as never, attributes: null as never }),
    record(7, 'not JSON'),
    record(8, envelope(8, { retry_attempt: '1' })),
    record(9),
  ];
  const setup = new Setup();
  let called = 0;
  assert.deepEqual(await setup.process(broken, () => (called += 1)), [0, 1, 2, 3, 4, 5, 6].map((n) => `sqs-${n}`).filter((name) => name !== 'sqs-6'));
  assert.equal(called, 2);
  assert.deepEqual(setup.told(), { 'not JSON': 'InvalidMessage permanent', 8: 'InvalidMessage permanent' });
  assert.equal(setup.failures()[8]?.details, '/metadata/retry_attempt is not an integer from 0 to 1000, written in digits');
  assert.equal(setup.lines.filter(({ event }) => event === 'unreadable_record').length, 6);
  const withNull = [record(1, envelope(1), { messageAttributes: { a: null as never } }), record(2, envelope(2))];
  assert.deepEqual(await new Setup().process(withNull, () => undefined), ['sqs-1']);
});

test('what is no event of SQS fails as a whole', async () => {
  for (const event of [undefined, null, {}, { Records: 1 }]) {
    await assert.rejects(new Setup().process((event as any)?.Records ?? (undefined as never), () => {}), /expected an SQS event/);
  }
  await assert.rejects(new Setup().process([record(0), record(1, 'x', { messageId: '' })], () => {}), /record 1 of the event has no messageId/);
});

test('ten attributes leave no place for the reason: the record is reported', async () => {
  const attributes = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`a${n}`, text('x')]));
  const setup = new Setup();
  const records = [record(0, envelope(0), { messageAttributes: attributes }), record(1)];
  assert.deepEqual(await setup.process(records, busy), ['sqs-0']);
  assert.deepEqual(setup.told(), { 1: 'Db.Busy transient' });
  assert.equal(setup.lines.find(({ event }) => event === 'not_confirmed')?.code, 'NoPlaceForFailure');
});

test('one mebibyte leaves no place, and a little less leaves one for the bare bones', async () => {
  const body = (bytes: number) => envelope(0, {}, { n: 0, x: 'x'.repeat(bytes - Buffer.byteLength(envelope(0, {}, { n: 0, x: '' }))) });
  const bare = new Setup();
  assert.deepEqual(await bare.process([record(0, body(1_048_576 - 10))], busy), ['sqs-0']);
  assert.deepEqual(await bare.process([record(0, body(1_048_576 - 260))], reject('x'.repeat(900)).bind(null)), []);
  const tight = new Setup();
  const long = () => { throw new Error('x'.repeat(2000)); };
  assert.deepEqual(await tight.process([record(0, body(1_048_576 - 320))], long), []);
  const failure = tight.failures()[0];
  assert.match(failure?.details, /^x+…$/);
  const [sent] = tight.queue.confirmed;
  const attribute = sent?.attributes.get('Failure')?.value as string;
  assert.equal(Buffer.byteLength(attribute) + 'FailureString'.length, 320);
});

test('a handler that never settles is cut off, and what was not started is said so', async () => {
  const setup = new Setup({ MAX_CONCURRENCY: '1', RETRY_POLICY: '{"circuit_breaker":false}' });
  let signal: AbortSignal | undefined;
  const hang = on(2, () => NEVER);
  const failed = await setup.process(ten(), (message) => {
    signal = message.signal;
    return hang(message);
  });
  assert.deepEqual([failed, setup.clock.seconds], [[], 25]);
  const expected = Object.fromEntries([3, 4, 5, 6, 7, 8, 9].map((n) => [n, 'NotStarted not_started']));
  assert.deepEqual(setup.told(), { 2: 'Timeout transient', ...expected });
  assert.equal(signal?.aborted, true);
  assert.match(signal?.reason.message, /did not answer/);
});

test('three at a time a hung record holds up nobody else', async () => {
  const setup = new Setup({ MAX_CONCURRENCY: '3' });
  const slow = on(5, () => setup.clock.pass(24));
  const hang = on(2, () => NEVER);
  assert.deepEqual(await setup.process(ten(), (message) => hang(message) ?? slow(message)), []);
  assert.deepEqual([setup.told(), setup.clock.seconds], [{ 2: 'Timeout transient' }, 25]);
});

test('what is said after the cut-off is too late, and harms nothing', async () => {
  const setup = new Setup();
  let late: (error: Error) => void = () => {};
  await setup.process([record(0)], () => new Promise((_, rejected) => (late = rejected)));
  late(new Error('too late'));
  await setup.process([record(1)], () => {});
  assert.deepEqual(setup.told(), { 0: 'Timeout transient' });
});

test('a handler that blocks its thread leaves the others not started', async () => {
  const setup = new Setup({ MAX_CONCURRENCY: '4' });
  await setup.process(ten(), on(1, () => setup.clock.block(26)));
  const rest = Object.fromEntries([2, 3, 4, 5, 6, 7, 8, 9].map((n) => [n, 'NotStarted not_started']));
  assert.deepEqual(setup.told(), rest);
});

test('a short invocation keeps half of it for the sends', async () => {
  const setup = new Setup();
  await setup.process([record(0)], () => NEVER, 4);
  assert.equal(setup.clock.seconds, 2);
});

test('a blip is called again at once, as often as the policy says, and spends nothing', async () => {
  const immediate = (more: object) => ({ RETRY_POLICY: JSON.stringify({ immediate: { max_attempts: 2, delay_ms: 100 }, ...more }) });
  const run = async (settings: Record<string, string>, fail: (call: number) => unknown) => {
    const setup = new Setup(settings);
    let calls = 0;
    await setup.process([record(0)], () => fail((calls += 1)));
    return [calls, setup.told()[0] ?? 'done', setup.clock.seconds];
  };
  assert.deepEqual(await run(immediate({}), (call) => (call < 3 ? busy() : undefined)), [3, 'done', 0.2]);
  assert.deepEqual(await run(immediate({}), busy), [3, 'Db.Busy transient', 0.2]);
  assert.deepEqual(await run(immediate({ non_retryable: ['Db.*'] }), busy), [1, 'Db.Busy transient', 0]);
  assert.deepEqual(await run(immediate({ retryable: ['Http.*'] }), busy), [1, 'Db.Busy transient', 0]);
  assert.deepEqual(await run(immediate({ retryable: ['?b.B*'] }), busy), [3, 'Db.Busy transient', 0.2]);
  assert.deepEqual(await run(immediate({}), () => Promise.reject(new PermanentError())), [1, 'PermanentError permanent', 0]);
  assert.deepEqual(await run(immediate({}), () => Promise.reject(new RetryAfter(1))), [1, 'RetryAfter transient', 0]);
  // The further call is cut off, and the error that is known counts.
  assert.deepEqual(await run(immediate({}), (call) => (call < 2 ? busy() : NEVER)), [2, 'Db.Busy transient', 24.9]);
});

test('a target that is down is not called: its messages are held, and a probe finds it back', async () => {
  const setup = new Setup();
  let calls = 0;
  const down = () => {
    calls += 1;
    throw new Unavailable('down');
  };
  await setup.process(ten(), down);
  assert.equal(setup.lines.find(({ event }) => event === 'circuit_opened')?.outages, 10);
  await setup.process(ten(), down);
  assert.equal(calls, 10);
  assert.equal(setup.told()[0], 'CircuitOpen held');
  assert.match(setup.failures()[0]?.details, /^not called: the target has been down since 2026-07-25T17:20:00\.000000Z$/);
  setup.clock.block(15);
  await setup.process(ten(), down);
  assert.equal(calls, 11, 'one probe');
  assert.equal(setup.told()[0], 'Unavailable held', 'it was this side\'s question');
  assert.equal(setup.told()[1], 'CircuitOpen held');
  setup.clock.block(30);
  const before = setup.queue.confirmed.length;
  await setup.process(ten(), () => void (calls += 1));
  assert.deepEqual([calls, setup.queue.confirmed.length], [21, before], 'a slow start, and all are done');
  assert.deepEqual(setup.lines.map(({ event }) => event).filter((event) => event !== 'batch'), ['circuit_opened', 'probe_failed', 'circuit_closed']);
});

test('an environment that has just begun learns of an outage by a message that was held', async () => {
  const setup = new Setup();
  let calls = 0;
  const held = (n: number) => record(n, envelope(n, { held_seconds: 60, held_since: '2026-07-25T17:00:00.000001Z' }));
  await setup.process([held(0), record(1), record(2)], () => {
    calls += 1;
    throw new Unavailable();
  });
  assert.equal(calls, 1);
  assert.deepEqual(setup.told(), { 0: 'Unavailable held', 1: 'CircuitOpen held', 2: 'CircuitOpen held' });
  assert.match(setup.failures()[1]?.details, /17:00:00\.000001Z$/);
  // What was held for as long as it may be is called whatever is known.
  const full = record(3, envelope(3, { held_seconds: 86_400 }));
  await setup.process([full], () => Promise.reject(new Unavailable()));
  assert.equal(setup.told()[3], 'Unavailable transient');
});

test('a probe that hangs is held, and so is what waits for it', async () => {
  const setup = new Setup();
  const held = record(0, envelope(0, { held_seconds: 60, held_since: '2026-07-25T17:00:00Z' }));
  await setup.process([held, record(1)], () => NEVER);
  assert.deepEqual(setup.told(), { 0: 'Timeout held', 1: 'CircuitOpen held' });
});

test('a batch that has grown large is called so many at a time, and packed', async () => {
  const setup = new Setup({ MAX_CONCURRENCY: '7', RETRY_POLICY: '{"circuit_breaker":false}' });
  let [now, most] = [0, 0];
  const records = Array.from({ length: 95 }, (_, n) => record(n));
  const failed = await setup.process(records, async () => {
    most = Math.max(most, (now += 1));
    await setup.clock.pass(0.01);
    now -= 1;
    throw new Error('x');
  });
  assert.deepEqual([failed, most, setup.queue.confirmed.length], [[], 7, 95]);
  assert.deepEqual(setup.queue.requests.map(({ length }) => length), [10, 10, 10, 10, 10, 10, 10, 10, 10, 5]);
});

test('a send that is refused is reported, and only that', async () => {
  const refused = { fault: 'refused', code: 'AccessDenied' } as const;
  const setup = new Setup({}, new FakeQueue([undefined, refused, undefined]));
  assert.deepEqual(await setup.process(ten().slice(0, 3), busy), ['sqs-1']);
  assert.equal(setup.lines.find(({ event }) => event === 'not_confirmed')?.code, 'AccessDenied');
  assert.equal(setup.lines.at(-1)?.HandedOff, 2);
});

test('a blip near the end is not called again', async () => {
  const setup = new Setup({ RETRY_POLICY: JSON.stringify({ immediate: { max_attempts: 2, delay_ms: 100 } }) });
  let calls = 0;
  await setup.process([record(0)], async () => {
    calls += 1;
    await setup.clock.pass(4.85);
    throw Object.assign(new Error(), { name: 'Db.Busy' });
  }, 10);
  assert.deepEqual([calls, setup.told(), setup.clock.seconds], [1, { 0: 'Db.Busy transient' }, 4.85]);
});

test('the earliest moment counts that held messages tell, and none of long ago', async () => {
  const since = (moment: string) => ({ held_seconds: 60, held_since: `2026-07-25T${moment}Z` });
  const down = () => Promise.reject(new Unavailable());
  const setup = new Setup();
  await setup.process([record(0, envelope(0, since('17:10:00'))), record(1, envelope(1, since('17:00:00'))), record(2)], down);
  assert.match(setup.failures()[2]?.details, /17:00:00\.000000Z$/);
  // The longest delay, and as long on the queue.
  const attributes = { SentTimestamp: String(START - 1_800_000), ApproximateReceiveCount: '1' };
  const later = new Setup();
  await later.process([record(0, envelope(0, since('16:40:00')), { attributes }), record(1)], down);
  assert.equal(later.told()[1], 'Unavailable transient');
});

test('a permit is used once', () => {
  const told: unknown[] = [];
  const permitted = new Permitted({ epoch: 0, isProbe: false }, (_, error) => void told.push(error), undefined);
  permitted.record(undefined);
  permitted.cutOff();
  permitted.giveBack();
  assert.deepEqual(told, [undefined]);
});
