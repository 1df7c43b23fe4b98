import { App, Aws, Duration, Fn, Stack } from 'aws-cdk-lib';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { AsyncRetry, Envelope, Redeliver, type RedeliverProps, RetryPolicy, SourceQueue, Target } from '../lib/index';
import { type Backoff, maxAttempts, worstCaseDelaySeconds } from '../lib/policy';
import { RedeliverPropsError } from '../lib/props-error';
import { fakeBundles, HTTP, stackWith, temporaryDirectory } from './stack-support';
import { userFunction } from './stack-variants';

const EXAMPLES = join(__dirname, '../../schemas/examples/');

/** Returns the problems with invalid props, one sentence each. */
function collectProblems(props: Partial<RedeliverProps>): string[] {
  try {
    stackWith(() => ({ ...HTTP, ...props }));
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n');
  }
  return [];
}

function http(target: { url: string; allowHttp?: boolean; proxy?: string; errorExcerpt?: string[]; timeout?: Duration }): Partial<RedeliverProps> {
  const { url, ...options } = target;
  return { target: Target.http(url, options) };
}

/** Returns props with a policy that may have type errors, as in a file. */
function policy(document: unknown): Partial<RedeliverProps> {
  return { policy: RetryPolicy.fromJson(document as Record<string, unknown>) };
}

describe('an invalid prop fails the synth with one sentence', () => {
  const cases: [string, Partial<RedeliverProps>, string][] = [
    [
      'a delay that DelaySeconds cannot express',
      policy({ backoff: { kind: 'uniform', max_delay_seconds: 901 } }),
      'policy/backoff/max_delay_seconds is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true.',
    ],
    ['an unknown member', policy({ maxAttempts: 3 }), 'policy has the unknown member maxAttempts.'],
    [
      'an unknown kind of backoff',
      policy({ backoff: { kind: 'linear' } }),
      'policy/backoff/kind must be equal to one of the allowed values (uniform, exponential, fixed, schedule).',
    ],
    [
      'an initial delay above the longest',
      policy({ backoff: { kind: 'exponential', initial_delay_seconds: 100, max_delay_seconds: 10 } }),
      'policy/backoff/initial_delay_seconds is more than max_delay_seconds (900 unless set); lower it or raise the other.',
    ],
    [
      'the same pattern in both lists',
      policy({ retryable: ['A'], non_retryable: ['B', 'A'] }),
      'policy/non_retryable/1 is also in retryable; remove one of the two.',
    ],
    [
      'a policy that does not fit into the environment',
      policy({ retryable: Array.from({ length: 40 }, (_, n) => `${n}`.padEnd(100, 'x')) }),
      'policy has 4219 bytes as an environment variable, more than the 3072 that fit into a function\'s environment; shorten its lists.',
    ],
    [
      'retries that outlast the retention',
      policy({ max_attempts: 1000 }),
      'policy allows 1000 retries over 11.1 days at worst, more than 80 % of the time that the source queue keeps a ' +
        'message (7.0 days); lower max_attempts or the delays, set max_age_seconds, or raise sourceRetention.',
    ],
    [
      'a batch that the function has no time for',
      { batchSize: 10, maxConcurrentCalls: 3 },
      'timeout is 60 s, but a batch of 10 with 3 calls at a time may take 4 × 30 s + 5 s = 125 s; raise timeout or ' +
        'maxConcurrentCalls, or lower batchSize or target.timeout.',
    ],
    ['too long a timeout', { timeout: Duration.seconds(901) }, 'timeout is 901 s; use 1 s to 900 s, in whole seconds, the range of Lambda.'],
    [
      'a visibility timeout that lets a message out while it is worked on',
      { sourceVisibilityTimeout: Duration.seconds(300) },
      'sourceVisibilityTimeout is 300 s; use at least 6 × timeout = 360 s, and at most 43200 s (12 hours).',
    ],
    [
      'a source queue that keeps messages as long as the DLQ',
      { sourceRetention: Duration.days(14) },
      'sourceRetention is 1209600 s; use 60 s to 1209599 s, in whole seconds: less than the 14 days of the intermediate ' +
        'DLQ, where a moved message keeps its age.',
    ],
    ['concurrency outside the range of SQS', { maxConcurrency: 1 }, 'maxConcurrency is 1; use a whole number from 2 to 1000 (what an SQS event source mapping accepts).'],
    ['a batch of more than ten', { batchSize: 11 }, 'batchSize is 11; use a whole number from 1 to 10 (also with a batching window: the functions are built for ten).'],
    ['an invalid redrive count', { maxReceiveCount: 0 }, 'maxReceiveCount is 0; use a whole number from 1 to 10 (each receive may call the target, and the policy does not count these calls).'],
    ['a fractional number of calls', { maxConcurrentCalls: 1.5 }, "maxConcurrentCalls is 1.5; use a whole number from 1 to 10000 (the function's own limit)."],
    [
      'a FIFO queue',
      { existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders.fifo') },
      'existingSourceQueue.queueArn names a FIFO queue, which cannot delay individual messages; use a standard queue, or strategy ordered.',
    ],
    [
      "a queue's URL for its ARN",
      { existingSourceQueue: SourceQueue.fromArn('https://sqs.eu-west-1.amazonaws.com/111122223333/orders') },
      'existingSourceQueue.queueArn is "https://sqs.eu-west-1.amazonaws.com/111122223333/orders"; give a queue\'s ARN: ' +
        'arn:aws:sqs:REGION:ACCOUNT:NAME.',
    ],
    ['no URL', http({ url: 'orders' }), 'target.url is not a URL; give the https:// URL that messages are POSTed to.'],
    ['http', http({ url: 'http://example.com' }), 'target.url is http://, which is not encrypted; use https://, or set target.allowHttp: true.'],
    ['another protocol', http({ url: 'ftp://example.com' }), 'target.url starts with ftp://; use an https:// URL.'],
    [
      'credentials in the URL',
      http({ url: 'https://user:secret@example.com' }),
      'target.url contains credentials, which the template would expose; put an Authorization header into target.headersSecret, or use Target.httpFromSecret.',
    ],
    [
      'a proxy without a scheme',
      http({ url: 'https://example.com', proxy: 'proxy:3128' }),
      'target.proxy is not the address of a proxy; give http://HOST:PORT or https://HOST:PORT.',
    ],
    [
      'credentials of a proxy',
      http({ url: 'https://example.com', proxy: 'http://user:secret@proxy:3128' }),
      'target.proxy contains credentials, which the template would expose; let the proxy identify its clients by their network.',
    ],
    [
      'a proxy for http',
      http({ url: 'http://10.0.0.1/', allowHttp: true, proxy: 'http://proxy:3128' }),
      'target.proxy is set, but the target may be http://, which does not go through a proxy; use https://, or remove target.proxy.',
    ],
    [
      'an excerpt that is no pointer',
      http({ url: 'https://example.com', errorExcerpt: ['/type', 'title'] }),
      'target.errorExcerpt[1] is "title", which is not a JSON Pointer to a member; it must start with /, such as /customer/email.',
    ],
    [
      'too long an excerpt',
      http({ url: 'https://example.com', errorExcerpt: [...'abcdefghi'].map((name) => `/${name}`) }),
      'target.errorExcerpt has 9 entries; give at most 8.',
    ],
    [
      'too long a pointer of an excerpt',
      http({ url: 'https://example.com', errorExcerpt: [`/${'x'.repeat(128)}`] }),
      'target.errorExcerpt[0] has more than 128 bytes; name another value.',
    ],
    ['a name with an invalid character', { prefix: 'my_orders' }, 'prefix and stage make the name "my_orders-prod", which must start with a letter and be at most 39 letters, digits and hyphens; shorten or change them.'],
  ];
  for (const [name, props, sentence] of cases) {
    test(name, () => assert.deepEqual(collectProblems(props), [sentence]));
  }

  test('an excerpt at its limits is accepted', () => {
    const errorExcerpt = Array.from({ length: 8 }, (_, index) => `/${index}${'x'.repeat(126)}`);
    assert.deepEqual(collectProblems(http({ url: 'https://example.com', errorExcerpt })), []);
  });

  test('all errors are reported together', () => {
    const wrong = { ...policy({ max_attempts: -1 }), batchSize: 0, ...http({ url: 'x' }) };
    assert.equal(collectProblems(wrong).length, 3);
  });

  test('http:// is accepted for this machine and where it is allowed', () => {
    for (const target of [{ url: 'http://127.0.0.1:8000/' }, { url: 'http://localhost/' }, { url: 'http://10.0.0.1/', allowHttp: true }]) {
      assert.deepEqual(collectProblems(http(target)), []);
    }
  });

  test('retries that exceed the retention are accepted if confirmed', () => {
    const long = { max_attempts: 1000 };
    assert.deepEqual(collectProblems({ ...policy({ ...long, max_age_seconds: 480_000 }) }), []);
    assert.deepEqual(collectProblems({ ...policy({ max_attempts: 900 }), sourceRetention: Duration.days(13) }), []);
  });
});

describe('bundles', () => {
  test('a missing bundle is reported with the command that builds it', () => {
    const bundles = temporaryDirectory();
    assert.deepEqual(collectProblems({ bundles }), [
      `${bundles}/message-processor/bootstrap is missing; build it with \`cargo xtask bundle\`.`,
    ]);
  });

  test('a bundle for another architecture is refused', () => {
    const bundles = fakeBundles(lambda.Architecture.X86_64);
    assert.deepEqual(collectProblems({ bundles }), [
      `${bundles}/message-processor/bootstrap is built for x86_64, but the functions run on arm64; build it with ` +
        '`cargo xtask bundle`, or set the architecture to match.',
    ]);
    assert.deepEqual(collectProblems({ bundles, architecture: lambda.Architecture.X86_64 }), []);
  });

  for (const mode of [0o644, 0o700, 0o744, 0o711]) {
    test(`a bundle with the mode ${mode.toString(8)} is refused: Lambda's user is neither its owner nor in its group`, () => {
      const bundles = fakeBundles();
      const bootstrap = join(bundles, 'message-processor', 'bootstrap');
      chmodSync(bootstrap, mode);
      assert.deepEqual(collectProblems({ bundles }), [
        `${bootstrap} has mode ${mode.toString(8)}, so Lambda cannot start it; run \`chmod 755 ${bootstrap}\`.`,
      ]);
      chmodSync(bootstrap, 0o555);
      assert.deepEqual(collectProblems({ bundles }), []);
    });
  }

  const NOT_OPTIONAL = "only applies to messages without an envelope; set envelope: Envelope.OPTIONAL, or remove it.";
  const ORDERS = SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders');
  const NO_POINTER = 'which is not a JSON Pointer to a member; it must start with /, such as /detail/id.';
  for (const [props, sentences] of [
    [{ messageIdAttribute: 'id', messageIdPointer: '/id' }, [`messageIdAttribute ${NOT_OPTIONAL}`, `messageIdPointer ${NOT_OPTIONAL}`]],
    [{ envelope: Envelope.REQUIRED, messageIdPointer: '/id' }, [`messageIdPointer ${NOT_OPTIONAL}`]],
    [{ existingSourceQueue: ORDERS, messageIdAttribute: 'id', messageIdPointer: '/id' }, []],
    [{ existingSourceQueue: ORDERS, envelope: Envelope.REQUIRED, messageIdPointer: '/id' }, [`messageIdPointer ${NOT_OPTIONAL}`]],
    [{ envelope: Envelope.OPTIONAL, messageIdPointer: 'detail.id' }, [`messageIdPointer is "detail.id", ${NO_POINTER}`]],
    [{ envelope: Envelope.OPTIONAL, messageIdPointer: '/a~2' }, [`messageIdPointer is "/a~2", ${NO_POINTER}`]],
    [{ envelope: Envelope.OPTIONAL, messageIdPointer: '/a~1b/~0/0/' }, []],
    [{ envelope: Envelope.OPTIONAL, messageIdAttribute: 'Redeliver' }, ['messageIdAttribute is Redeliver, which redeliver itself writes; use an attribute that your producers write.']],
    [{ envelope: Envelope.OPTIONAL, messageIdAttribute: 'order.id' }, []],
    ...['order id', 'AWS.id', 'a..b', '.a', 'x'.repeat(257)].map((name) => [
      { envelope: Envelope.OPTIONAL, messageIdAttribute: name },
      [
        `messageIdAttribute is "${name}", which is not a valid attribute name; use at most 256 letters, digits, _, - and single dots ` +
          'inside, not starting with AWS. or Amazon.',
      ],
    ] as const),
  ] as const) {
    test(`messages without an envelope: ${JSON.stringify(props).slice(0, 80)}`, () => {
      assert.deepEqual(collectProblems(props as Partial<RedeliverProps>), sentences);
    });
  }

  test("a user's schema is packaged readable for Lambda, whatever its mode", () => {
    const dataSchema = join(temporaryDirectory(), 'order.json');
    writeFileSync(dataSchema, '{}', { mode: 0o600 });
    const { stack } = stackWith(() => ({ ...HTTP, dataSchema }));
    const { directory } = App.of(stack)!.synth();
    const staged = readdirSync(directory, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('data.schema.json'));
    assert.deepEqual(staged.map((path) => (statSync(join(directory, path)).mode & 0o777).toString(8)), ['644']);
  });

  test("a handler's bundle is checked in the same way", () => {
    const own = (bundle: string): string[] => collectProblems({ target: Target.handler(bundle) });
    const empty = temporaryDirectory();
    assert.deepEqual(own(empty), [`${empty}/bootstrap is missing; build it with \`cargo xtask bundle\`.`]);
    const other = join(fakeBundles(lambda.Architecture.X86_64), 'message-processor');
    assert.match(own(other)[0] ?? '', /bootstrap is built for x86_64, but the functions run on arm64; /);
    const closed = join(fakeBundles(), 'message-processor');
    assert.deepEqual(own(closed), []);
    chmodSync(join(closed, 'bootstrap'), 0o744);
    assert.match(own(closed)[0] ?? '', /bootstrap has mode 744, so Lambda cannot start it; /);
  });

  test('a script is refused as a bundle', () => {
    const bundles = temporaryDirectory();
    mkdirSync(join(bundles, 'message-processor'));
    writeFileSync(join(bundles, 'message-processor', 'bootstrap'), '#!/bin/sh');
    assert.match(collectProblems({ bundles })[0] ?? '', /is built for no Lambda architecture/);
  });
});

describe('a key that the functions cannot use', () => {
  const FLAG = '@aws-cdk/aws-kms:applyImportedAliasPermissionsToPrincipal';
  const problems = (props: (stack: Stack) => Partial<RedeliverProps>, flag = false, region?: string): string[] => {
    try {
      const env = region === undefined ? {} : { env: { account: '111122223333', region } };
      const stack = new Stack(new App({ context: { [FLAG]: flag } }), 'Test', env);
      new Redeliver(stack, 'Retries', { ...HTTP, bundles: fakeBundles(), ...props(stack) });
    } catch (error) {
      assert.ok(error instanceof RedeliverPropsError, String(error));
      return error.message.split('\n');
    }
    return [];
  };
  const sentence = (prop: string): string =>
    `${prop} is an alias that was imported by its name, on which the CDK grants nothing, so the functions could not use the key; use kms.Key.fromKeyArn or ` +
    `kms.Key.fromLookup, or set the feature flag ${FLAG}.`;
  const byName = (stack: Stack, name = 'alias/orders'): kms.IKey => kms.Alias.fromAliasName(stack, 'Key', name);
  const sourceBy = (encryptionKey: kms.IKey): SourceQueue => SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders', { encryptionKey });

  test('is refused as encryptionKey, as the key of an existing queue, and in AsyncRetry', () => {
    assert.deepEqual(problems((stack) => ({ encryptionKey: byName(stack) })), [sentence('encryptionKey')]);
    assert.deepEqual(problems((stack) => ({ existingSourceQueue: sourceBy(byName(stack)) })), [sentence("existingSourceQueue's key")]);
    const stack = new Stack(new App(), 'Test');
    const props = { functions: [userFunction(stack, 'Report')], bundles: fakeBundles(), encryptionKey: byName(stack) };
    assert.throws(() => new AsyncRetry(stack, 'Retries', props), { message: sentence('encryptionKey') });
  });

  test('is refused if it is in another region', () => {
    const KEY = 'arn:aws:kms:us-east-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000001';
    const far = (stack: Stack): kms.IKey => kms.Key.fromKeyArn(stack, 'Far', KEY);
    const elsewhere = (prop: string): string => `${prop} is a key of us-east-1, but the functions are in eu-west-1; use one of eu-west-1.`;
    const cases: [string, (stack: Stack) => Partial<RedeliverProps>][] = [
      ['encryptionKey', (stack) => ({ encryptionKey: far(stack) })],
      ['logEncryptionKey', (stack) => ({ logEncryptionKey: far(stack) })],
      ["existingSourceQueue's key", (stack) => ({ existingSourceQueue: sourceBy(far(stack)) })],
      ["archive's key", (stack) => ({ archive: s3.Bucket.fromBucketAttributes(stack, 'Archive', { bucketName: 'dead-letters', encryptionKey: far(stack) }) })],
    ];
    for (const [prop, props] of cases) {
      assert.deepEqual(problems(props, false, 'eu-west-1'), [elsewhere(prop)]);
      assert.deepEqual(problems(props, false, 'us-east-1').filter((found) => found.includes('key')), []);
      assert.deepEqual(problems(props).filter((found) => found.includes('key')), [], 'the region is known at deployment');
    }
    const stack = new Stack(new App(), 'Test', { env: { account: '111122223333', region: 'eu-west-1' } });
    const props = { functions: [userFunction(stack, 'Report')], bundles: fakeBundles(), encryptionKey: far(stack), logEncryptionKey: far(new Stack(stack, 'Inner', { env: stack.env })) };
    assert.throws(() => new AsyncRetry(stack, 'Retries', props), { message: [elsewhere('encryptionKey'), elsewhere('logEncryptionKey')].join('\n') });
  });

  test("aliases with a known key, aliases with grants, and SQS's own alias are accepted", () => {
    assert.deepEqual(problems((stack) => ({ encryptionKey: new kms.Key(stack, 'Key').addAlias('orders') })), []);
    assert.deepEqual(problems((stack) => ({ encryptionKey: byName(stack) }), true), []);
    assert.deepEqual(problems((stack) => ({ existingSourceQueue: sourceBy(byName(stack, 'alias/aws/sqs')) })), []);
  });
});

describe("redeliver's inner queues are refused as a source queue, since messages would loop forever", () => {
  for (const name of ['intermediate-dlq', 'annotation', 'final-dlq']) {
    test(name, () => {
      assert.deepEqual(collectProblems({ existingSourceQueue: SourceQueue.fromArn(`arn:aws:sqs:eu-west-1:111122223333:redeliver-prod-${name}`) }), [
        `existingSourceQueue.queueArn is named redeliver-prod-${name}, which is the name of one of redeliver's own queues; change it, or change prefix or stage.`,
      ]);
    });
  }
});

describe('environment variables that Lambda would refuse', () => {
  const known =
    '{"STRATEGY":"delayed-resend","SOURCE_QUEUE_URL":"","INTERMEDIATE_DLQ_URL":"","RETRY_POLICY":"{}","ANNOTATION_QUEUE_URL":"","MAX_CONCURRENCY":"10",' +
    '"TARGET":"","TARGET_TIMEOUT_SECONDS":"30"}';
  const url = (bytes: number): string => 'https://orders.example.com/'.padEnd(bytes, 'x');

  test('are refused from the first byte above the limit, counted as JSON like Lambda', () => {
    const room = 4096 - known.length;
    assert.deepEqual(collectProblems(http({ url: url(room) })), []);
    assert.deepEqual(collectProblems(http({ url: url(room + 1) })), [
      'the environment variables of redeliver-prod-message-processor have at least 4097 bytes as JSON, but Lambda allows 4096; shorten ' +
        `TARGET, which has ${room + 3}.`,
    ]);
  });

  test('a policy of many short words is longer in the variable than in the file', () => {
    const words = Array.from({ length: 500 }, (_, n) => `${n + 100}`);
    assert.equal(JSON.stringify({ retryable: words }).length, 3015);
    assert.deepEqual(collectProblems(policy({ retryable: words })), [
      "policy has 4019 bytes as an environment variable, more than the 3072 that fit into a function's environment; shorten its lists.",
    ]);
  });

  test('a policy and a URL that are too long together', () => {
    const words = Array.from({ length: 29 }, (_, n) => `${n}`.padEnd(96, 'x'));
    const [sentence] = collectProblems({ ...http({ url: url(1000) }), ...policy({ retryable: words, immediate: { max_attempts: 1, delay_ms: 1 } }) });
    assert.equal(
      sentence,
      'the environment variables of redeliver-prod-message-processor have at least 4182 bytes as JSON, but Lambda allows 4096; shorten ' +
        "RETRY_POLICY, which has 2998 (the policy's lists).",
    );
  });

  test('variables that the app adds are counted at synth', () => {
    const { stack, redeliver } = stackWith(() => HTTP);
    redeliver.messageProcessor.addEnvironment('SETTINGS', 'x'.repeat(4096));
    assert.throws(() => App.of(stack)!.synth(), /the environment variables of redeliver-prod-message-processor have at least \d+ bytes as JSON, but Lambda allows 4096; shorten SETTINGS, which has 4098\./);
  });

  test('are counted in bytes, with the literal parts of values known only at deployment', () => {
    for (const value of ['ü'.repeat(2048), Fn.join('', ['x'.repeat(2048), Aws.REGION, 'x'.repeat(2048)])]) {
      const { stack, redeliver } = stackWith(() => HTTP);
      redeliver.messageProcessor.addEnvironment('SETTINGS', value);
      assert.throws(() => App.of(stack)!.synth(), /Lambda allows 4096; shorten SETTINGS, which has 4098\./);
    }
  });
});

describe('the policy is checked as the functions check it', () => {
  const examples = (directory: string): [string, unknown][] =>
    readdirSync(join(EXAMPLES, directory))
      .filter((name) => name.startsWith('retry-policy-'))
      .map((name) => [name, JSON.parse(readFileSync(join(EXAMPLES, `${directory}${name}`), 'utf8'))]);

  test('a policy that the functions refuse is refused', () => {
    const invalid = examples('invalid/');
    assert.ok(invalid.length >= 7);
    for (const [name, document] of invalid) {
      assert.equal(collectProblems(policy(document)).length, 1, name);
    }
  });

  test('a policy that the functions accept is accepted', () => {
    const valid = examples('valid/');
    assert.ok(valid.length >= 6);
    for (const [name, document] of valid) {
      // Some last longer than any retention, and are valid only with a limit.
      assert.deepEqual(collectProblems(policy({ max_age_seconds: 86_400, ...(document as object) })), [], name);
    }
  });

  test("the defaults equal the schema's", () => {
    const schema = JSON.parse(readFileSync(join(__dirname, '../../schemas/retry-policy.schema.json'), 'utf8'));
    assert.equal(maxAttempts({}), schema.properties.max_attempts.default);
    assert.deepEqual(schema.properties.backoff.default, { kind: 'uniform', max_delay_seconds: 900 });
    assert.equal(schema.$defs.exponential.properties.rate.default, 2);
    assert.equal(worstCaseDelaySeconds({}), 5 * 900);
  });

  test('the longest retry time is computed for every backoff', () => {
    const worst = (backoff: Backoff): number => worstCaseDelaySeconds({ max_attempts: 4, backoff });
    assert.equal(worst({ kind: 'exponential', initial_delay_seconds: 100, max_delay_seconds: 500 }), 100 + 200 + 400 + 500);
    assert.equal(worst({ kind: 'fixed', delay_seconds: 7 }), 28);
    assert.equal(worst({ kind: 'schedule', delays_seconds: [1, 10] }), 31);
  });
});

describe('the data schema', () => {
  const schema = (text: string): string[] => {
    const path = join(temporaryDirectory(), 'data.json');
    writeFileSync(path, text);
    return collectProblems({ dataSchema: path }).map((sentence) => sentence.replace(path, 'FILE'));
  };

  test('a schema that the functions cannot use is refused', () => {
    assert.match(schema('{')[0] ?? '', /^dataSchema FILE cannot be used: .*; give a JSON Schema 2020-12 without remote references\.$/);
    assert.match(schema('{"type":"strnig"}')[0] ?? '', /schema is invalid/);
    assert.match(schema('{"$ref":"https://example.com/x.json"}')[0] ?? '', /can't resolve reference/);
    assert.match(schema('[]')[0] ?? '', /a JSON Schema is an object/);
    assert.match(collectProblems({ dataSchema: '/nowhere.json' })[0] ?? '', /no such file/);
  });

  test('a pattern that the functions cannot use is refused with its place and an alternative', () => {
    const pattern = (text: string): string[] => schema(JSON.stringify({ properties: { id: { pattern: text } } }));
    assert.deepEqual(pattern('^(?!x)'), [
      'dataSchema FILE cannot be used: /properties/id/pattern has look-around, which the functions do not support; write (?!x) as "not": {"pattern": "^x"}.',
    ]);
    assert.deepEqual(pattern('^(a|b)\\1$'), [
      'dataSchema FILE cannot be used: /properties/id/pattern has a back-reference, which the functions do not support; write out the alternatives.',
    ]);
    assert.deepEqual(pattern('^.{1,20000}$'), [
      'dataSchema FILE cannot be used: /properties/id/pattern takes more than 10 MiB when it is compiled, which the functions refuse; write long counts as maxLength.',
    ]);
  });

  test('a valid schema is deployed', () => assert.deepEqual(schema('{"required":["order"],"properties":{"at":{"format":"date-time"}}}'), []));
});
