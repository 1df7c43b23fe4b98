import { CfnParameter, Duration, type Stack } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sns from 'aws-cdk-lib/aws-sns';
import { SqsSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AlarmPreset, OnGiveUp, Producer, type RedeliverProps, RetryPolicy, SourceQueue, Strategy, Target } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { grants, makeReadable, resources } from './stack-exact';
import { fakeBundles, HTTP, stackWith, templateWith } from './stack-support';
import { userFunction } from './stack-variants';

const ORDERED = { ...HTTP, strategy: Strategy.ORDERED } as const;
const BUNDLES = fakeBundles();
const ARN = 'arn:aws:sqs:eu-west-1:111122223333:orders.fifo';
const hour = 3600;
const day = 24 * hour;

function createTemplate(props: Partial<RedeliverProps> = {}): Template {
  return templateWith(() => ({ ...ORDERED, bundles: BUNDLES, ...props }));
}

function variables(template: Template, id = 'MessageProcessor'): Record<string, unknown> {
  return makeReadable(resources(template, 'AWS::Lambda::Function')[id]?.Properties['Environment'].Variables);
}

/** Returns the properties of each alarm, by the end of its name. */
function alarms(template: Template): Record<string, Record<string, any>> {
  const found = Object.values(resources(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => Properties);
  return Object.fromEntries(found.map((alarm) => [alarm['AlarmName'].replace('redeliver-prod-', ''), alarm]));
}

function queues(template: Template): Record<string, any> {
  return Object.fromEntries(Object.entries(resources(template, 'AWS::SQS::Queue')).map(([id, { Properties }]) => [id, makeReadable(Properties)]));
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

/** Returns the problems with invalid props, one sentence each. */
function collectProblems(props: Partial<RedeliverProps>): string[] {
  try {
    createTemplate(props);
    return [];
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n');
  }
}

const policy = (document: Record<string, unknown>): Partial<RedeliverProps> => ({ policy: RetryPolicy.fromJson(document) });

describe('strategy ordered', () => {
  const template = createTemplate();

  test('the source queue and its DLQ are FIFO queues, the dead-letter queues are not', () => {
    const fifo = { FifoQueue: true, DeduplicationScope: 'messageGroup', FifoThroughputLimit: 'perMessageGroupId' };
    const common = { MaximumMessageSize: 1_048_576, MessageRetentionPeriod: 1_209_600, SqsManagedSseEnabled: true };
    const allowed = (name: string): object => ({
      redrivePermission: 'byQueue',
      sourceQueueArns: [`arn:{AWS::Partition}:sqs:{AWS::Region}:{AWS::AccountId}:redeliver-prod-${name}`],
    });
    assert.deepEqual(queues(template), {
      SourceQueue: {
        ...common,
        ...fifo,
        QueueName: 'redeliver-prod-source.fifo',
        VisibilityTimeout: 360,
        RedrivePolicy: { deadLetterTargetArn: '{SourceDlq.Arn}', maxReceiveCount: 1000 },
        RedriveAllowPolicy: { redrivePermission: 'denyAll' },
      },
      SourceDlq: { ...common, ...fifo, QueueName: 'redeliver-prod-source-dlq.fifo', VisibilityTimeout: 180, RedriveAllowPolicy: allowed('source.fifo') },
      AnnotationQueue: {
        ...common,
        QueueName: 'redeliver-prod-annotation',
        VisibilityTimeout: 180,
        RedrivePolicy: { deadLetterTargetArn: '{FinalDlq.Arn}', maxReceiveCount: 110 },
        RedriveAllowPolicy: { redrivePermission: 'denyAll' },
      },
      FinalDlq: { ...common, QueueName: 'redeliver-prod-final-dlq', VisibilityTimeout: 180, RedriveAllowPolicy: allowed('annotation') },
    });
  });

  test("the annotator also reads the source queue's DLQ, and no mapping of a FIFO queue has a batching window", () => {
    const mappings = Object.values(resources(template, 'AWS::Lambda::EventSourceMapping')).map(({ Properties }) => makeReadable(Properties));
    const mapping = (queue: string, reader: string, BatchSize: number, MaximumConcurrency: number): object => ({
      EventSourceArn: `{${queue}.Arn}`,
      FunctionName: `{${reader}}`,
      BatchSize,
      FunctionResponseTypes: ['ReportBatchItemFailures'],
      ScalingConfig: { MaximumConcurrency },
    });
    const byQueue = (one: any, other: any): number => (one.EventSourceArn < other.EventSourceArn ? -1 : 1);
    assert.deepEqual(mappings.sort(byQueue), [
      mapping('AnnotationQueue', 'FinalDlqAnnotator', 10, 10),
      mapping('SourceDlq', 'FinalDlqAnnotator', 10, 2),
      mapping('SourceQueue', 'MessageProcessor', 1, 10),
    ]);
  });

  test('has two functions, and nothing references an absent queue or function', () => {
    assert.deepEqual(Object.keys(resources(template, 'AWS::Lambda::Function')).sort(), ['FinalDlqAnnotator', 'MessageProcessor']);
    assert.equal(JSON.stringify(template.toJSON()).match(/intermediate|failed-message-processor|FailedMessageProcessor/i), null);
    const { redeliver } = stackWith(() => ({ ...ORDERED, bundles: BUNDLES }));
    assert.deepEqual([redeliver.intermediateDlq, redeliver.failedMessageProcessor], [undefined, undefined]);
    assert.ok(redeliver.sourceDlq?.fifo);
    assert.equal(stackWith(() => ({ ...HTTP, bundles: BUNDLES })).redeliver.sourceDlq, undefined);
  });

  test('the message-processor gets its batch size, which decides how attempts are counted', () => {
    const settings = {
      STRATEGY: 'ordered',
      SOURCE_QUEUE_URL: '{SourceQueue}',
      VISIBILITY_TIMEOUT_SECONDS: '360',
      RETENTION_SECONDS: '1209600',
      RETRY_POLICY: '{}',
      ANNOTATION_QUEUE_URL: '{AnnotationQueue}',
      BATCH_SIZE: '1',
      MAX_CONCURRENCY: '10',
      TARGET: 'https://orders.example.com/hook',
      TARGET_TIMEOUT_SECONDS: '30',
    };
    assert.deepEqual(variables(template), settings);
    const larger = createTemplate({ batchSize: 10, timeout: Duration.seconds(305), sourceRetention: Duration.days(4), longDelays: true });
    assert.deepEqual(variables(larger), {
      ...settings,
      BATCH_SIZE: '10',
      VISIBILITY_TIMEOUT_SECONDS: '1830',
      RETENTION_SECONDS: '345600',
      RETRY_POLICY: '{"long_delays":true}',
    });
    const mapped = Object.values(resources(larger, 'AWS::Lambda::EventSourceMapping')).map(({ Properties }) => [makeReadable(Properties['EventSourceArn']), Properties['BatchSize']]);
    assert.equal(Object.fromEntries(mapped)['{SourceQueue.Arn}'], 10);
  });

  test("a user's own function has the same settings", () => {
    const ours = templateWith((stack) => {
      const target = userFunction(stack, 'Orders', { timeout: Duration.seconds(60), architecture: lambda.Architecture.ARM_64 });
      return { target: Target.ownFunction(target), strategy: Strategy.ORDERED, bundles: BUNDLES };
    });
    const { STRATEGY, BATCH_SIZE, RETENTION_SECONDS } = variables(ours, 'Orders');
    assert.deepEqual([STRATEGY, BATCH_SIZE, RETENTION_SECONDS], ['ordered', '1', '1209600']);
  });

  test('roles and queue policies are exact', () => {
    const keyed = templateWith((stack) => ({ ...ORDERED, bundles: BUNDLES, encryptionKey: new kms.Key(stack, 'Key') }));
    const key = ['Allow kms:Decrypt on {Key.Arn}', 'Allow kms:GenerateDataKey on {Key.Arn}'];
    const processor = [...ownPermissions('MessageProcessor'), ...receivePermissions('{SourceQueue.Arn}'), 'Allow sqs:SendMessage on {AnnotationQueue.Arn}'];
    const annotator = [...ownPermissions('FinalDlqAnnotator'), ...receivePermissions('{AnnotationQueue.Arn}'), ...receivePermissions('{SourceDlq.Arn}'), 'Allow sqs:SendMessage on {FinalDlq.Arn}'];
    for (const [found, more] of [[template, []], [keyed, key]] as const) {
      assert.deepEqual(grants(found, 'MessageProcessorRole'), [...processor, ...more].sort());
      assert.deepEqual(grants(found, 'FinalDlqAnnotatorRole'), [...annotator, ...more].sort());
    }
    assert.deepEqual(Object.values(queues(keyed)).map(({ KmsMasterKeyId }) => KmsMasterKeyId), Array.from({ length: 4 }, () => '{Key.Arn}'));
    const policies = Object.values(resources(template, 'AWS::SQS::QueuePolicy')).map(({ Properties }) => makeReadable(Properties));
    const senders = policies.map(({ Queues, PolicyDocument }) => [
      Queues[0],
      PolicyDocument.Statement.filter(({ Sid }: any) => Sid === 'OnlyTheFunctionsSend').map(({ Condition }: any) => Condition?.ArnNotEquals['aws:PrincipalArn'] ?? 'none'),
    ]);
    assert.deepEqual(Object.fromEntries(senders), {
      '{SourceQueue}': [],
      '{SourceDlq}': ['none'],
      '{AnnotationQueue}': [['{MessageProcessorRole.Arn}']],
      '{FinalDlq}': [['{FinalDlqAnnotatorRole.Arn}']],
    });
  });

  test("alarms cover groups that wait behind their first message, and SQS's limit of 120,000 messages", () => {
    assert.deepEqual(Object.fromEntries(Object.entries(alarms(template)).map(([name, { Threshold }]) => [name, Threshold])), {
      'target-down': 0,
      'held-too-long': 3600,
      'final-dlq-not-empty': 0,
      'final-dlq-arrivals': 0,
      'all-invalid': 9,
      'final-dlq-about-to-expire': 967_680,
      'source-queue-waits-too-long': hour + day,
      'source-dlq-waits-too-long': hour,
      'annotation-queue-waits-too-long': hour,
      'source-queue-in-flight': 96_000,
      'source-queue-backlog': 96_000,
      'source-dlq-arrivals': 0,
      'message-processor-sees-old-messages': 967_680,
      'final-dlq-annotator-sees-old-messages': 967_680,
      ...Object.fromEntries(
        ['message-processor', 'final-dlq-annotator'].flatMap((name) => ['errors', 'throttles', 'not-confirmed'].map((what) => [`${name}-${what}`, 0])),
      ),
    });
    const metric = (name: string): string => {
      const { MetricName, Dimensions, Statistic } = alarms(template)[name] ?? assert.fail(name);
      return `${Statistic} ${MetricName} of ${makeReadable(Dimensions[0].Value)}`;
    };
    assert.deepEqual(['source-queue-in-flight', 'source-queue-backlog', 'source-dlq-arrivals', 'source-dlq-waits-too-long'].map(metric), [
      'Maximum ApproximateNumberOfMessagesNotVisible of {SourceQueue.QueueName}',
      'Maximum ApproximateNumberOfMessagesVisible of {SourceQueue.QueueName}',
      'Sum NumberOfMessagesReceived of {SourceDlq.QueueName}',
      'Maximum ApproximateAgeOfOldestMessage of {SourceDlq.QueueName}',
    ]);
    assert.match(alarms(template)['target-down']?.['AlarmDescription'], /A held message is not given up, and the rest of its group waits behind it/);
    assert.equal('target-down' in alarms(createTemplate(policy({ circuit_breaker: false }))), false);
  });

  test("the wait alarm fires an hour after the policy's longest retry time", () => {
    const waits = (document: Record<string, unknown>): number => alarms(createTemplate(policy(document)))['source-queue-waits-too-long']?.['Threshold'];
    assert.equal(waits({ max_attempts: 2, backoff: { kind: 'fixed', delay_seconds: 100, jitter: 'none' } }), hour + 2 * 100 + 3 * 60);
    assert.equal(waits({ preset: 'durable_transient' }), hour + 5 + 10 + 3 * 60, 'a preset takes the place of the default retries');
    assert.equal(waits({ max_attempts: 0 }), hour + 60);
    assert.equal(waits({ max_age_seconds: 2 * day }), hour + 2 * day);
    assert.match(alarms(template)['source-queue-waits-too-long']?.['AlarmDescription'], /\(86400 s\)\. This age includes its own retries and those of the messages before it/);
  });

  test('the essential alarms cover all messages that could wait unnoticed', () => {
    assert.deepEqual(Object.keys(alarms(createTemplate({ alarmPreset: AlarmPreset.ESSENTIAL }))).sort(), [
      'annotation-queue-waits-too-long', 'final-dlq-about-to-expire', 'final-dlq-annotator-errors', 'final-dlq-not-empty', 'held-too-long', 'message-processor-errors',
      'source-dlq-waits-too-long', 'source-queue-backlog', 'source-queue-in-flight', 'source-queue-waits-too-long', 'target-down',
    ]);
  });

  test("the dashboard shows hidden messages and the source queue's DLQ", () => {
    const body = makeReadable(resources(template, 'AWS::CloudWatch::Dashboard')['Dashboard']?.Properties['DashboardBody']);
    const titles = JSON.parse(body).widgets.map(({ properties }: any) => properties.title);
    assert.ok(titles.includes('Received and not deleted: hidden until their retry, or worked on (at most 120,000)'));
    assert.ok(titles.includes('Outages of the target') && !titles.includes('Failures by kind'));
    const ofDlq = [...body.matchAll(/"AWS\/SQS","(\w+)","QueueName","\{SourceDlq\.QueueName\}",\{"label":"source DLQ"/g)].map(([, metric]) => metric);
    assert.deepEqual(ofDlq, ['ApproximateNumberOfMessagesVisible', 'ApproximateAgeOfOldestMessage']);
  });

  test('the outputs include its DLQ', () => {
    const { stack, redeliver } = stackWith(() => ({ ...ORDERED, bundles: BUNDLES }));
    redeliver.addOutputs();
    const outputs = Object.entries(Template.fromStack(stack).findOutputs('*')).map(([name, { Value }]) => [name, makeReadable(Value)]);
    assert.deepEqual(Object.fromEntries(outputs), {
      SourceQueueUrl: '{SourceQueue}',
      SourceDlqUrl: '{SourceDlq}',
      AnnotationQueueUrl: '{AnnotationQueue}',
      FinalDlqUrl: '{FinalDlq}',
      MessageProcessorRoleArn: '{MessageProcessorRole.Arn}',
      FinalDlqAnnotatorRoleArn: '{FinalDlqAnnotatorRole.Arn}',
    });
  });

  test('producers outside the app can send', () => {
    const template = createTemplate({ producers: [Producer.principal('444455556666'), Producer.topic('arn:aws:sns:eu-west-1:111122223333:orders.fifo')] });
    const [found] = Object.values(resources(template, 'AWS::SQS::QueuePolicy')).filter(({ Properties }) => makeReadable(Properties['Queues'])[0] === '{SourceQueue}');
    const sends = found?.Properties['PolicyDocument'].Statement.filter(({ Action }: any) => Action === 'sqs:SendMessage');
    assert.equal(sends.length, 2);
  });
});

describe('blocked groups', () => {
  const props = { policy: RetryPolicy.of({ onGiveUp: OnGiveUp.BLOCK }) };
  const template = createTemplate(props);

  test("have a notice queue with the retention of SQS's longest visibility timeout", () => {
    const { BlockedQueue, ...others } = queues(template);
    assert.deepEqual(BlockedQueue, {
      QueueName: 'redeliver-prod-blocked',
      MaximumMessageSize: 1_048_576,
      MessageRetentionPeriod: 12 * hour,
      RedriveAllowPolicy: { redrivePermission: 'denyAll' },
      SqsManagedSseEnabled: true,
      VisibilityTimeout: others['AnnotationQueue'].VisibilityTimeout,
    });
    assert.equal('BlockedQueue' in queues(createTemplate()), false);
    const { stack, redeliver } = stackWith(() => ({ ...ORDERED, ...props, bundles: BUNDLES }));
    redeliver.addOutputs();
    assert.equal(makeReadable(Template.fromStack(stack).findOutputs('BlockedQueueUrl')['BlockedQueueUrl']?.['Value']), '{BlockedQueue}');
  });

  test("can be announced only by the message-processor, which has the queue's URL", () => {
    const { BLOCKED_QUEUE_URL, RETRY_POLICY } = variables(template);
    assert.deepEqual([BLOCKED_QUEUE_URL, RETRY_POLICY], ['{BlockedQueue}', '{"on_give_up":"block"}']);
    assert.ok(grants(template, 'MessageProcessorRole').includes('Allow sqs:SendMessage on {BlockedQueue.Arn}'));
    const policies = Object.values(resources(template, 'AWS::SQS::QueuePolicy')).map(({ Properties }) => makeReadable(Properties));
    const ofNotices = policies.find(({ Queues }) => Queues[0] === '{BlockedQueue}')?.PolicyDocument.Statement;
    const denied = ofNotices.find(({ Sid }: any) => Sid === 'OnlyTheFunctionsSend');
    assert.deepEqual(denied.Condition.ArnNotEquals['aws:PrincipalArn'], ['{MessageProcessorRole.Arn}']);
  });

  test('have an essential alarm', () => {
    const alarm = alarms(createTemplate({ ...props, alarmPreset: AlarmPreset.ESSENTIAL }))['blocked-groups'];
    const { MetricName, Threshold, Dimensions } = alarm ?? assert.fail();
    assert.deepEqual([MetricName, Threshold, makeReadable(Dimensions[0].Value)], ['ApproximateNumberOfMessagesVisible', 0, '{BlockedQueue.QueueName}']);
    assert.match(alarm?.['AlarmDescription'], /`redeliver unblock` lists them/);
  });

  test('are refused with other strategies', () => {
    const problem = 'policy.onGiveUp is block, which only the strategy ordered supports; remove it.';
    for (const strategy of [Strategy.DELAYED_RESEND, Strategy.DIRECT_RESEND, Strategy.VISIBILITY]) {
      assert.ok(collectProblems({ ...props, strategy }).some((line) => line.includes(problem)), strategy);
    }
    assert.deepEqual(collectProblems({ strategy: Strategy.VISIBILITY, policy: RetryPolicy.of({ onGiveUp: OnGiveUp.CONTINUE }) }), []);
    const inTens = collectProblems({ ...props, batchSize: 10 });
    assert.ok(inTens.some((line) => line.includes('policy.onGiveUp is block, but batchSize is 10; leave batchSize out')), inTens.join());
  });
});

describe('an existing FIFO queue', () => {
  test('of another stack moves its messages to the new DLQ', () => {
    const template = createTemplate({ existingSourceQueue: SourceQueue.fromArn(ARN) });
    assert.deepEqual(Object.keys(queues(template)).sort(), ['AnnotationQueue', 'FinalDlq', 'SourceDlq']);
    assert.deepEqual(queues(template)['SourceDlq'].RedriveAllowPolicy, { redrivePermission: 'byQueue', sourceQueueArns: [ARN] });
    const set = Object.values(resources(template, 'Custom::RedeliverSourceQueue')).map(({ Properties }) => makeReadable(Properties));
    assert.deepEqual(
      set.map(({ RedrivePolicy, MessageRetentionPeriod }) => [RedrivePolicy, MessageRetentionPeriod]),
      Array.from({ length: 2 }, () => ['{"deadLetterTargetArn":"{SourceDlq.Arn}","maxReceiveCount":1000}', '1209600']),
    );
    assert.equal(variables(template)['SOURCE_QUEUE_URL'], 'https://sqs.eu-west-1.{AWS::URLSuffix}/111122223333/orders.fifo');
  });

  test("of the same stack keeps its own values, and its retention may equal its DLQ's", () => {
    const template = templateWith((stack) => {
      const orders = new sqs.Queue(stack, 'Orders', { fifo: true, queueName: 'orders.fifo', contentBasedDeduplication: true, retentionPeriod: Duration.days(14) });
      return { ...ORDERED, bundles: BUNDLES, existingSourceQueue: SourceQueue.fromQueue(orders) };
    });
    assert.deepEqual(queues(template)['Orders'], {
      FifoQueue: true,
      QueueName: 'orders.fifo',
      ContentBasedDeduplication: true,
      RedrivePolicy: { deadLetterTargetArn: '{SourceDlq.Arn}', maxReceiveCount: 1000 },
      VisibilityTimeout: 360,
      MessageRetentionPeriod: 1_209_600,
      MaximumMessageSize: 1_048_576,
    });
  });

  test('of the app without high throughput causes a warning, since SQS then accepts 300 requests per second', () => {
    const warnings = (queue: sqs.QueueProps): string[] => {
      const { stack } = stackWith((its) => ({ ...ORDERED, bundles: BUNDLES, existingSourceQueue: SourceQueue.fromQueue(new sqs.Queue(its, 'Orders', { fifo: true, ...queue })) }));
      return Annotations.fromStack(stack).findWarning('*', Match.stringLikeRegexp('high throughput')).map(({ entry }) => String(entry.data));
    };
    const sentence =
      'existingSourceQueue (Test/Orders) is a FIFO queue without high throughput, so SQS accepts 300 requests a second for each action, those of the retries included: set ' +
      'deduplicationScope to MESSAGE_GROUP and fifoThroughputLimit to PER_MESSAGE_GROUP_ID, or acknowledge this. [ack: @redeliver/cdk:noHighThroughput]';
    const deduplicationScope = sqs.DeduplicationScope.MESSAGE_GROUP;
    assert.deepEqual(warnings({}), [sentence]);
    assert.deepEqual(warnings({ deduplicationScope }), [sentence]);
    assert.deepEqual(warnings({ deduplicationScope, fifoThroughputLimit: sqs.FifoThroughputLimit.PER_MESSAGE_GROUP_ID }), []);
  });

  test('is refused if it is a standard queue', () => {
    const sentence = 'a standard queue, which keeps no order; use a FIFO queue with strategy ordered, or another strategy.';
    assert.deepEqual(collectProblems({ existingSourceQueue: SourceQueue.fromArn(ARN.replace('.fifo', '')) }), [`existingSourceQueue.queueArn names ${sentence}`]);
    assert.throws(
      () => templateWith((stack) => ({ ...ORDERED, bundles: BUNDLES, existingSourceQueue: SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders')) })),
      { message: `existingSourceQueue (Test/Orders) is ${sentence}` },
    );
  });

  test("is refused if it is redeliver's own source DLQ", () => {
    assert.deepEqual(collectProblems({ existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:redeliver-prod-source-dlq.fifo') }), [
      "existingSourceQueue.queueArn is named redeliver-prod-source-dlq.fifo, which is the name of one of redeliver's own queues; change it, or change prefix or stage.",
    ]);
  });
});

describe('an invalid combination is reported in one sentence', () => {
  const fixed = (delay_seconds: number): Partial<RedeliverProps> => policy({ long_delays: true, max_attempts: 1, backoff: { kind: 'fixed', delay_seconds } });
  const cases: [string, Partial<RedeliverProps>, string[]][] = [
    [
      'maxReceiveCount',
      { maxReceiveCount: 3 },
      ['maxReceiveCount only applies to the strategies delayed-resend and direct-resend; remove it: with ordered each retry is a receive, and SQS moves a message after 1000 of them.'],
    ],
    ['a batching window', { maxBatchingWindow: Duration.seconds(0) }, ['maxBatchingWindow cannot be used with strategy ordered; remove it: Lambda has no batching window for FIFO queues.']],
    [
      'more receives than SQS counts',
      policy({ max_attempts: 981 }),
      ['policy/max_attempts is 981; use at most 980 with strategy ordered: each retry is a receive, 20 are to spare, and SQS counts to 1000.'],
    ],
    ['the maximum number of receives', policy({ max_attempts: 980 }), []],
    ['redrives', policy({ max_redrives: 20 }), ['policy/max_redrives only applies to the strategies delayed-resend and direct-resend: remove it.']],
    ['the longest delay that SQS can hide', fixed(42_840), []],
    [
      'a second more, which would come too early',
      fixed(42_841),
      [
        'policy has a delay of 42841 s; use at most 42840 s with strategy ordered: SQS hides a message for at most 43200 s (12 hours) from its receive, ' +
          'of which the visibility timeout (360 s) may have passed.',
      ],
    ],
    [
      'a batch of one group that the function has no time for',
      { batchSize: 10, timeout: Duration.seconds(304) },
      [
        'timeout is 304 s, but a batch of 10 that is one message group, called one after the other, may take 10 × 30 s + 5 s = 305 s; raise timeout, or lower ' +
          'batchSize or target.timeout.',
      ],
    ],
    ['a batch above the limit of a FIFO queue', { batchSize: 11 }, ['batchSize is 11; use a whole number from 1 to 10 (also with a batching window: the functions are built for ten).']],
    ['the longest retention', { sourceRetention: Duration.days(14) }, []],
    ['a retention above the limit', { sourceRetention: Duration.days(15) }, ['sourceRetention is 1296000 s; use 60 s to 1209600 s, in whole seconds, the range of SQS.']],
    [
      'retries that outlast the retention',
      { ...policy({ max_age_seconds: 4 * day }), sourceRetention: Duration.days(4) },
      [
        'policy allows 980 retries over 4.0 days at worst, more than 80 % of the time that the source queue keeps a message (4.0 days); lower max_attempts or the ' +
          'delays, set max_age_seconds, or raise sourceRetention.',
      ],
    ],
    [
      'producers that cannot send to it',
      { producers: [Producer.principal('444455556666'), Producer.bucket('arn:aws:s3:::orders', '111122223333'), Producer.rule('arn:aws:events:eu-west-1:111122223333:rule/orders'), Producer.topic('arn:aws:sns:eu-west-1:111122223333:orders')] },
      [
        'producers[1] (Producer.bucket) cannot be used with strategy ordered: S3 sends no event notifications to FIFO queues; remove it, or use another strategy.',
        'producers[2] (Producer.rule) cannot be used with strategy ordered: a rule sends only to FIFO queues with content-based deduplication; remove it, or use another strategy.',
        'producers[3] (Producer.topic) cannot be used with strategy ordered: a standard topic cannot deliver to a FIFO queue, only a FIFO topic can; remove it, or use another strategy.',
      ],
    ],
    [
      'reserved concurrency for one of two mappings',
      { innerReservedConcurrency: 11 },
      ['innerReservedConcurrency is 11; use at least innerConcurrency + 2 = 12 with strategy ordered, where the final-dlq-annotator also reads the DLQ of the source queue.'],
    ],
    ['reserved concurrency for neither mapping', { innerReservedConcurrency: 9 }, ['innerReservedConcurrency is 9; use a whole number of at least innerConcurrency = 10.']],
    ['reserved concurrency for both mappings', { innerReservedConcurrency: 12 }, []],
    [
      'less concurrency than invocations',
      { reservedConcurrency: 9 },
      ['reservedConcurrency is 9; use a whole number of at least maxConcurrency = 10: Lambda would throttle the other invocations, and each throttled message spends an attempt.'],
    ],
  ];
  for (const [name, props, sentences] of cases) {
    test(name, () => assert.deepEqual(collectProblems(props), sentences));
  }
});

describe('a subscription of the app to the ordered queue', () => {
  /** Returns the problems with a topic to which the queue is subscribed after `Redeliver` is created. */
  function problems(topicOf: (stack: Stack) => sns.ITopic, props: (stack: Stack) => Partial<RedeliverProps> = () => ({})): string[] {
    const { stack, redeliver } = stackWith((stack) => ({ ...ORDERED, ...props(stack) }));
    topicOf(stack).addSubscription(new SqsSubscription(redeliver.sourceQueue));
    return stack.node.findAll().flatMap(({ node }) => node.validate()).map((problem) => problem.replace(/[0-9A-F]{8}/, ''));
  }
  const sentence = (path: string, topic: string): string =>
    `${path} subscribes the source queue to the standard topic ${topic}, but a standard topic cannot deliver to a FIFO queue; make it a FIFO topic, or use another strategy.`;
  const existing = (stack: Stack): Partial<RedeliverProps> => ({
    existingSourceQueue: SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders', { fifo: true })),
  });

  test('is refused for a standard topic', () => {
    const topic = (stack: Stack): sns.ITopic => new sns.Topic(stack, 'Topic');
    assert.deepEqual(problems(topic), [sentence('Test/Retries/SourceQueue/TestTopic', 'Test/Topic')]);
    assert.deepEqual(problems(topic, existing), [sentence('Test/Orders/TestTopic', 'Test/Topic')]);
    const arn = 'arn:aws:sns:eu-west-1:111122223333:orders';
    const [found] = problems((stack) => sns.Topic.fromTopicArn(stack, 'Topic', arn));
    assert.match(found ?? '', /^Test\/Retries\/SourceQueue\/\S+ subscribes the source queue to the standard topic arn:aws:sns:eu-west-1:111122223333:orders, /);
  });

  test('is accepted for a FIFO topic, an unknown topic, or another queue', () => {
    assert.deepEqual(problems((stack) => new sns.Topic(stack, 'Topic', { fifo: true })), []);
    assert.deepEqual(problems((stack) => sns.Topic.fromTopicArn(stack, 'Topic', 'arn:aws:sns:eu-west-1:111122223333:orders.fifo')), []);
    assert.deepEqual(problems((stack) => sns.Topic.fromTopicArn(stack, 'Topic', new CfnParameter(stack, 'Arn').valueAsString)), []);
    const { stack } = stackWith(() => ORDERED);
    new sns.Topic(stack, 'Topic').addSubscription(new SqsSubscription(new sqs.Queue(stack, 'Other')));
    assert.deepEqual(stack.node.findAll().flatMap(({ node }) => node.validate()), []);
  });
});
