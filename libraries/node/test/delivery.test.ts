// Sends: confirmed entry by entry, tried again where that helps, and never a storm of copies.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { deliver, type EntryError, type EntryOutcome, type Outgoing } from '../src/delivery.ts';
import { FakeQueue, NEVER, START, VirtualClock } from './world.ts';

const message = (body: string, more: Partial<Outgoing> = {}): Outgoing => {
  return { body, attributes: new Map(), messageGroupId: undefined, traceHeader: undefined, ...more };
};
const error = (fault: EntryError['fault']): EntryError => ({ fault, code: fault });
const [refused, throttled, notSent, service, lost] = (['refused', 'throttled', 'not sent', 'service', 'no answer'] as const).map(error) as [
  EntryError, EntryError, EntryError, EntryError, EntryError,
];

async function delivered(queue: FakeQueue, messages = [message('a'), message('b')], seconds = 20) {
  const clock = new VirtualClock();
  const outcomes = await clock.run(deliver(queue, clock, START + 1000 * seconds, messages));
  const bodies = queue.requests.map((entries) => entries.map(({ body }) => body).join(''));
  return { codes: outcomes.map((outcome) => outcome?.code ?? 'confirmed'), bodies, seconds: clock.seconds };
}

test('what is confirmed is not sent again, and what is refused neither', async () => {
  assert.deepEqual(await delivered(new FakeQueue()), { codes: ['confirmed', 'confirmed'], bodies: ['ab'], seconds: 0 });
  const one = await delivered(new FakeQueue([undefined, refused]));
  assert.deepEqual(one, { codes: ['confirmed', 'refused'], bodies: ['ab'], seconds: 0 });
});

test('what is throttled or did not get there is sent again soon, and alone', async () => {
  for (const fault of [throttled, notSent]) {
    const again = await delivered(new FakeQueue([fault, undefined], [fault]));
    assert.deepEqual(again, { codes: ['confirmed', 'confirmed'], bodies: ['ab', 'a', 'a'], seconds: 0.1475 });
  }
});

test('throttles go on until the deadline, with longer and longer waits', async () => {
  const all = Array.from({ length: 99 }, () => [throttled]);
  const { codes, bodies, seconds } = await delivered(new FakeQueue(...all), [message('a')]);
  assert.deepEqual([codes, bodies.length], [['throttled'], 15]);
  assert.ok(seconds < 20, String(seconds));
});

test('what may have been done is sent once more, after a pause, and no further', async () => {
  for (const fault of [service, lost]) {
    const twice = await delivered(new FakeQueue([fault], [fault], [undefined]), [message('a')]);
    assert.deepEqual(twice, { codes: [fault.code], bodies: ['a', 'a'], seconds: 2 });
    const once = await delivered(new FakeQueue([fault]), [message('a')]);
    assert.deepEqual(once, { codes: ['confirmed'], bodies: ['a', 'a'], seconds: 2 });
  }
  // No refusal of the second takes back that the first may have been done.
  const { codes } = await delivered(new FakeQueue([lost], [refused]), [message('a')]);
  assert.deepEqual(codes, ['no answer']);
});

test('a confirmation stands, whatever a later answer says', async () => {
  const clock = new VirtualClock();
  const requests: string[] = [];
  // The second request is made at 10 s; its answer for `b` is waited for.
  const answers: [number, (EntryOutcome | undefined)[]][] = [[11, [undefined, service]], [2, [lost, undefined]]];
  const late = {
    async send(entries: readonly Outgoing[]) {
      const [seconds, outcomes] = answers[requests.push(entries.map(({ body }) => body).join('')) - 1] ?? assert.fail();
      await clock.pass(seconds);
      return outcomes;
    },
  };
  const outcomes = await clock.run(deliver(late, clock, START + 20_000, [message('a'), message('b')]));
  assert.deepEqual([outcomes, requests, clock.seconds], [[undefined, undefined], ['ab', 'ab'], 12]);
});

test('a request without an answer is made once more after half of the time, and a late answer counts', async () => {
  const never = await delivered(new FakeQueue(NEVER, NEVER), [message('a')]);
  assert.deepEqual(never, { codes: ['NoAnswerBeforeDeadline'], bodies: ['a', 'a'], seconds: 20 });
  const again = await delivered(new FakeQueue(NEVER), [message('a')]);
  assert.deepEqual(again, { codes: ['confirmed'], bodies: ['a', 'a'], seconds: 10 });
});

test('an answer with too few entries confirms only those', async () => {
  const { codes, bodies } = await delivered(new FakeQueue([undefined], [undefined]));
  assert.deepEqual([codes, bodies], [['confirmed', 'confirmed'], ['ab', 'b']]);
});

test('one batch that waits holds up no other', async () => {
  const many = Array.from({ length: 95 }, (_, n) => message(String(n)));
  const first: EntryOutcome[] = Array.from({ length: 10 }, () => throttled);
  const { codes, bodies } = await delivered(new FakeQueue(first), many);
  assert.ok(codes.every((code) => code === 'confirmed'));
  assert.deepEqual([bodies.length, bodies.at(-1)], [11, '0123456789']);
});

test('what SQS would refuse fails alone, and is not sent', async () => {
  const of = (name: string, dataType: string, value: string | Uint8Array) => message('x', { attributes: new Map([[name, { dataType, value }]]) });
  const wrong: [Outgoing, string][] = [
    [message(''), 'EmptyBody'],
    [message('\0'), 'IllegalCharacter'],
    [message('x'.repeat(1_048_577)), 'TooLarge'],
    [message('x', { attributes: new Map(Array.from({ length: 11 }, (_, n) => [`a${n}`, { dataType: 'String', value: 'x' }])) }), 'TooManyAttributes'],
    [of('a b', 'String', 'x'), 'AttributeName'],
    [of('AWS.a', 'String', 'x'), 'AttributeName'],
    [of('a..b', 'String', 'x'), 'AttributeName'],
    [of('a', 'Text', 'x'), 'AttributeType'],
    [of('a', 'Binary', 'x'), 'AttributeValue'],
    [of('a', 'String', new Uint8Array([1])), 'AttributeValue'],
    [of('a', 'String', '\ufffe'), 'IllegalCharacter'],
    [of('a', 'String', ''), 'EmptyAttribute'],
    [of('a', 'Number', 'x'), 'NotANumber'],
    [message('x', { messageGroupId: 'a b' }), 'MessageGroupId'],
    [message('x', { traceHeader: '' }), 'EmptyTraceHeader'],
    [message('x', { traceHeader: '\u0001' }), 'IllegalCharacter'],
  ];
  const right = [of('ä', 'String.json', 'x'), of('a', 'Number.int', ' +1e5 '), of('a', 'Binary_', new Uint8Array([0])), message('x', { messageGroupId: 'ü!' })];
  const { codes, bodies } = await delivered(new FakeQueue(), [...wrong.map(([one]) => one), ...right]);
  assert.deepEqual(codes, [...wrong.map(([, code]) => code), ...right.map(() => 'confirmed')]);
  assert.deepEqual(bodies, ['xxxx']);
});
