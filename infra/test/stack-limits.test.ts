import { App, Duration } from 'aws-cdk-lib';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { type RedeliverProps, RetryPolicy, SourceQueue, Strategy, Target } from '../lib/index';
import { type Backoff, maxAttempts, worstCaseDelaySeconds } from '../lib/policy';
import { RedeliverPropsError } from '../lib/props-error';
import { RedeliverStack } from '../lib/stack';
import { cdkJson } from './fakes';
import { fakeBundles, HTTP, stackWith, temporaryDirectory } from './stack-support';

const seconds = Duration.seconds;
const EXISTING = 'arn:aws:sqs:eu-west-1:111122223333:orders';

/** Returns the problems, or an empty list if the props are accepted. */
function catchProblems(make: () => unknown): string[] {
  try {
    make();
    return [];
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n');
  }
}

function collectProblems(props: Partial<RedeliverProps>): string[] {
  return catchProblems(() => stackWith(() => ({ ...HTTP, bundles: BUNDLES, ...props })));
}

const BUNDLES = fakeBundles();

function call(timeout: number): Partial<RedeliverProps> {
  return { target: Target.http('https://orders.example.com/', { timeout: seconds(timeout) }) };
}

describe('the last valid value is accepted, and the first invalid one is refused', () => {
  const range = (name: string, value: number, least: number, most: number, why: string): string =>
    `${name} is ${value}; use a whole number from ${least} to ${most} (${why}).`;
  const receives = 'each receive may call the target, and the policy does not count these calls';
  const batches = 'also with a batching window: the functions are built for ten';
  const mapping = 'what an SQS event source mapping accepts';
  const reserved = (value: number, max: number): string =>
    `reservedConcurrency is ${value}; use a whole number of at least maxConcurrency = ${max}: Lambda would throttle the other invocations, ` +
    'and each throttled message spends one of maxRedrives.';
  const visibility = (value: number, least = '6 × timeout = 360 s'): string =>
    `sourceVisibilityTimeout is ${value} s; use at least ${least}, and at most 43200 s (12 hours).`;
  const window = (value: number): string => `maxBatchingWindow is ${value} s; use 0 s to 300 s, in whole seconds, the range of an SQS event source mapping.`;
  const name = 'must start with a letter and be at most 39 letters, digits and hyphens; shorten or change them.';
  const cases: [string, Partial<RedeliverProps>[], [Partial<RedeliverProps>, string][]][] = [
    ['maxReceiveCount', [{ maxReceiveCount: 1 }, { maxReceiveCount: 10 }], [[{ maxReceiveCount: 11 }, range('maxReceiveCount', 11, 1, 10, receives)]]],
    ['batchSize', [{ batchSize: 1 }, { batchSize: 10 }], [
      [{ batchSize: 0 }, range('batchSize', 0, 1, 10, batches)],
      [{ batchSize: 2.5 }, range('batchSize', 2.5, 1, 10, batches)],
    ]],
    ['maxConcurrency', [{ maxConcurrency: 2 }, { maxConcurrency: 1000 }], [
      [{ maxConcurrency: 1001 }, range('maxConcurrency', 1001, 2, 1000, mapping)],
      [{ maxConcurrency: NaN }, range('maxConcurrency', NaN, 2, 1000, mapping)],
    ]],
    ['reservedConcurrency', [{ reservedConcurrency: 10 }, { reservedConcurrency: 2, maxConcurrency: 2 }, { reservedConcurrency: 5000 }], [
      [{ reservedConcurrency: 9 }, reserved(9, 10)],
      [{ reservedConcurrency: 49, maxConcurrency: 50 }, reserved(49, 50)],
      [{ reservedConcurrency: 0 }, reserved(0, 10)],
      [{ reservedConcurrency: 10.5 }, reserved(10.5, 10)],
      [{ reservedConcurrency: NaN }, reserved(NaN, 10)],
      [{ reservedConcurrency: 1, maxConcurrency: 1 }, range('maxConcurrency', 1, 2, 1000, mapping)],
    ]],
    ['maxConcurrentCalls', [{ maxConcurrentCalls: 1, batchSize: 1 }, { maxConcurrentCalls: 10_000 }], [
      [{ maxConcurrentCalls: 0 }, range('maxConcurrentCalls', 0, 1, 10_000, "the function's own limit")],
      [{ maxConcurrentCalls: 10_001 }, range('maxConcurrentCalls', 10_001, 1, 10_000, "the function's own limit")],
    ]],
    ['timeout', [{ timeout: seconds(900) }, { timeout: seconds(35) }, { ...call(1), timeout: seconds(6) }], []],
    ['the visibility timeout', [{ sourceVisibilityTimeout: seconds(360) }, { sourceVisibilityTimeout: seconds(43_200) }], [
      [{ sourceVisibilityTimeout: seconds(359) }, visibility(359)],
      [{ sourceVisibilityTimeout: seconds(43_201) }, visibility(43_201, '6 × timeout + maxBatchingWindow = 361 s')],
      [{ sourceVisibilityTimeout: seconds(359), existingSourceQueue: SourceQueue.fromArn(EXISTING) }, visibility(359)],
    ]],
    ['the batching window', [
      { maxBatchingWindow: seconds(0) },
      { maxBatchingWindow: seconds(300) },
      { maxBatchingWindow: seconds(300), sourceVisibilityTimeout: seconds(660) },
      { maxBatchingWindow: seconds(300), sourceRetention: seconds(16_200), policy: RetryPolicy.fromJson({ max_attempts: 10, backoff: { kind: 'fixed', delay_seconds: 900 } }) },
    ], [
      [{ maxBatchingWindow: seconds(301) }, window(301)],
      [{ maxBatchingWindow: Duration.millis(1500) }, window(1.5)],
      [{ maxBatchingWindow: seconds(300), sourceVisibilityTimeout: seconds(659) }, visibility(659, '6 × timeout + maxBatchingWindow = 660 s')],
      [{ maxBatchingWindow: seconds(1), batchSize: 11 }, range('batchSize', 11, 1, 10, batches)],
      // Each retry can also wait for its batch: 9000 s of delays, 11 calls of 60 s and 11 windows of 300 s.
      [
        { maxBatchingWindow: seconds(300), sourceRetention: seconds(16_199), policy: RetryPolicy.fromJson({ max_attempts: 10, backoff: { kind: 'fixed', delay_seconds: 900 } }) },
        'policy allows 10 retries over 0.1 days at worst, more than 80 % of the time that the source queue keeps a message (0.2 days); ' +
          'lower max_attempts or the delays, set max_age_seconds, or raise sourceRetention.',
      ],
    ]],
    ['retention', [
      { sourceRetention: seconds(1_209_599) },
      { sourceRetention: seconds(1125), policy: RetryPolicy.fromJson({ max_attempts: 0 }) },
      { sourceRetention: seconds(60), policy: RetryPolicy.fromJson({ max_attempts: 0 }), strategy: Strategy.VISIBILITY },
    ], [
      // The minimum applies even without retries: held messages, and messages that SQS moved, are re-sent.
      [
        { sourceRetention: seconds(1124), policy: RetryPolicy.fromJson({ max_attempts: 0 }) },
        'sourceRetention is 1124 s; use at least 1125 s: a re-sent message may be delayed there for 900 s.',
      ],
      [
        { sourceRetention: seconds(59) },
        'sourceRetention is 59 s; use 60 s to 1209599 s, in whole seconds: less than the 14 days of the intermediate DLQ, where a moved message keeps its age.',
      ],
      [
        { sourceRetention: Duration.days(15) },
        'sourceRetention is 1296000 s; use 60 s to 1209599 s, in whole seconds: less than the 14 days of the intermediate DLQ, where a moved message keeps its age.',
      ],
    ]],
    ['time for a batch', [{ batchSize: 9, maxConcurrentCalls: 3, ...call(10), timeout: seconds(35) }], [
      [
        { batchSize: 10, maxConcurrentCalls: 3, ...call(10), timeout: seconds(44) },
        'timeout is 44 s, but a batch of 10 with 3 calls at a time may take 4 × 10 s + 5 s = 45 s; raise timeout or maxConcurrentCalls, or lower batchSize or target.timeout.',
      ],
    ]],
    ['the name', [{ prefix: 'a'.repeat(34) }, { prefix: 'A-1', stage: '2' }], [
      [{ prefix: 'a'.repeat(35) }, `prefix and stage make the name "${'a'.repeat(35)}-prod", which ${name}`],
      [{ prefix: '1st' }, `prefix and stage make the name "1st-prod", which ${name}`],
      [{ stage: 'prod.eu' }, `prefix and stage make the name "redeliver-prod.eu", which ${name}`],
    ]],
  ];
  for (const [what, right, wrong] of cases) {
    test(what, () => {
      for (const props of right) {
        assert.deepEqual(collectProblems(props), [], JSON.stringify(props));
      }
      for (const [props, sentence] of wrong) {
        assert.deepEqual(collectProblems(props), [sentence]);
      }
    });
  }

  test('retries whose delays alone exceed the retention', () => {
    const policy = { max_attempts: 10, backoff: { kind: 'fixed', delay_seconds: 900 } };
    const sentences = collectProblems({ policy: RetryPolicy.fromJson(policy), sourceRetention: seconds(8999) });
    assert.equal(sentences.length, 1);
    assert.match(sentences[0] ?? '', /^policy allows 10 retries over .* at worst, more than 80 % of the time that the source queue keeps a message/);
    assert.deepEqual(collectProblems({ policy: RetryPolicy.fromJson(policy), sourceRetention: Duration.days(1) }), []);
    assert.deepEqual(collectProblems({ policy: RetryPolicy.fromJson({ ...policy, max_age_seconds: 7000 }), sourceRetention: seconds(8999) }), []);
  });

  test('a delay in any member', () => {
    const backoffs: [string, (delay: number) => Backoff][] = [
      ['max_delay_seconds', (delay) => ({ kind: 'uniform', max_delay_seconds: delay })],
      ['delay_seconds', (delay) => ({ kind: 'fixed', delay_seconds: delay })],
      ['max_delay_seconds', (delay) => ({ kind: 'exponential', initial_delay_seconds: 1, max_delay_seconds: delay })],
      ['initial_delay_seconds', (delay) => ({ kind: 'exponential', initial_delay_seconds: delay })],
      ['delays_seconds/1', (delay) => ({ kind: 'schedule', delays_seconds: [0, delay, 0] })],
    ];
    for (const [pointer, backoff] of backoffs) {
      assert.deepEqual(collectProblems({ policy: RetryPolicy.fromJson({ backoff: backoff(900) }) }), [], pointer);
      assert.deepEqual(collectProblems({ policy: RetryPolicy.fromJson({ backoff: backoff(901) }) }), [
        `policy/backoff/${pointer} is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true.`,
      ]);
    }
  });
});

test("the counted retries use the defaults of the functions' schema", () => {
  const schema = JSON.parse(readFileSync(join(__dirname, '../../schemas/retry-policy.schema.json'), 'utf8'));
  const { uniform, exponential } = schema.$defs;
  const written = { max_attempts: schema.properties.max_attempts.default, backoff: schema.properties.backoff.default };
  assert.equal(maxAttempts({}), written.max_attempts);
  assert.equal(worstCaseDelaySeconds({}), worstCaseDelaySeconds(written));
  const worst = (backoff: Backoff): number => worstCaseDelaySeconds({ max_attempts: 12, backoff });
  const max = uniform.properties.max_delay_seconds.default;
  assert.equal(worst({ kind: 'uniform' }), worst({ kind: 'uniform', max_delay_seconds: max }));
  const rate = exponential.properties.rate.default;
  const cap = exponential.properties.max_delay_seconds.default;
  assert.equal(
    worst({ kind: 'exponential', initial_delay_seconds: 1 }),
    worst({ kind: 'exponential', initial_delay_seconds: 1, rate, max_delay_seconds: cap }),
  );
});

test('every invalid example is refused at the expected place with its remedy', () => {
  const invalid = join(__dirname, '../../schemas/examples/invalid/');
  const expected: Record<string, { pointer: string }> = JSON.parse(readFileSync(join(invalid, 'expected.json'), 'utf8'));
  const policies = Object.entries(expected).filter(([name]) => name.startsWith('retry-policy-'));
  const sentences = policies.map(([name, { pointer }]) => {
    const [sentence = '', ...more] = collectProblems({ policy: RetryPolicy.fromFile(join(invalid, `${name}.json`)) });
    assert.deepEqual([sentence.startsWith(`policy${pointer} `), more], [true, []], `${name}: ${sentence}`);
    return [name.replace('retry-policy-', ''), sentence];
  });
  assert.deepEqual(Object.fromEntries(sentences), {
    'unknown-member': 'policy has the unknown member max_atempts.',
    'unknown-preset':
      'policy/preset must be equal to one of the allowed values (durable_default, durable_none, durable_transient, durable_resource_availability, durable_critical).',
    '43201-seconds': 'policy/backoff/delay_seconds must be <= 43200.',
    'additive-without-a-maximum': "policy/backoff/jitter must have required property 'max_seconds'.",
    'eleven-calls-at-once': 'policy/immediate/max_attempts must be <= 10.',
    'jitter-on-uniform': 'policy/backoff has the unknown member jitter.',
    'unknown-kind': 'policy/backoff/kind must be equal to one of the allowed values (uniform, exponential, fixed, schedule).',
    'empty-schedule': 'policy/backoff/delays_seconds must NOT have fewer than 1 items.',
    'per-nothing': 'policy/circuit_breaker/per must be "group", "target", or "attribute:" and an attribute\'s name (up to 256 of A-Z a-z 0-9 _ - .).',
    'shrinking-rate': 'policy/backoff/rate must be >= 1.',
    '1001-attempts': 'policy/max_attempts must be <= 1000.',
  });
});

test('several invalid props are reported together', () => {
  const sentences = collectProblems({
    prefix: '1',
    policy: RetryPolicy.fromJson({ max_attempts: -1 }),
    dataSchema: '/nowhere.json',
    target: Target.http('x'),
    existingSourceQueue: SourceQueue.fromArn('y'),
    maxConcurrency: 1,
    sourceRetention: Duration.days(14),
  });
  const named = sentences.map((sentence) => sentence.split(/[ /.]/)[0]);
  assert.deepEqual(named, ['prefix', 'policy', 'dataSchema', 'target', 'existingSourceQueue', 'maxConcurrency', 'sourceRetention']);
});

test('paths in context values are relative to the working directory', () => {
  const called = temporaryDirectory();
  const bundles = join(called, 'nowhere');
  const app = new App({ context: { ...cdkJson().context, target: 'https://orders.example.com/', bundles: 'nowhere', architecture: 'x86-64' } });
  const missing = `${bundles}/message-processor/bootstrap is missing; build it with \`cargo xtask bundle --x86-64\`.`;
  assert.deepEqual(catchProblems(() => new RedeliverStack(app, called)), [missing]);
});
