import { Duration } from 'aws-cdk-lib';
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { Backoff, CircuitBreaker, Jitter, OnGiveUp, Preset, type RedeliverProps, RetryPolicy, Strategy } from '../lib/index';
import { documentOf, withPropNames } from '../lib/policy-document';
import { policyProblems } from '../lib/schemas';
import { HTTP, stackWith, temporaryDirectory } from './stack-support';

const { seconds, minutes } = Duration;
const SCHEMA = JSON.parse(readFileSync(join(__dirname, '../../schemas/retry-policy.schema.json'), 'utf8'));

describe("a policy built from members equals the functions' document", () => {
  const cases: [string, RetryPolicy, object][] = [
    ['the defaults', RetryPolicy.of({}), {}],
    [
      'all members',
      RetryPolicy.of({
        maxAttempts: 8,
        backoff: Backoff.exponential({ initialDelay: minutes(1), rate: 1.5, offset: seconds(2), maxDelay: minutes(10), jitter: Jitter.HALF }),
        maxAge: Duration.days(1),
        longDelays: false,
        immediate: { maxAttempts: 2, delay: Duration.millis(100) },
        circuitBreaker: CircuitBreaker.of({
          per: 'attribute:Tenant',
          opensOn: ['Timeout'],
          holdMax: Duration.hours(2),
        }),
        maxRedrives: 7,
        onGiveUp: OnGiveUp.BLOCK,
        retryable: ['Http.*'],
        nonRetryable: ['Panic'],
      }),
      {
        max_attempts: 8,
        backoff: { kind: 'exponential', initial_delay_seconds: 60, rate: 1.5, offset_seconds: 2, max_delay_seconds: 600, jitter: 'half' },
        max_age_seconds: 86_400,
        long_delays: false,
        immediate: { max_attempts: 2, delay_ms: 100 },
        circuit_breaker: {
          per: 'attribute:Tenant',
          opens_on: ['Timeout'],
          hold_seconds_max: 7200,
        },
        max_redrives: 7,
        on_give_up: 'block',
        retryable: ['Http.*'],
        non_retryable: ['Panic'],
      },
    ],
    ['any delay', RetryPolicy.of({ backoff: Backoff.uniform() }), { backoff: { kind: 'uniform' } }],
    ['up to', RetryPolicy.of({ backoff: Backoff.uniform({ maxDelay: seconds(5) }) }), { backoff: { kind: 'uniform', max_delay_seconds: 5 } }],
    [
      'one delay, spread by so much',
      RetryPolicy.of({ backoff: Backoff.fixed(seconds(5), { jitter: Jitter.additive(seconds(3)) }) }),
      { backoff: { kind: 'fixed', delay_seconds: 5, jitter: { kind: 'additive', max_seconds: 3 } } },
    ],
    [
      'a list',
      RetryPolicy.of({ backoff: Backoff.schedule([seconds(0), minutes(2)], { jitter: Jitter.NONE }) }),
      { backoff: { kind: 'schedule', delays_seconds: [0, 120], jitter: 'none' } },
    ],
    ['spread to 0', RetryPolicy.of({ backoff: Backoff.fixed(seconds(5), { jitter: Jitter.FULL }) }), { backoff: { kind: 'fixed', delay_seconds: 5, jitter: 'full' } }],
    ['a preset', RetryPolicy.preset(Preset.DURABLE_CRITICAL, { maxAttempts: 3 }), { preset: 'durable_critical', max_attempts: 3 }],
    ['no circuit breaker', RetryPolicy.of({ circuitBreaker: CircuitBreaker.OFF }), { circuit_breaker: false }],
  ];
  for (const [name, policy, document] of cases) {
    test(name, () => {
      assert.deepEqual(documentOf(policy), document);
      assert.deepEqual(policyProblems(documentOf(policy)), []);
    });
  }

  test('no member of the schema is missing', () => {
    const [, all] = cases[1]!;
    const { preset: _, ...others } = SCHEMA.properties;
    assert.deepEqual(Object.keys(documentOf(all)).sort(), Object.keys(others).sort());
    const { circuit_breaker: breaker, backoff } = documentOf(all) as any;
    assert.deepEqual(Object.keys(breaker).sort(), Object.keys(SCHEMA.$defs.circuit_breaker.properties).sort());
    assert.deepEqual(Object.keys(backoff).sort(), Object.keys(SCHEMA.$defs.exponential.properties).sort());
    assert.deepEqual(Object.values(Preset).sort(), [...SCHEMA.properties.preset.enum].sort());
  });
});

test('a file for `redeliver simulate --policy` is accepted as a policy', () => {
  const path = join(temporaryDirectory(), 'policy.json');
  writeFileSync(path, '{"max_attempts":8}');
  assert.deepEqual(documentOf(RetryPolicy.fromFile(path)), { max_attempts: 8 });
  assert.throws(() => RetryPolicy.fromFile(`${path}.old`), /^RedeliverPropsError: policy cannot be read from .*policy\.json\.old: ENOENT.*; name a JSON file\.$/);
});

describe('errors use the names of the props', () => {
  function collectProblems(props: Partial<RedeliverProps>): string[] {
    try {
      stackWith(() => ({ ...HTTP, ...props }));
      return [];
    } catch (error) {
      return (error as Error).message.split('\n');
    }
  }

  const cases: [RetryPolicy, string][] = [
    [
      RetryPolicy.of({ backoff: Backoff.uniform({ maxDelay: seconds(901) }) }),
      'policy.backoff.maxDelay is more than 900, the longest DelaySeconds of SQS: lower it, or set longDelays to true.',
    ],
    [RetryPolicy.of({ backoff: Backoff.schedule([seconds(1), seconds(901)]) }), 'policy.backoff.delays[1] is more than 900, the longest DelaySeconds of SQS: lower it, or set longDelays to true.'],
    [RetryPolicy.of({ maxAge: Duration.millis(1500) }), 'policy.maxAge must be integer.'],
    [
      RetryPolicy.of({ circuitBreaker: CircuitBreaker.of({ per: 'tenant' }) }),
      'policy.circuitBreaker.per must be "group", "target", or "attribute:" and an attribute\'s name (up to 256 of A-Z a-z 0-9 _ - .).',
    ],
    [
      RetryPolicy.of({ backoff: Backoff.exponential({ initialDelay: seconds(1), maxDelay: seconds(9), jitter: Jitter.additive(seconds(10)) }) }),
      'policy.backoff.jitter.max is more than maxDelay (900 unless set); lower it or raise the other.',
    ],
    [
      RetryPolicy.of({ maxAttempts: 1000 }),
      'policy allows 1000 retries over 11.1 days at worst, more than 80 % of the time that the source queue keeps a message (7.0 days); ' +
        'lower maxAttempts or the delays, set maxAge, or raise sourceRetention.',
    ],
    [RetryPolicy.fromJson({ max_age_seconds: 1.5 }), 'policy/max_age_seconds must be integer.'],
  ];
  for (const [policy, sentence] of cases) {
    test(sentence, () => assert.deepEqual(collectProblems({ policy }), [sentence]));
  }

  test('a member that the strategy does not support', () => {
    const policy = RetryPolicy.of({ maxRedrives: 5, maxAttempts: 981, backoff: Backoff.fixed(seconds(1), { jitter: Jitter.NONE }), maxAge: Duration.days(1) });
    const sentences = collectProblems({ policy, strategy: Strategy.VISIBILITY }).map((sentence) => sentence.split(' ')[0]);
    assert.deepEqual(sentences, ['policy.maxAttempts', 'policy.maxRedrives']);
  });

  test('every member of the schema has a prop name', () => {
    const members = JSON.stringify(SCHEMA).match(/"[a-z]+(_[a-z]+)+":[{t]/g)!.map((member) => member.split('"')[1]!);
    assert.ok(members.length > 15);
    assert.deepEqual(members.filter((member) => withPropNames(member) === member && member !== 'circuit_breaker'), []);
  });
});
