import { Duration } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { type RedeliverProps, RetryPolicy, SourceQueue, Strategy, Target } from '../lib/index';
import { DELAY_SECONDS_MAX } from '../lib/policy';
import { RedeliverPropsError } from '../lib/props-error';
import { grants, makeReadable, referencesOf, resources } from './stack-exact';
import { fakeBundles, HTTP, stackWith, templateWith } from './stack-support';

const ORDERS = 'arn:aws:sqs:eu-west-1:111122223333:orders';
const hour = 3600;

function variables(template: Template, id: string): Record<string, unknown> {
  return makeReadable(resources(template, 'AWS::Lambda::Function')[id]?.Properties['Environment'].Variables);
}

/** Returns the threshold of each alarm, by name. */
function alarms(template: Template): Record<string, number> {
  const found = Object.values(resources(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => Properties);
  return Object.fromEntries(found.map(({ AlarmName, Threshold }) => [AlarmName.replace('redeliver-prod-', ''), Threshold]));
}

function senders(template: Template, queue: string): string[] {
  const policies = Object.values(resources(template, 'AWS::SQS::QueuePolicy')).map(({ Properties }) => makeReadable(Properties));
  const [policy] = policies.filter(({ Queues }) => Queues[0] === `{${queue}}`);
  const [denial] = policy.PolicyDocument.Statement.filter(({ Sid }: any) => Sid === 'OnlyTheFunctionsSend');
  return denial.Condition.ArnNotEquals['aws:PrincipalArn'];
}

function receivePermissions(queue: string): string[] {
  const actions = ['ChangeMessageVisibility', 'DeleteMessage', 'GetQueueAttributes', 'GetQueueUrl', 'ReceiveMessage'];
  return actions.map((action) => `Allow sqs:${action} on ${queue}`);
}

function ownPermissions(id: string): string[] {
  return [
    `Allow logs:CreateLogStream on {${id}Logs.Arn}`,
    `Allow logs:PutLogEvents on {${id}Logs.Arn}`,
    'Allow xray:PutTelemetryRecords on *',
    'Allow xray:PutTraceSegments on *',
  ];
}

function sendPermissions(...queues: string[]): string[] {
  return queues.map((queue) => `Allow sqs:SendMessage on ${queue}`);
}

function widgetTitles(template: Template): string[] {
  const { Dashboard } = resources(template, 'AWS::CloudWatch::Dashboard');
  return JSON.parse(makeReadable(Dashboard?.Properties['DashboardBody'])).widgets.map(({ properties }: any) => properties.title);
}

/** Asserts that every reference names a resource, a parameter or a pseudo parameter. */
function assertNoDanglingReferences(template: Template): void {
  const { Resources, Parameters = {}, Outputs = {} } = template.toJSON();
  const known = new Set([...Object.keys(Resources), ...Object.keys(Parameters)]);
  const missing = referencesOf([Resources, Outputs]).filter((id) => !known.has(id) && !id.startsWith('AWS'));
  assert.deepEqual(missing, []);
}

describe('strategy visibility', () => {
  const template = templateWith(() => ({ ...HTTP, strategy: Strategy.VISIBILITY }));

  test('has three queues and two functions, and nothing references the others', () => {
    assert.deepEqual(Object.keys(resources(template, 'AWS::SQS::Queue')).sort(), ['AnnotationQueue', 'FinalDlq', 'SourceQueue']);
    assert.deepEqual(Object.keys(resources(template, 'AWS::Lambda::Function')).sort(), ['FinalDlqAnnotator', 'MessageProcessor']);
    assert.deepEqual(Object.keys(resources(template, 'AWS::Lambda::EventSourceMapping')).length, 2);
    assert.equal(JSON.stringify(template.toJSON()).match(/intermediate|failed-message-processor|FailedMessageProcessor/i), null);
    assertNoDanglingReferences(template);
    const { redeliver } = stackWith(() => ({ ...HTTP, strategy: Strategy.VISIBILITY }));
    assert.deepEqual([redeliver.intermediateDlq, redeliver.failedMessageProcessor], [undefined, undefined]);
  });

  test('SQS moves a message ten receives after the last retry', () => {
    const redrive = (of: Template): unknown => makeReadable(resources(of, 'AWS::SQS::Queue')['SourceQueue']?.Properties['RedrivePolicy']);
    assert.deepEqual(redrive(template), { deadLetterTargetArn: '{AnnotationQueue.Arn}', maxReceiveCount: 15 });
    const more = templateWith(() => ({ ...HTTP, strategy: Strategy.VISIBILITY, policy: RetryPolicy.fromJson({ preset: 'durable_critical' }) }));
    assert.deepEqual(redrive(more), { deadLetterTargetArn: '{AnnotationQueue.Arn}', maxReceiveCount: 19 });
    const allowed = makeReadable(resources(template, 'AWS::SQS::Queue')['AnnotationQueue']?.Properties['RedriveAllowPolicy']);
    assert.deepEqual(allowed, {
      redrivePermission: 'byQueue',
      sourceQueueArns: ['arn:{AWS::Partition}:sqs:{AWS::Region}:{AWS::AccountId}:redeliver-prod-source'],
    });
  });

  test('the message-processor has the settings of the strategy and the whole policy', () => {
    assert.deepEqual(variables(template, 'MessageProcessor'), {
      STRATEGY: 'visibility',
      SOURCE_QUEUE_URL: '{SourceQueue}',
      VISIBILITY_TIMEOUT_SECONDS: '361',
      RETENTION_SECONDS: '604800',
      RETRY_POLICY: '{}',
      ANNOTATION_QUEUE_URL: '{AnnotationQueue}',
      MAX_CONCURRENCY: '10',
      TARGET: 'https://orders.example.com/hook',
      TARGET_TIMEOUT_SECONDS: '30',
    });
    const policy = { max_attempts: 3 };
    const bundle = join(fakeBundles(), 'message-processor');
    const handler = templateWith(() => ({
      target: Target.handler(bundle),
      strategy: Strategy.VISIBILITY,
      policy: RetryPolicy.fromJson(policy),
      longDelays: true,
      sourceVisibilityTimeout: Duration.seconds(400),
    }));
    assert.deepEqual(variables(handler, 'MessageProcessor'), {
      STRATEGY: 'visibility',
      SOURCE_QUEUE_URL: '{SourceQueue}',
      VISIBILITY_TIMEOUT_SECONDS: '400',
      RETENTION_SECONDS: '604800',
      RETRY_POLICY: '{"max_attempts":3,"long_delays":true}',
      ANNOTATION_QUEUE_URL: '{AnnotationQueue}',
      MAX_CONCURRENCY: '10',
    });
  });

  test('roles and queue policies are exact', () => {
    const keyed = templateWith((stack) => ({ ...HTTP, strategy: Strategy.VISIBILITY, encryptionKey: new kms.Key(stack, 'Key') }));
    const key = ['Allow kms:Decrypt on {Key.Arn}', 'Allow kms:GenerateDataKey on {Key.Arn}'];
    const processor = [...ownPermissions('MessageProcessor'), ...receivePermissions('{SourceQueue.Arn}'), ...sendPermissions('{AnnotationQueue.Arn}')];
    const annotator = [...ownPermissions('FinalDlqAnnotator'), ...receivePermissions('{AnnotationQueue.Arn}'), ...sendPermissions('{FinalDlq.Arn}')];
    assert.deepEqual(Object.keys(resources(template, 'AWS::IAM::Role')).sort(), ['FinalDlqAnnotatorRole', 'MessageProcessorRole']);
    assert.deepEqual(grants(template, 'MessageProcessorRole'), [...processor].sort());
    assert.deepEqual(grants(template, 'FinalDlqAnnotatorRole'), [...annotator].sort());
    assert.deepEqual(grants(keyed, 'MessageProcessorRole'), [...processor, ...key].sort());
    assert.deepEqual(grants(keyed, 'FinalDlqAnnotatorRole'), [...annotator, ...key].sort());
    const keys = Object.entries(resources(keyed, 'AWS::SQS::Queue')).map(([id, { Properties }]) => [id, makeReadable(Properties['KmsMasterKeyId'])]);
    assert.deepEqual(Object.fromEntries(keys), { SourceQueue: '{Key.Arn}', AnnotationQueue: '{Key.Arn}', FinalDlq: '{Key.Arn}' });
    assert.deepEqual(senders(template, 'AnnotationQueue'), ['{MessageProcessorRole.Arn}']);
    assert.deepEqual(senders(template, 'FinalDlq'), ['{FinalDlqAnnotatorRole.Arn}']);
  });

  test('alarms account for hidden messages and their limit', () => {
    assert.deepEqual(alarms(template), {
      'final-dlq-not-empty': 0,
      'final-dlq-arrivals': 0,
      'all-invalid': 9,
      'final-dlq-about-to-expire': 967_680,
      // SQS reports a message's age until its third receive: three delays of up to 900 s.
      'source-queue-waits-too-long': hour + 3 * 900,
      'annotation-queue-waits-too-long': hour,
      'source-queue-in-flight': 96_000,
      'message-processor-sees-old-messages': 483_840,
      'final-dlq-annotator-sees-old-messages': 967_680,
      ...Object.fromEntries(
        ['message-processor', 'final-dlq-annotator'].flatMap((name) =>
          ['errors', 'throttles', 'not-confirmed'].map((what) => [`${name}-${what}`, 0]),
        ),
      ),
    });
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      AlarmName: 'redeliver-prod-source-queue-in-flight',
      Namespace: 'AWS/SQS',
      MetricName: 'ApproximateNumberOfMessagesNotVisible',
      Statistic: 'Maximum',
    });
  });

  test("the wait alarm fires an hour after the policy's first three retries", () => {
    const waits = (policy: Record<string, unknown>): number | undefined =>
      alarms(templateWith(() => ({ ...HTTP, strategy: Strategy.VISIBILITY, policy: RetryPolicy.fromJson(policy) })))['source-queue-waits-too-long'];
    assert.equal(waits({ backoff: { kind: 'schedule', delays_seconds: [10, 20, 30, 900] } }), hour + 60);
    assert.equal(waits({ max_attempts: 2 }), hour + 2 * 900);
    assert.equal(waits({ max_attempts: 0 }), hour);
  });

  test('the dashboard shows hidden messages instead of hand-offs, and no absent function', () => {
    assert.ok(widgetTitles(template).includes('Received and not deleted: hidden until their retry, or worked on (at most 120,000)'));
    assert.ok(!widgetTitles(template).includes('Failures by kind'));
    const body = makeReadable(resources(template, 'AWS::CloudWatch::Dashboard')['Dashboard']?.Properties['DashboardBody']);
    const asked = [...body.matchAll(/"Redeliver","(\w+)","Function","\{(\w+)\}"/g)].map(([, metric, by]) => `${metric} of ${by}`);
    assert.ok(asked.includes('RetriesScheduled of MessageProcessor') && !asked.some((one) => one.startsWith('HandedOff')), asked.join());
  });

  test('an existing source queue must move messages to the annotation queue', () => {
    const existing = templateWith(() => ({ ...HTTP, strategy: Strategy.VISIBILITY, existingSourceQueue: SourceQueue.fromArn(ORDERS) }));
    const policies = Object.values(resources(existing, 'Custom::RedeliverSourceQueue')).map(({ Properties }) => makeReadable(Properties['RedrivePolicy']));
    const policy = '{"deadLetterTargetArn":"{AnnotationQueue.Arn}","maxReceiveCount":15}';
    assert.deepEqual(policies, [policy, policy]);
    const allowed = resources(existing, 'AWS::SQS::Queue')['AnnotationQueue']?.Properties['RedriveAllowPolicy'];
    assert.deepEqual(allowed, { redrivePermission: 'byQueue', sourceQueueArns: [ORDERS] });
    const processor = [...ownPermissions('MessageProcessor'), ...receivePermissions(ORDERS), ...sendPermissions('{AnnotationQueue.Arn}')];
    assert.deepEqual(grants(existing, 'MessageProcessorRole'), processor.sort());
    assertNoDanglingReferences(existing);
  });

  test('a Lambda target is watched for its loop', () => {
    const arn = 'arn:aws:lambda:eu-west-1:111122223333:function:orders';
    const invoked = templateWith((stack) => ({
      target: Target.lambdaFunction(lambda.Function.fromFunctionArn(stack, 'Target', arn)),
      strategy: Strategy.VISIBILITY,
    }));
    assert.equal(alarms(invoked)['target-loop-stopped'], 0);
  });
});

describe('long delays', () => {
  const long = { max_attempts: 40, backoff: { kind: 'exponential', initial_delay_seconds: 60, max_delay_seconds: 43_200 } };
  const template = templateWith(() => ({ ...HTTP, longDelays: true, policy: RetryPolicy.fromJson(long) }));

  test('only with long delays can the failed-message-processor send to its own queue', () => {
    const usual = [...ownPermissions('FailedMessageProcessor'), ...receivePermissions('{IntermediateDlq.Arn}'), ...sendPermissions('{AnnotationQueue.Arn}', '{SourceQueue.Arn}')];
    assert.deepEqual(grants(template, 'FailedMessageProcessorRole'), [...usual, ...sendPermissions('{IntermediateDlq.Arn}')].sort());
    assert.deepEqual(senders(template, 'IntermediateDlq'), ['{MessageProcessorRole.Arn}', '{FailedMessageProcessorRole.Arn}']);
    const short = templateWith(() => ({ ...HTTP, longDelays: false }));
    assert.deepEqual(grants(short, 'FailedMessageProcessorRole'), usual.sort());
    assert.deepEqual(senders(short, 'IntermediateDlq'), ['{MessageProcessorRole.Arn}']);
  });

  test('the policy contains long_delays, whichever option set it', () => {
    const said = templateWith(() => ({ ...HTTP, policy: RetryPolicy.fromJson({ ...long, long_delays: true }) }));
    for (const each of [template, said]) {
      for (const name of ['MessageProcessor', 'FailedMessageProcessor']) {
        assert.equal(variables(each, name)['RETRY_POLICY'], JSON.stringify({ ...long, long_delays: true }), name);
      }
      assert.equal(variables(each, 'MessageProcessor')['STRATEGY'], 'delayed-resend');
    }
  });

  test('alarms allow for hops, which are new messages with an old first send', () => {
    // 60, 120 ... 30,720: ten delays; then 30 of 12 hours; 41 calls of a minute, each a second after its receive.
    const span = 60 * 1023 + 30 * 43_200 + 41 * 61;
    const thresholds = alarms(template);
    // A day-long target outage, and failures of our function: the redrives' delays and 20 visibility timeouts of 361 s.
    const held = 86_400 + 1 + 189 * 61;
    const moved = 5 * 255 + 12 * 900 + 20 * 361;
    for (const name of ['message-processor', 'failed-message-processor', 'final-dlq-annotator']) {
      assert.equal(thresholds[`${name}-sees-old-messages`], span + held + moved + hour);
    }
    const without = templateWith(() => ({ ...HTTP, longDelays: true, policy: RetryPolicy.fromJson({ ...long, circuit_breaker: false, max_redrives: 0 }) }));
    assert.equal(alarms(without)['message-processor-sees-old-messages'], span + hour);
    assert.deepEqual([thresholds['intermediate-dlq-waits-too-long'], thresholds['source-queue-waits-too-long']], [hour, hour]);
    assert.equal(thresholds['intermediate-dlq-keeps-failing'], 4, 'the receives of one hop');
    const few = alarms(templateWith(() => ({ ...HTTP, longDelays: true })));
    assert.deepEqual(
      [few['message-processor-sees-old-messages'], few['final-dlq-annotator-sees-old-messages']],
      [483_840, 967_680],
      'never earlier than without',
    );
  });

  test('alarms allow for an outage at any retention, since each re-send is a new message', () => {
    const sees = (props: Partial<RedeliverProps>): unknown => alarms(templateWith(() => ({ ...HTTP, ...props })))['message-processor-sees-old-messages'];
    const outage = 5 * 900 + 6 * 61 + (86_400 + 1 + 189 * 61) + (5 * 255 + 12 * 900);
    const day = { sourceRetention: Duration.days(1) };
    assert.equal(sees(day), outage + 20 * 361 + hour);
    assert.equal(sees({ ...day, maxReceiveCount: 2 }), outage + 20 * 2 * 361 + hour, 'SQS moves it at the second receive');
    assert.equal(sees({ ...day, policy: RetryPolicy.fromJson({ max_age_seconds: 80_000 }) }), 80_000 + hour);
    assert.equal(sees({ ...day, policy: RetryPolicy.fromJson({ circuit_breaker: false, max_redrives: 0 }) }), 0.8 * 86_400);
    assert.equal(sees({ ...day, strategy: Strategy.VISIBILITY }), 0.8 * 86_400, 'a hidden message has one clock');
    assert.equal(sees({}), 483_840);
  });

  test('the dashboard shows hops', () => {
    const body = makeReadable(resources(template, 'AWS::CloudWatch::Dashboard')['Dashboard']?.Properties['DashboardBody']);
    assert.ok(body.includes('"Redeliver","Hops","Function","{FailedMessageProcessor}"'));
    assert.ok(body.includes('"ApproximateNumberOfMessagesDelayed","QueueName","{IntermediateDlq.QueueName}"'));
  });
});

describe('the circuit breaker', () => {
  const off = { circuit_breaker: false };
  const down = (props: Partial<RedeliverProps>): any =>
    Object.values(resources(templateWith(() => ({ ...HTTP, ...props })), 'AWS::CloudWatch::Alarm')).find(
      ({ Properties }) => Properties['AlarmName'] === 'redeliver-prod-target-down',
    )?.Properties;

  test('has an alarm by default with re-sends, and if enabled with visibility', () => {
    assert.equal(down({}).Statistic, 'Maximum');
    assert.equal(down({ policy: RetryPolicy.fromJson({ circuit_breaker: { per: 'target' } }) }).Statistic, 'Maximum');
    assert.equal(down({ policy: RetryPolicy.fromJson(off) }), undefined);
    assert.equal(down({ strategy: Strategy.DIRECT_RESEND }).Statistic, 'Maximum');
    assert.equal(down({ strategy: Strategy.DIRECT_RESEND, policy: RetryPolicy.fromJson(off) }), undefined);
    assert.equal(down({ strategy: Strategy.VISIBILITY }), undefined);
    assert.equal(down({ strategy: Strategy.VISIBILITY, policy: RetryPolicy.fromJson(off) }), undefined);
    assert.equal(down({ strategy: Strategy.VISIBILITY, policy: RetryPolicy.fromJson({ circuit_breaker: {} }) }).Statistic, 'Maximum');
  });

  test('causes one alert per outage: the alarm clears three periods after the last sign', () => {
    const { Threshold, ComparisonOperator, Period, EvaluationPeriods, DatapointsToAlarm, TreatMissingData } = down({});
    assert.deepEqual(
      [Threshold, ComparisonOperator, Period, EvaluationPeriods, DatapointsToAlarm, TreatMissingData],
      [0, 'GreaterThanThreshold', 300, 3, 1, 'notBreaching'],
    );
    // Two datapoints separated by the longest hold are at most three periods apart.
    assert.ok(DELAY_SECONDS_MAX <= EvaluationPeriods * Period);
  });

  test("has its cost in the strategy's description", () => {
    assert.match(down({}).AlarmDescription, /Held messages spend no attempt, and are processed within 15 minutes of its return/);
    const hidden = down({ strategy: Strategy.VISIBILITY, policy: RetryPolicy.fromJson({ circuit_breaker: {} }) });
    assert.match(hidden.AlarmDescription, /Each receive of a held message still spends an attempt/);
  });

  test("is on the dashboard if enabled, and held messages do not count as producers'", () => {
    const body = (props: Partial<RedeliverProps>): string =>
      makeReadable(resources(templateWith(() => ({ ...HTTP, ...props })), 'AWS::CloudWatch::Dashboard')['Dashboard']?.Properties['DashboardBody']);
    const [on, none] = [body({}), body({ policy: RetryPolicy.fromJson(off) })];
    assert.ok(on.includes('"Outages of the target"') && on.includes('FILL(sent, 0) - FILL(retries, 0) - FILL(held, 0)'));
    assert.ok(!none.includes('"Outages of the target"') && none.includes('"FILL(sent, 0) - FILL(retries, 0)"'));
    assert.ok(!/CircuitOpen|"Held"|"Probes"/.test(none));
    assert.ok(body({ strategy: Strategy.VISIBILITY, policy: RetryPolicy.fromJson({ circuit_breaker: {} }) }).includes('"Outages of the target"'));
  });
});

test('each deciding function gets the complete policy', () => {
  const policy = {
    immediate: { max_attempts: 2, delay_ms: 100 },
    circuit_breaker: { per: 'target', hold_seconds_max: 3600 },
    max_redrives: 7,
    non_retryable: ['Panic'],
  };
  const template = templateWith(() => ({ ...HTTP, policy: RetryPolicy.fromJson(policy) }));
  // The policy includes its lists, which determine the errors that count as an outage.
  assert.equal(variables(template, 'MessageProcessor')['RETRY_POLICY'], JSON.stringify(policy));
  assert.equal(variables(template, 'FailedMessageProcessor')['RETRY_POLICY'], JSON.stringify(policy));
  const off = { circuit_breaker: false };
  const without = templateWith(() => ({ ...HTTP, policy: RetryPolicy.fromJson(off) }));
  for (const name of ['MessageProcessor', 'FailedMessageProcessor']) {
    assert.equal(variables(without, name)['RETRY_POLICY'], JSON.stringify(off), name);
  }
  const saving = { circuit_breaker: { per: 'target' }, max_attempts: 3 };
  const hiding = templateWith(() => ({ ...HTTP, strategy: Strategy.VISIBILITY, policy: RetryPolicy.fromJson(saving) }));
  assert.equal(variables(hiding, 'MessageProcessor')['RETRY_POLICY'], JSON.stringify(saving));
});

describe('an invalid combination is reported in one sentence', () => {
  function collectProblems(props: Partial<RedeliverProps>): string[] {
    try {
      stackWith(() => ({ ...HTTP, ...props }));
      return [];
    } catch (error) {
      assert.ok(error instanceof RedeliverPropsError, String(error));
      return error.message.split('\n');
    }
  }
  const hiding = { strategy: Strategy.VISIBILITY } as const;
  const direct = { strategy: Strategy.DIRECT_RESEND } as const;
  const fixed = (delay_seconds: number, max_attempts = 1): Record<string, unknown> => ({ long_delays: true, max_attempts, backoff: { kind: 'fixed', delay_seconds } });
  const spans = (attempts: number, days: string): string =>
    `policy allows ${attempts} retries over ${days} days at worst, more than 80 % of the time that the source queue keeps a message (7.0 days); ` +
    'lower max_attempts or the delays, set max_age_seconds, or raise sourceRetention.';
  const cases: [string, Partial<RedeliverProps>, string[]][] = [
    [
      'max_redrives with a strategy without redrives',
      { strategy: Strategy.VISIBILITY, policy: RetryPolicy.fromJson({ max_redrives: 20 }) },
      ['policy/max_redrives only applies to the strategies delayed-resend and direct-resend: remove it.'],
    ],
    ['a breaker with a strategy where each receive is an attempt', { strategy: Strategy.VISIBILITY, policy: RetryPolicy.fromJson({ circuit_breaker: { per: 'target' } }) }, []],
    ['longDelays: true with long_delays: false', { longDelays: true, policy: RetryPolicy.fromJson({ long_delays: false }) }, ['longDelays is true, but policy/long_delays is false; remove one of the two.']],
    ['longDelays: false with long_delays: true', { longDelays: false, policy: RetryPolicy.fromJson({ long_delays: true }) }, ['longDelays is false, but policy/long_delays is true; remove one of the two.']],
    ['re-send options, with direct-resend', { ...direct, maxReceiveCount: 3, policy: RetryPolicy.fromJson({ max_redrives: 3 }) }, []],
    ['more receives than direct-resend allows', { ...direct, maxReceiveCount: 11 }, [
      'maxReceiveCount is 11; use a whole number from 1 to 10 (each receive may call the target, and the policy does not count these calls).',
    ]],
    ['a week of hops, with direct-resend', { ...direct, policy: RetryPolicy.fromJson(fixed(42_840, 14)) }, []],
    ['short delays for longer than the retention, with direct-resend', { ...direct, policy: RetryPolicy.fromJson({ max_attempts: 1000 }) }, [spans(1000, '11.1')]],
    ['longDelays equal to the policy', { longDelays: true, policy: RetryPolicy.fromJson({ long_delays: true }) }, []],
    [
      'maxReceiveCount with visibility',
      { ...hiding, maxReceiveCount: 3 },
      ['maxReceiveCount only applies to the strategies delayed-resend and direct-resend; remove it: with visibility each retry is a receive, and SQS moves a message after maxAttempts + 10 of them.'],
    ],
    ['980 receives and two margins of ten', { ...hiding, policy: RetryPolicy.fromJson({ max_attempts: 980, backoff: { kind: 'fixed', delay_seconds: 1 } }) }, []],
    [
      'more receives than SQS counts',
      { ...hiding, policy: RetryPolicy.fromJson({ max_attempts: 981, backoff: { kind: 'fixed', delay_seconds: 1 } }) },
      ['policy/max_attempts is 981; use at most 980 with strategy visibility: SQS moves a message after max_attempts + 10 receives, the annotation queue keeps it for 10 more, and SQS counts to 1000.'],
    ],
    ['the longest delay that SQS can hide', { ...hiding, policy: RetryPolicy.fromJson(fixed(42_839)) }, []],
    [
      'a second more, which would be too early',
      { ...hiding, policy: RetryPolicy.fromJson(fixed(42_840)) },
      [
        'policy has a delay of 42840 s; use at most 42839 s with strategy visibility: SQS hides a message for at most 43200 s (12 hours) from its receive, ' +
          'of which the visibility timeout (361 s) may have passed.',
      ],
    ],
    ['the same with a longer visibility timeout', { ...hiding, policy: RetryPolicy.fromJson(fixed(42_800)), sourceVisibilityTimeout: Duration.seconds(400) }, []],
    [
      'a second more with it',
      { ...hiding, policy: RetryPolicy.fromJson(fixed(42_801)), sourceVisibilityTimeout: Duration.seconds(400) },
      [
        'policy has a delay of 42801 s; use at most 42800 s with strategy visibility: SQS hides a message for at most 43200 s (12 hours) from its receive, ' +
          'of which the visibility timeout (400 s) may have passed.',
      ],
    ],
    ['12 hours in hops', { policy: RetryPolicy.fromJson(fixed(43_200)) }, []],
    // 14 × 12 hours: each hop is a new message, but a hidden message stays the same message.
    ['a week of hops', { policy: RetryPolicy.fromJson(fixed(42_840, 14)) }, []],
    ['a week hidden', { ...hiding, policy: RetryPolicy.fromJson(fixed(42_839, 14)) }, [spans(14, '7.0')]],
    ['a week hidden, but with an age limit', { ...hiding, policy: RetryPolicy.fromJson({ ...fixed(42_839, 14), max_age_seconds: 480_000 }) }, []],
    ['short delays for longer than the retention', { policy: RetryPolicy.fromJson({ max_attempts: 1000 }) }, [spans(1000, '11.1')]],
    [
      'hidden for as long as the annotation queue keeps it',
      { ...hiding, sourceRetention: Duration.days(14) },
      ['sourceRetention is 1209600 s; use 60 s to 1209599 s, in whole seconds: less than the 14 days of the annotation queue, where a moved message keeps its age.'],
    ],
  ];
  for (const [name, props, sentences] of cases) {
    test(name, () => assert.deepEqual(collectProblems(props), sentences));
  }

  test('an error unrelated to the strategy is reported with any strategy', () => {
    const wrong: Partial<RedeliverProps>[] = [
      { prefix: '1st' },
      { policy: RetryPolicy.fromJson({ max_attempts: -1 }) },
      { policy: RetryPolicy.fromJson({ max_attempts: 900 }), sourceRetention: Duration.days(10) },
      { longDelays: true, policy: RetryPolicy.fromJson({ long_delays: false }) },
      { dataSchema: '/nowhere.json' },
      { target: Target.http('http://orders.example.com/') },
      { existingSourceQueue: SourceQueue.fromArn('orders') },
      { batchSize: 11 },
      { maxConcurrentCalls: 3 },
      { maxConcurrency: 1 },
      { timeout: Duration.seconds(901) },
      { sourceVisibilityTimeout: Duration.seconds(359) },
      { maxBatchingWindow: Duration.seconds(301) },
    ];
    for (const props of wrong) {
      const usual = collectProblems(props);
      assert.equal(usual.length, 1, JSON.stringify(props));
      assert.deepEqual(collectProblems({ ...props, ...hiding }), usual);
      assert.deepEqual(collectProblems({ ...props, ...direct }), usual);
    }
  });

  test('the warning states the cost of a refused invocation', () => {
    const [usual = ''] = collectProblems({ reservedConcurrency: 9 });
    assert.match(usual, /and each throttled message spends one of maxRedrives\.$/);
    assert.deepEqual(collectProblems({ reservedConcurrency: 9, ...hiding }), [usual.replace('one of maxRedrives', 'an attempt')]);
    assert.deepEqual(collectProblems({ reservedConcurrency: 9, ...direct }), [usual]);
  });
});
