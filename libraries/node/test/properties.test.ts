// What holds for anything: ids, texts, batches, and JSON as it stands in a text.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import fc from 'fast-check';

import type { Attribute } from '../src/attributes.ts';
import { pack, whyNotSendable, type Outgoing } from '../src/delivery.ts';
import { parse } from '../src/envelope.ts';
import { errorOf } from '../src/errors.ts';
import { attached } from '../src/failure.ts';
import { childrenOf, isJson, members, nestsTooDeep } from '../src/json.ts';
import { InvalidMessage, isUuid } from '../src/metadata.ts';
import { idOf, readPlain } from '../src/plain.ts';
import { spread } from '../src/spread.ts';
import { bytesOf, clean, hasIllegal, largestFitting } from '../src/text.ts';
import { parseRfc3339, rfc3339 } from '../src/time.ts';
import { tryMessage } from '../src/testing.ts';

const FIRST = '0a0b0c0d-1111-4222-8333-444455556666';
const anyText = () => fc.string({ unit: 'binary', maxLength: 200 });
/** With lone surrogates, which UTF-8 cannot hold. */
const anyUnits = () => fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 300 }).map((units) => String.fromCharCode(...units));
const NO_SOURCES = { attribute: undefined, pointer: undefined };

function holds<T extends [unknown, ...unknown[]]>(...given: Parameters<typeof fc.property<T>>): void {
  fc.assert(fc.property<T>(...given), { numRuns: 300 });
}

test('a cleaned text is legal, within its limit, and cut only if it must be', () => {
  holds(anyUnits(), fc.nat(400), (text, max) => {
    const cleaned = clean(text, max);
    const legal = [...text].map((character) => (hasIllegal(character) ? '\ufffd' : character)).join('');
    assert.ok(bytesOf(cleaned) <= max && !hasIllegal(cleaned) && cleaned.isWellFormed());
    if (bytesOf(legal) <= max) {
      assert.equal(cleaned, legal);
    } else if (max >= 3) {
      const kept = cleaned.slice(0, -1);
      assert.ok(cleaned.endsWith('…') && legal.startsWith(kept) && bytesOf(kept) + 3 + 4 > max);
    } else {
      assert.equal(cleaned, '');
    }
  });
});

test('the largest fitting number is found', () => {
  holds(fc.nat(2000), fc.integer({ min: -1, max: 2000 }), (wanted, limit) => {
    const expected = limit < 0 ? undefined : Math.min(wanted, limit);
    assert.equal(largestFitting(wanted, (bytes) => bytes <= limit), expected);
  });
});

test('every message gets an id and a key that a header takes, always the same', () => {
  holds(anyText(), fc.option(anyText(), { nil: undefined }), (body, inAttribute) => {
    const attributes = new Map<string, Attribute>(inAttribute ? [['Id', { dataType: 'String', value: inAttribute }]] : []);
    const sources = { attribute: 'Id', pointer: ['id'] };
    const { messageId, key } = idOf(sources, body, attributes, FIRST);
    assert.ok(isUuid(messageId));
    assert.ok(key === undefined || (/^[ -~]{1,256}$/.test(key) && key === key.trim()));
    assert.deepEqual(idOf(sources, `${body}`, new Map(attributes), FIRST), { messageId, key });
    if (inAttribute) {
      assert.equal(isUuid(inAttribute), messageId === inAttribute);
      assert.equal(idOf(sources, 'another', attributes, 'x').messageId, messageId);
    }
  });
});

test('a pointer finds what it names, as it is written', () => {
  const value = fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.bigInt(), fc.string(), fc.constant(null), fc.boolean(), fc.array(fc.nat()));
  holds(fc.array(anyText(), { minLength: 1, maxLength: 4 }), value, (names, id) => {
    const written = typeof id === 'bigint' ? String(id) : JSON.stringify(id);
    const body = names.reduceRight((inside, name) => `{"other":[1], ${JSON.stringify(name)} :\t${inside} }`, written);
    const { messageId } = idOf({ attribute: undefined, pointer: names }, body, new Map(), FIRST);
    const text = typeof id === 'string' ? id : written;
    const isId = typeof id === 'string' ? id !== '' : typeof id === 'number' || typeof id === 'bigint';
    const attributes = new Map([['Id', { dataType: 'String', value: text }]]);
    const expected = isId ? idOf({ attribute: 'Id', pointer: undefined }, '', attributes, FIRST).messageId : FIRST;
    // A name that the body has twice: the last one counts, and it is ours.
    assert.equal(messageId, names.includes('other') ? messageId : expected);
  });
});

test('whatever Redeliver is, a body is plain or refused, and comes through its first hand-off', () => {
  holds(anyText(), fc.option(anyText(), { nil: undefined }), (body, redeliver) => {
    const attributes = new Map<string, Attribute>(redeliver === undefined ? [] : [['Redeliver', { dataType: 'String', value: redeliver }]]);
    try {
      const first = readPlain(NO_SOURCES, body, attributes, FIRST);
      const next = readPlain(NO_SOURCES, body, first.handedOff, 'another');
      assert.deepEqual([next.metadata, next.idempotencyKey, next.attributes], [first.metadata, first.idempotencyKey, first.attributes]);
      assert.equal(next.handedOff, first.handedOff);
    } catch (error) {
      assert.ok(error instanceof InvalidMessage && redeliver !== undefined, String(error));
    }
  });
});

test('what stands in JSON is found as the parser finds it', () => {
  holds(fc.json({ maxDepth: 5 }), fc.nat(3), (json, spaces) => {
    const text = JSON.stringify(JSON.parse(json), null, spaces);
    const value: unknown = JSON.parse(text);
    const children = Object.fromEntries(childrenOf(text).map(({ name, text }) => [name, JSON.parse(text)]));
    assert.deepEqual(children, typeof value === 'object' && value !== null ? { ...value } : {});
    assert.equal(members(text) !== undefined, typeof value === 'object' && value !== null && !Array.isArray(value));
  });
  holds(anyText(), fc.integer({ min: 120, max: 135 }), (text, depth) => {
    const json = '['.repeat(depth) + JSON.stringify([text, '[{\\"']) + ']'.repeat(depth);
    assert.equal(nestsTooDeep(json), depth + 1 > 128);
  });
});

test('no text is too odd for a body', () => {
  const parts = fc.constantFrom('{', '}', '[', ']', ':', ',', '"', '\\', '"metadata"', '"data"', '"message_id"', `"${FIRST}"`, ' ', '\\u', '0', 'x', '\u00a0');
  holds(fc.array(parts, { maxLength: 30 }).map((all) => all.join('')), fc.boolean(), (body, isOptional) => {
    try {
      const { metadata, data, isPlain } = parse(isOptional ? NO_SOURCES : undefined, body, new Map(), FIRST);
      assert.ok(isUuid(metadata.messageId) && (isPlain ? data === body : isJson(data)));
    } catch (error) {
      assert.ok(error instanceof InvalidMessage, String(error));
    }
  });
});

test('a hand-off never breaks a limit, whatever an error says', () => {
  const delivery = { failedAt: 0, sourceMessageId: 'm', sourceQueueArn: 'q', sentAt: 0, cameBack: undefined };
  holds(anyUnits(), anyUnits(), fc.integer({ min: 1_048_000, max: 1_048_576 }), (name, message, bodyBytes) => {
    const { type, details } = errorOf(Object.assign(new Error(message), { name }));
    const handOff = { type, details, kind: 'transient', retryAfterSeconds: undefined } as const;
    const attributes = attached(handOff, delivery, new Map(), bodyBytes);
    if (attributes !== undefined) {
      const message = { body: 'x'.repeat(bodyBytes), attributes, messageGroupId: undefined, traceHeader: undefined };
      assert.equal(whyNotSendable(message), undefined);
      assert.ok(bytesOf(attributes.get('Failure')?.value as string) <= 1024);
    }
  });
});

test('packing breaks no limit, and loses and reorders nothing', () => {
  const bytes = fc.oneof(fc.integer({ min: 1, max: 2000 }), fc.integer({ min: 90_000, max: 120_000 }), fc.integer({ min: 500_000, max: 1_048_576 }));
  fc.assert(fc.property(fc.array(bytes, { maxLength: 40 }), (all) => {
    const messages = all.map((count): Outgoing => ({ body: 'x'.repeat(count), attributes: new Map(), messageGroupId: undefined, traceHeader: undefined }));
    const batches = pack(messages);
    assert.deepEqual(batches.flat().map((message) => messages.indexOf(message)), messages.map((_, index) => index));
    batches.forEach((batch, index) => {
      const total = batch.reduce((sum, { body }) => sum + body.length, 0);
      assert.ok(batch.length >= 1 && batch.length <= 10 && total <= 1_048_576);
      const next = batches[index + 1]?.[0];
      assert.ok(next === undefined || batch.length === 10 || total + next.body.length > 1_048_576, 'as full as it can be');
    });
  }), { numRuns: 30 });
});

test('a moment is read as it was written', () => {
  holds(fc.integer({ min: -62_167_219_200_000, max: 253_402_300_799_999 }), (moment) => {
    assert.equal(parseRfc3339(rfc3339(moment)), moment);
  });
  holds(fc.integer({ min: 0, max: 4_102_444_800_000 }), fc.nat(999), (milliseconds, micros) => {
    const written = new Date(milliseconds).toISOString().replace('Z', `${String(micros).padStart(3, '0')}Z`);
    assert.equal(rfc3339(parseRfc3339(written) as number), written);
  });
  for (const wrong of ['2026-02-29T00:00:00Z', '2026-07-25 17:20:00Z', '2026-07-25T24:00:00Z', '2026-07-25T17:20:60Z', '2026-07-25T17:20:00', '2026-07-25T17:20:00+24:00', '2026-07-25']) {
    assert.equal(parseRfc3339(wrong), undefined, wrong);
  }
  assert.equal(parseRfc3339('2016-12-31t18:59:60.25-05:00'), Date.UTC(2017, 0, 1) + 250);
  assert.equal(rfc3339(parseRfc3339('2026-07-25T19:20:00.123456789+02:00') as number), '2026-07-25T17:20:00.123456Z');
});

test('a draw stays within its bounds', () => {
  holds(fc.uuid(), fc.nat(100), fc.nat(1000), fc.nat(600_000), fc.nat(600_000), (messageId, generation, attempt, low, width) => {
    const drawn = spread({ messageId, generation, attempt }, low, low + width);
    assert.ok(drawn >= low && drawn <= low + width);
  });
});

test('whatever a handler throws, the message is handed off', async () => {
  await fc.assert(fc.asyncProperty(fc.anything({ withBigInt: true, withDate: true, withMap: true, withNullPrototype: true, withTypedArray: true }), async (thrown) => {
    const { handOff } = await tryMessage(() => Promise.reject(thrown));
    assert.equal(handOff?.failure.kind, 'transient');
    assert.ok(handOff.failure.type);
  }), { numRuns: 200 });
});
