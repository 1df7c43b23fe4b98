import { App, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AlarmPreset, AsyncRetry, type AsyncRetryProps, Redeliver, type RedeliverProps, SourceQueue, Strategy, Target } from '../lib/index';
import { makeReadable, resources } from './stack-exact';
import { fakeBundles, HTTP, namedResource, stackWith, templateWith } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();

function collectProblems(props: Partial<RedeliverProps>): string[] {
  try {
    stackWith(() => ({ ...HTTP, bundles, ...props }));
    return [];
  } catch (error) {
    return (error as Error).message.split('\n');
  }
}

/** Returns a property of each function, by the function's short logical id. */
function functionProperties(template: Template, property: string): Record<string, unknown> {
  const functions = Object.entries(resources(template, 'AWS::Lambda::Function'));
  return Object.fromEntries(functions.flatMap(([id, { Properties }]) => (Properties[property] === undefined ? [] : [[id, Properties[property]]])));
}

/** Returns the settings that limit concurrent invocations, by queue. */
function limits(props: Partial<RedeliverProps>): Record<string, unknown> {
  const mappings = Object.values(resources(templateWith(() => ({ ...HTTP, ...props })), 'AWS::Lambda::EventSourceMapping'));
  return Object.fromEntries(
    mappings.map(({ Properties }) => [makeReadable(Properties['EventSourceArn']), Properties['ProvisionedPollerConfig'] ?? Properties['ScalingConfig']]),
  );
}

function createAsyncRetryTemplate(props: Partial<AsyncRetryProps>): Template {
  const stack = new Stack(new App(), 'Test');
  new AsyncRetry(stack, 'Retries', { functions: [userFunction(stack, 'Report')], bundles, ...props });
  return Template.fromStack(stack);
}

describe('memory', () => {
  test('applies to the message-processor only', () => {
    assert.deepEqual(functionProperties(templateWith(() => ({ ...HTTP, memorySize: 1024 })), 'MemorySize'), {
      MessageProcessor: 1024,
      FailedMessageProcessor: 256,
      FinalDlqAnnotator: 256,
    });
  });

  test("outside Lambda's range is refused", () => {
    for (const memorySize of [127, 10_241, 256.5]) {
      assert.deepEqual(collectProblems({ memorySize }), [`memorySize is ${memorySize}; use a whole number from 128 to 10240 (MiB, the range of Lambda).`]);
    }
    assert.deepEqual([collectProblems({ memorySize: 128 }), collectProblems({ memorySize: 10_240 })], [[], []]);
  });
});

describe('concurrency of the inner functions', () => {
  test('applies to each of their mappings and to no other', () => {
    const inner = { '{IntermediateDlq.Arn}': { MaximumConcurrency: 240 }, '{AnnotationQueue.Arn}': { MaximumConcurrency: 240 } };
    assert.deepEqual(limits({ innerConcurrency: 240 }), { ...inner, '{SourceQueue.Arn}': { MaximumConcurrency: 10 } });
    const ofAsyncRetry = Object.values(resources(createAsyncRetryTemplate({ innerConcurrency: 3 }), 'AWS::Lambda::EventSourceMapping'));
    assert.deepEqual(ofAsyncRetry.map(({ Properties }) => Properties['ScalingConfig']), [{ MaximumConcurrency: 3 }, { MaximumConcurrency: 3 }]);
  });

  test("sets the threshold of the intermediate DLQ's backlog alarm", () => {
    const thresholds = [2, 10, 1000].map((innerConcurrency) => {
      const template = templateWith(() => ({ ...HTTP, innerConcurrency }));
      return namedResource(template, 'AWS::CloudWatch::Alarm', 'AlarmName', 'redeliver-prod-intermediate-dlq-backlog').Properties['Threshold'];
    });
    assert.deepEqual(thresholds, [200, 1000, 100_000]);
  });

  test("outside a mapping's range is refused", () => {
    for (const innerConcurrency of [1, 1001, 2.5]) {
      const sentence = `innerConcurrency is ${innerConcurrency}; use a whole number from 2 to 1000 (what an SQS event source mapping accepts).`;
      assert.deepEqual(collectProblems({ innerConcurrency, innerReservedConcurrency: 1 }), [sentence]);
      assert.throws(() => createAsyncRetryTemplate({ innerConcurrency }), { message: sentence });
    }
  });
});

describe('reserved concurrency of the inner functions', () => {
  test('does not apply to the message-processor', () => {
    const inner = { FailedMessageProcessor: 10, FinalDlqAnnotator: 10 };
    const kept = (props: Partial<RedeliverProps>): unknown => functionProperties(templateWith(() => ({ ...HTTP, innerReservedConcurrency: 10, ...props })), 'ReservedConcurrentExecutions');
    assert.deepEqual(kept({}), inner);
    assert.deepEqual(kept({ reservedConcurrency: 20 }), { MessageProcessor: 20, ...inner });
    assert.deepEqual(kept({ strategy: Strategy.VISIBILITY }), { FinalDlqAnnotator: 10 });
    assert.deepEqual(functionProperties(createAsyncRetryTemplate({ innerReservedConcurrency: 11 }), 'ReservedConcurrentExecutions'), { AsyncRetryHandler: 11, FinalDlqAnnotator: 11 });
  });

  test('must cover all concurrent invocations', () => {
    const sentence = (given: number, needed: number): string =>
      `innerReservedConcurrency is ${given}; use a whole number of at least innerConcurrency = ${needed}.`;
    assert.deepEqual(collectProblems({ innerReservedConcurrency: 9 }), [sentence(9, 10)]);
    assert.deepEqual(collectProblems({ innerConcurrency: 20, innerReservedConcurrency: 19 }), [sentence(19, 20)]);
    assert.deepEqual(collectProblems({ innerConcurrency: 2, innerReservedConcurrency: 2 }), []);
    assert.throws(() => createAsyncRetryTemplate({ innerReservedConcurrency: 9 }), { message: sentence(9, 10) });
  });
});

describe('provisioned pollers', () => {
  test('replace the maximum concurrency, on the source queue only', () => {
    const inner = { '{IntermediateDlq.Arn}': { MaximumConcurrency: 10 }, '{AnnotationQueue.Arn}': { MaximumConcurrency: 10 } };
    assert.deepEqual(limits({ provisionedPollers: { maximum: 20 } }), { ...inner, '{SourceQueue.Arn}': { MinimumPollers: 2, MaximumPollers: 20 } });
    assert.deepEqual(limits({ provisionedPollers: { minimum: 3, maximum: 4 } }), { ...inner, '{SourceQueue.Arn}': { MinimumPollers: 3, MaximumPollers: 4 } });
  });

  const cases: [string, Partial<RedeliverProps>, string[]][] = [
    [
      'beside the largest concurrency',
      { provisionedPollers: { maximum: 4 }, maxConcurrency: 10 },
      ['maxConcurrency cannot be used with provisionedPollers, which limit the invocations themselves, ten each; remove one of the two.'],
    ],
    [
      'without a maximum, which would be more than most accounts have',
      { provisionedPollers: { minimum: 2 } as never },
      ['provisionedPollers.maximum is missing; give a number.'],
    ],
    ['too few', { provisionedPollers: { minimum: 1, maximum: 4 } }, ['provisionedPollers.minimum is 1; use a whole number from 2 to 200 (what an SQS event source mapping accepts).']],
    ['too many', { provisionedPollers: { maximum: 2001 } }, ['provisionedPollers.maximum is 2001; use a whole number from 2 to 2000 (what the CDK accepts).']],
    ['the maximum number', { provisionedPollers: { minimum: 200, maximum: 2000 } }, []],
    ['a minimum above the maximum', { provisionedPollers: { minimum: 5, maximum: 4 } }, ['provisionedPollers.minimum is 5, more than maximum (4); lower it or raise the other.']],
    ['with enough concurrency', { provisionedPollers: { maximum: 4 }, reservedConcurrency: 40 }, []],
    [
      'with less concurrency than they use',
      { provisionedPollers: { maximum: 4 }, reservedConcurrency: 39 },
      [
        'reservedConcurrency is 39; use a whole number of at least 10 × provisionedPollers.maximum = 40: Lambda would throttle the other invocations, and each ' +
          'throttled message spends one of maxRedrives.',
      ],
    ],
  ];
  for (const [name, props, sentences] of cases) {
    test(name, () => assert.deepEqual(collectProblems(props), sentences));
  }
});

describe('a key for the logs', () => {
  test("encrypts all log groups, and its policy admits the account's log groups", () => {
    const template = templateWith((stack) => ({ ...HTTP, existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders'), logEncryptionKey: new kms.Key(stack, 'Key') }));
    const keys = Object.values(resources(template, 'AWS::Logs::LogGroup')).map(({ Properties }) => makeReadable(Properties['KmsKeyId']));
    assert.deepEqual(keys, Array.from({ length: 4 }, () => '{Key.Arn}'));
    const [, ...added] = makeReadable(resources(template, 'AWS::KMS::Key')['Key']?.Properties['KeyPolicy'].Statement);
    assert.deepEqual(added, [
      {
        Effect: 'Allow',
        Principal: { Service: 'logs.{AWS::Region}.{AWS::URLSuffix}' },
        Action: ['kms:Decrypt*', 'kms:Describe*', 'kms:Encrypt*', 'kms:GenerateDataKey*', 'kms:ReEncrypt*'],
        Resource: '*',
        Condition: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': 'arn:{AWS::Partition}:logs:{AWS::Region}:{AWS::AccountId}:log-group:*' } },
      },
    ]);
  });

  test('if imported, is used unchanged', () => {
    const arn = 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000001';
    const template = templateWith((stack) => ({ ...HTTP, logEncryptionKey: kms.Key.fromKeyArn(stack, 'Key', arn) }));
    assert.equal(resources(template, 'AWS::Logs::LogGroup')['MessageProcessorLogs']?.Properties['KmsKeyId'], arn);
  });
});

describe('alarms', () => {
  function alarms(props: Partial<RedeliverProps>): Record<string, Record<string, unknown>> {
    const found = Object.values(resources(templateWith(() => ({ ...HTTP, ...props })), 'AWS::CloudWatch::Alarm'));
    return Object.fromEntries(found.map(({ Properties }) => [Properties['AlarmName'].replace('redeliver-prod-', ''), Properties]));
  }
  const usual = alarms({});

  test('a changed threshold appears in the alarm and its description', () => {
    const { 'intermediate-dlq-backlog': backlog, ...others } = alarms({ alarmSettings: { 'intermediate-dlq-backlog': { threshold: 50_000 } } });
    const { 'intermediate-dlq-backlog': before, ...same } = usual;
    assert.deepEqual(backlog, {
      ...before,
      Threshold: 50_000,
      AlarmDescription: `${before?.['AlarmDescription']} (Set to go off above 50000, not above 1000.)`,
    });
    assert.deepEqual(others, same);
  });

  test('a disabled alarm is absent, also from the dashboard', () => {
    const props = { alarmSettings: { 'target-down': { enabled: false }, 'final-dlq-arrivals': { enabled: true } } };
    const { 'target-down': _, ...rest } = usual;
    assert.deepEqual(alarms(props), rest);
    const body = makeReadable(resources(templateWith(() => ({ ...HTTP, ...props })), 'AWS::CloudWatch::Dashboard')['Dashboard']?.Properties['DashboardBody']);
    assert.match(body, /Alarmfinaldlqarrivals/);
    assert.ok(!/Alarmtargetdown/.test(body));
  });

  const ESSENTIAL = [
    'annotation-queue-waits-too-long', 'failed-message-processor-errors', 'final-dlq-about-to-expire', 'final-dlq-annotator-errors', 'final-dlq-not-empty',
    'held-too-long', 'intermediate-dlq-waits-too-long', 'message-processor-errors', 'source-queue-waits-too-long', 'target-down',
  ];

  test('the essential alarms have their defaults, and single ones can be added or removed', () => {
    const { ESSENTIAL: alarmPreset } = AlarmPreset;
    assert.deepEqual(alarms({ alarmPreset }), Object.fromEntries(ESSENTIAL.map((name) => [name, usual[name]])));
    const alarmSettings = { 'target-down': { enabled: false }, 'final-dlq-arrivals': { enabled: true }, 'moved-by-redrive': {} };
    const wanted = [...ESSENTIAL.filter((name) => name !== 'target-down'), 'final-dlq-arrivals'].sort();
    assert.deepEqual(Object.keys(alarms({ alarmPreset, alarmSettings })).sort(), wanted);
    assert.deepEqual(alarms({ alarmPreset: AlarmPreset.ALL }), usual);
  });

  test('the essential alarms of other strategies watch their own queues and functions', () => {
    const { ESSENTIAL: alarmPreset } = AlarmPreset;
    const [hidden, other] = ['intermediate-dlq-waits-too-long', 'failed-message-processor-errors'];
    const ofVisibility = ESSENTIAL.filter((name) => name !== hidden && name !== other && name !== 'held-too-long' && name !== 'target-down');
    assert.deepEqual(Object.keys(alarms({ alarmPreset, strategy: Strategy.VISIBILITY })).sort(), [...ofVisibility, 'source-queue-in-flight'].sort());
    const names = Object.values(resources(createAsyncRetryTemplate({ alarmPreset }), 'AWS::CloudWatch::Alarm')).map(({ Properties }) => Properties['AlarmName']);
    assert.deepEqual(names.map((name) => name.replace('redeliver-async-prod-', '')).sort(), [
      'Report-failure-not-sent', 'annotation-queue-waits-too-long', 'async-retry-handler-errors', 'final-dlq-about-to-expire',
      'final-dlq-annotator-errors', 'final-dlq-not-empty', 'retry-queue-waits-too-long',
    ]);
  });

  test('all alarms can be disabled', () => {
    const alarmSettings = Object.fromEntries(Object.keys(usual).map((name) => [name, { enabled: false }]));
    assert.deepEqual(alarms({ alarmSettings }), {});
  });

  test('alarms of AsyncRetry can be configured, too', () => {
    const template = createAsyncRetryTemplate({ alarmSettings: { 'Report-failure-not-sent': { threshold: 5 } } });
    const thresholds = Object.values(resources(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => Properties['Threshold']);
    assert.equal(thresholds.filter((threshold) => threshold === 5).length, 1);
  });

  const cases: [string, unknown, string | RegExp][] = [
    ['a misspelt alarm', { 'target-don': { enabled: false } }, 'alarmSettings.target-don is not an alarm of this construct; did you mean target-down?'],
    ['an unknown alarm', { disk: {} }, /^alarmSettings\.disk is not an alarm of this construct; the alarms are final-dlq-not-empty, /],
    ['a negative threshold', { 'target-down': { threshold: -1 } }, 'alarmSettings.target-down.threshold is -1; use 0 or more.'],
    ['a missing setting', { 'target-down': false }, 'alarmSettings.target-down is a boolean; give { enabled, threshold }.'],
    ['a misspelt setting', { 'target-down': { enable: false } }, 'alarmSettings.target-down.enable is not a prop of alarmSettings; did you mean alarmSettings.target-down.enabled?'],
  ];
  for (const [name, alarmSettings, sentence] of cases) {
    test(name, () => {
      const [problem = '', ...more] = collectProblems({ alarmSettings: alarmSettings as never });
      assert.ok(typeof sentence === 'string' ? problem === sentence : sentence.test(problem), problem);
      assert.deepEqual(more, []);
    });
  }
});

test('disabling the dashboard removes nothing else', () => {
  const [without, usual] = [templateWith(() => ({ ...HTTP, dashboard: false })), templateWith(() => HTTP)].map((template) => template.toJSON().Resources);
  const gone = Object.keys(usual).filter((id) => !(id in without));
  assert.deepEqual(gone.map((id) => usual[id].Type), ['AWS::CloudWatch::Dashboard']);
  assert.equal(Object.keys(without).length, Object.keys(usual).length - 1);
});

test("memorySize is refused with a user's own function", () => {
  const stack = new Stack(new App(), 'Test');
  const own = userFunction(stack, 'Orders', { timeout: Duration.seconds(60) });
  assert.throws(() => new Redeliver(stack, 'Retries', { target: Target.ownFunction(own), bundles, memorySize: 512 }), {
    message: "memorySize only applies to redeliver's own message-processor, which target.function replaces; remove it, and set memorySize on the function.",
  });
});
