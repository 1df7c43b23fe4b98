import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';

import type { Backoff, RetryPolicy } from '../lib/index.ts';
import { longestDelaySeconds, maxAttempts, worstCaseDelaySeconds, worstCaseSpanSeconds } from '../lib/policy.ts';
import { policyProblems } from '../lib/schemas.ts';

/** The pointers of all that is refused in a document, each once, sorted. */
function culprits(text: string): string[] {
  const sentences = policyProblems(JSON.parse(text) as RetryPolicy);
  const pointers = sentences.map((sentence) => {
    const [, pointer = '', unknown] = sentence.match(/^policy(\S*) (?:has the unknown member (.*)\.)?/) ?? [];
    const [, missing] = sentence.match(/must have required property '(\w+)'/) ?? [];
    const member = unknown ?? missing;
    return member === undefined ? pointer : `${pointer}/${member.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  });
  return [...new Set(pointers)].sort();
}

/** In the order of crates/core/src/policy/tests.rs, whose documents these are. */
describe('the documents of the functions own tests', () => {
  const accepted = [
    '{}',
    '{"max_attempts":7,"backoff":{"kind":"fixed","delay_seconds":30,"jitter":"none"},"max_age_seconds":86400,"retryable":["HttpStatus.5*"],"non_retryable":["HttpStatus.501","Panic"]}',
    '{"backoff":{"kind":"uniform"}}',
    '{"backoff":{"kind":"uniform","max_delay_seconds":60}}',
    '{"backoff":{"kind":"exponential","initial_delay_seconds":3}}',
    '{"backoff":{"kind":"exponential","initial_delay_seconds":3,"rate":1.5,"max_delay_seconds":80,"jitter":"half"}}',
    '{"backoff":{"kind":"fixed","delay_seconds":0}}',
    '{"backoff":{"kind":"schedule","delays_seconds":[1,20,300],"jitter":"none"}}',
    '{"max_attempts":5.0}',
    '{"max_attempts":7e0}',
    '{"max_age_seconds":1.2e3}',
    '{"backoff":{"kind":"schedule","delays_seconds":[1.0,9e2]}}',
    '{"max_attempts":0}',
    '{"max_attempts":1000}',
    '{"long_delays":true,"max_age_seconds":31536000,"backoff":{"kind":"schedule","delays_seconds":[901,43200],"jitter":"none"}}',
    '{"backoff":{"kind":"exponential","initial_delay_seconds":2,"offset_seconds":30,"jitter":{"kind":"additive","max_seconds":60}}}',
    '{"immediate":{"max_attempts":2,"delay_ms":100}}',
    '{"immediate":{"max_attempts":10,"delay_ms":10000}}',
    '{"preset":"durable_default"}',
    '{"preset":"durable_none"}',
    '{"preset":"durable_transient"}',
    '{"preset":"durable_resource_availability"}',
    '{"preset":"durable_critical"}',
    '{"preset":"durable_default","max_attempts":9}',
    '{"retryable":["HttpStatus.4*","Db.?","Exact"]}',
    '{"backoff":{"kind":"fixed","delay_seconds":900,"jitter":"none"}}',
  ];
  const immediate = (value: string): string => `{"immediate":${value}}`;
  const backoff = (value: string): string => `{"backoff":${value}}`;
  const jitter = (value: string): string => backoff(`{"kind":"fixed","delay_seconds":1,"jitter":${value}}`);
  const refused: [string, string[]][] = [
    ...['1001', '-1', '1.5', '"5"', 'null', '1e400', '99999999999999999999'].map((wrong): [string, string[]] => [
      `{"max_attempts":${wrong}}`,
      ['/max_attempts'],
    ]),
    [backoff('{"kind":"uniform","max_delay_seconds":901}'), ['/backoff/max_delay_seconds']],
    [backoff('{"kind":"exponential","initial_delay_seconds":901}'), ['/backoff/initial_delay_seconds']],
    [backoff('{"kind":"exponential","initial_delay_seconds":1,"max_delay_seconds":901}'), ['/backoff/max_delay_seconds']],
    [backoff('{"kind":"fixed","delay_seconds":901}'), ['/backoff/delay_seconds']],
    [backoff('{"kind":"schedule","delays_seconds":[900,901]}'), ['/backoff/delays_seconds/1']],
    ['{"max_atempts":3,"max_attempts":3,"a/b~c":1}', ['/a~1b~0c', '/max_atempts']],
    [backoff('{"kind":"uniform","rate":2}'), ['/backoff/rate']],
    [backoff('{"kind":"fixed","delay_seconds":1,"rate":2}'), ['/backoff/rate']],
    [backoff('{"kind":"exponential","initial_delay_seconds":1,"delay_seconds":2}'), ['/backoff/delay_seconds']],
    [backoff('{"kind":"schedule","delays_seconds":[1],"max_delay_seconds":2}'), ['/backoff/max_delay_seconds']],
    [backoff('{"kind":"uniform","jitter":"half"}'), ['/backoff/jitter']],
    [backoff('{}'), ['/backoff/kind']],
    [backoff('{"kind":"exponential"}'), ['/backoff/initial_delay_seconds']],
    [backoff('{"kind":"fixed"}'), ['/backoff/delay_seconds']],
    [backoff('{"kind":"schedule"}'), ['/backoff/delays_seconds']],
    ['[]', ['']],
    ['5', ['']],
    [backoff('"uniform"'), ['/backoff']],
    [backoff('{"kind":"linear"}'), ['/backoff/kind']],
    [backoff('{"kind":"exponential","initial_delay_seconds":0}'), ['/backoff/initial_delay_seconds']],
    [backoff('{"kind":"exponential","initial_delay_seconds":1,"rate":0.5}'), ['/backoff/rate']],
    [backoff('{"kind":"exponential","initial_delay_seconds":1,"rate":1e400}'), ['/backoff/rate']],
    [backoff('{"kind":"fixed","delay_seconds":1,"jitter":"some"}'), ['/backoff/jitter']],
    [backoff('{"kind":"schedule","delays_seconds":[]}'), ['/backoff/delays_seconds']],
    ['{"max_age_seconds":0}', ['/max_age_seconds']],
    ['{"max_age_seconds":1209601}', ['/max_age_seconds']],
    ['{"retryable":[]}', ['/retryable']],
    ['{"retryable":["A",""]}', ['/retryable/1']],
    ['{"non_retryable":"A"}', ['/non_retryable']],
    ['{"non_retryable":["A","A"]}', ['/non_retryable']],
    [backoff('{"kind":"exponential","initial_delay_seconds":61,"max_delay_seconds":60}'), ['/backoff/initial_delay_seconds']],
    ['{"retryable":["A","HttpStatus.4*"],"non_retryable":["B","HttpStatus.4*"]}', ['/non_retryable/1']],
    ['{"max_attempts":1001,"backoff":{"kind":"fixed","delay_seconds":901,"x":1}}', ['/backoff/delay_seconds', '/backoff/x', '/max_attempts']],
    ['{"long_delays":true,"backoff":{"kind":"uniform","max_delay_seconds":43201}}', ['/backoff/max_delay_seconds']],
    ['{"long_delays":false,"backoff":{"kind":"uniform","max_delay_seconds":901}}', ['/backoff/max_delay_seconds']],
    ['{"long_delays":true,"max_age_seconds":31536001}', ['/max_age_seconds']],
    ['{"long_delays":"yes"}', ['/long_delays']],
    [jitter('{"kind":"additive"}'), ['/backoff/jitter/max_seconds']],
    [jitter('{"max_seconds":5}'), ['/backoff/jitter/kind']],
    [jitter('{"kind":"full","max_seconds":5}'), ['/backoff/jitter/kind']],
    [jitter('{"kind":"additive","max_seconds":5,"min_seconds":1}'), ['/backoff/jitter/min_seconds']],
    [jitter('{"kind":"additive","max_seconds":901}'), ['/backoff/jitter/max_seconds']],
    [jitter('5'), ['/backoff/jitter']],
    [
      backoff('{"kind":"exponential","initial_delay_seconds":1,"max_delay_seconds":9,"jitter":{"kind":"additive","max_seconds":10}}'),
      ['/backoff/jitter/max_seconds'],
    ],
    [immediate('{"max_attempts":0,"delay_ms":1}'), ['/immediate/max_attempts']],
    [immediate('{"max_attempts":11,"delay_ms":1}'), ['/immediate/max_attempts']],
    [immediate('{"max_attempts":1,"delay_ms":10001}'), ['/immediate/delay_ms']],
    [immediate('{"max_attempts":1}'), ['/immediate/delay_ms']],
    [immediate('{"max_attempts":1,"delay_ms":1,"jitter":"full"}'), ['/immediate/jitter']],
    [immediate('true'), ['/immediate']],
    ['{"preset":"durable_default","backoff":{"kind":"uniform"}}', ['/backoff']],
    ['{"preset":"durable"}', ['/preset']],
  ];
  for (const document of accepted) {
    test(`accepted: ${document}`, () => assert.deepEqual(policyProblems(JSON.parse(document)), []));
  }
  for (const [document, expected] of refused) {
    test(`refused: ${document}`, () => assert.deepEqual(culprits(document), expected));
  }
});

test('what contradicts is said in the words of the functions', () => {
  const told = (policy: RetryPolicy): string[] => policyProblems(policy);
  const tooLong = 'is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true.';
  assert.deepEqual(told({ backoff: { kind: 'exponential', initial_delay_seconds: 1, offset_seconds: 901 } }), [`policy/backoff/offset_seconds ${tooLong}`]);
  assert.deepEqual(told({ max_age_seconds: 1_209_601 }), [
    'policy/max_age_seconds is more than 1209600, the longest retention of SQS: lower it, or set long_delays to true.',
  ]);
  assert.deepEqual(told({ preset: 'durable_none', backoff: { kind: 'uniform' } }), [
    'policy/backoff stands beside preset, which is a backoff: remove one of them.',
  ]);
  assert.deepEqual(
    told({ backoff: { kind: 'exponential', initial_delay_seconds: 1, max_delay_seconds: 9, jitter: { kind: 'additive', max_seconds: 10 } } }),
    ['policy/backoff/jitter/max_seconds is more than max_delay_seconds (900 unless set); lower it or raise the other.'],
  );
  // Once, not twice, where the schema has said it.
  assert.deepEqual(told({ backoff: { kind: 'fixed', delay_seconds: 43_201 } }), ['policy/backoff/delay_seconds must be <= 43200.']);
});

test('the presets are those of the functions', () => {
  const source = readFileSync(new URL('../../crates/core/src/policy/wire/preset.rs', import.meta.url), 'utf8');
  const arms = source.matchAll(/"(durable_\w+)" => \((\d+), (\d+), (\d+), ([\d.]+), "\w+"\)/g);
  const presets = [...arms].map(([, ...arm]) => arm);
  assert.equal(presets.length, 5);
  for (const [preset, calls, initial, max, rate] of presets) {
    const named = { preset: preset as NonNullable<RetryPolicy['preset']> };
    assert.equal(maxAttempts(named), Number(calls) - 1, preset);
    assert.equal(maxAttempts({ ...named, max_attempts: 7 }), 7);
    const written: RetryPolicy = {
      max_attempts: 7,
      backoff: { kind: 'exponential', initial_delay_seconds: Number(initial), max_delay_seconds: Number(max), rate: Number(rate) },
    };
    assert.equal(worstCaseDelaySeconds({ ...named, max_attempts: 7 }), worstCaseDelaySeconds(written), preset);
  }
  assert.equal(worstCaseDelaySeconds({ preset: 'durable_critical' }), 1 + 2 + 3 + 4 + 6 + 8 + 12 + 18 + 26);
});

describe('the longest delays are those that the functions can compute', () => {
  const worst = (max_attempts: number, backoff: Backoff, more: RetryPolicy = {}): number =>
    worstCaseDelaySeconds({ max_attempts, backoff, ...more });

  test('an offset is added before the cap, and a part of a second rounded up', () => {
    assert.equal(worst(3, { kind: 'exponential', initial_delay_seconds: 1, rate: 1.1 }), 1 + 2 + 2);
    assert.equal(worst(4, { kind: 'exponential', initial_delay_seconds: 2, offset_seconds: 30, max_delay_seconds: 40 }), 32 + 34 + 38 + 40);
  });

  test('additive jitter makes a delay longer, but not than the cap', () => {
    const jitter = { kind: 'additive', max_seconds: 60 } as const;
    assert.equal(worst(2, { kind: 'exponential', initial_delay_seconds: 2, offset_seconds: 30, jitter }), 92 + 94);
    assert.equal(worst(1, { kind: 'exponential', initial_delay_seconds: 100, max_delay_seconds: 130, jitter }), 130);
    assert.equal(worst(1, { kind: 'fixed', delay_seconds: 870, jitter }), 900);
    assert.equal(worst(1, { kind: 'fixed', delay_seconds: 870, jitter }, { long_delays: true }), 930);
    assert.equal(worst(2, { kind: 'schedule', delays_seconds: [1, 43_190], jitter }, { long_delays: true }), 61 + 43_200);
  });

  test('a paced retry may wait as long as a DelaySeconds can be, a hop as long as it does', () => {
    assert.equal(worst(2, { kind: 'fixed', delay_seconds: 60 }, { max_redelivery_per_second: 10 }), 1800);
    const hops: Backoff = { kind: 'schedule', delays_seconds: [60, 7200] };
    assert.equal(worst(2, hops, { max_redelivery_per_second: 0.5, long_delays: true }), 900 + 7200);
  });

  test('the longest of all, the first ones alone, and with the calls between them', () => {
    const policy: RetryPolicy = { long_delays: true, backoff: { kind: 'schedule', delays_seconds: [43_200, 10, 20] } };
    assert.equal(longestDelaySeconds(policy), 43_200);
    assert.equal(worstCaseDelaySeconds(policy, 2), 43_210);
    assert.equal(worstCaseSpanSeconds(policy, 60), 43_200 + 10 + 3 * 20 + 6 * 60);
    assert.equal(worstCaseSpanSeconds({ ...policy, max_age_seconds: 100 }, 60), 100);
    assert.equal(longestDelaySeconds({ max_attempts: 0 }), 0);
  });
});
