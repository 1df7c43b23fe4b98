import { Duration, type Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { type RedeliverProps, SourceQueue, Strategy, Target } from '../lib/index';
import { ALLOWED_LOOP, grants, makeReadable, resources } from './stack-exact';
import { fakeBundles, HTTP, stackWith, templateWith } from './stack-support';

const ORDERS = 'arn:aws:sqs:eu-west-1:111122223333:orders';
const QUEUE_KEY = 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-00000000000a';

type MakeProps = (stack: Stack) => Partial<RedeliverProps>;

/** Creates the same stack with delayed and with direct re-sends. */
function createBothTemplates(props: MakeProps = () => ({})): { readonly delayed: Template; readonly direct: Template } {
  const of = (strategy: Strategy): Template => templateWith((stack) => ({ ...HTTP, strategy, ...props(stack) }));
  return { delayed: of(Strategy.DELAYED_RESEND), direct: of(Strategy.DIRECT_RESEND) };
}

function variables(template: Template, id: string): Record<string, string> {
  return makeReadable(resources(template, 'AWS::Lambda::Function')[id]?.Properties['Environment'].Variables);
}

/** Returns the name, metric, statistic and threshold of each alarm. */
function alarms(template: Template): string[] {
  return Object.values(resources(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => {
    const { AlarmName, MetricName, Dimensions, Metrics, Statistic, Threshold, EvaluationPeriods } = makeReadable(Properties);
    const watched = Metrics === undefined ? `${MetricName} of ${Dimensions[0].Value}, ${Statistic}` : Metrics.map(formatMetric).sort().join('; ');
    return `${AlarmName.replace('redeliver-prod-', '')}: ${watched} > ${Threshold} for ${EvaluationPeriods}`;
  });
}

function formatMetric({ Id, Expression, MetricStat: stat, ReturnData }: any): string {
  return Expression ? `${ReturnData === false ? `${Id} = ` : ''}${Expression}` : `${Id} = ${stat.Metric.MetricName} of ${stat.Metric.Dimensions[0].Value}, ${stat.Stat}`;
}

function dashboardBody(template: Template): string {
  return makeReadable(resources(template, 'AWS::CloudWatch::Dashboard')['Dashboard']?.Properties['DashboardBody']);
}

/** Returns the lines of a graph, with their labels, if any. */
function graph(template: Template, title: string): string[] {
  const { widgets } = JSON.parse(dashboardBody(template));
  const found = widgets.filter(({ properties }: any) => properties.title === title);
  assert.equal(found.length, 1, title);
  return found[0].properties.metrics.map(([namespace, metric, ...rest]: any[]) => {
    if (typeof namespace === 'object') {
      return `${namespace.label ?? ''} = ${namespace.expression}`;
    }
    const options = typeof rest.at(-1) === 'object' ? rest.at(-1) : {};
    return `${options.visible === false ? options.id : (options.label ?? '')} = ${metric} of ${rest[1]}, ${options.stat ?? 'Average'}`;
  });
}

describe('strategy direct-resend', () => {
  const { delayed, direct } = createBothTemplates();

  test('differs from delayed-resend only in a setting and the description of the message-processor, and in the dashboard', () => {
    const [some, others] = [direct.toJSON().Resources, delayed.toJSON().Resources];
    assert.deepEqual(Object.keys(some), Object.keys(others));
    const changed = Object.keys(some).filter((id) => JSON.stringify(some[id]) !== JSON.stringify(others[id]));
    assert.deepEqual(changed.map((id) => id.replace(/^Retries|[0-9A-F]{8}$/g, '')).sort(), ['Dashboard', 'MessageProcessor']);
    const { redeliver } = stackWith(() => ({ ...HTTP, strategy: Strategy.DIRECT_RESEND }));
    assert.deepEqual([redeliver.intermediateDlq?.node.id, redeliver.failedMessageProcessor?.node.id], ['IntermediateDlq', 'FailedMessageProcessor']);
  });

  test("the message-processor has the strategy's settings, also as a custom handler", () => {
    const settings = {
      STRATEGY: 'direct-resend',
      SOURCE_QUEUE_URL: '{SourceQueue}',
      INTERMEDIATE_DLQ_URL: '{IntermediateDlq}',
      ANNOTATION_QUEUE_URL: '{AnnotationQueue}',
      RETRY_POLICY: '{}',
      MAX_CONCURRENCY: '10',
      RESEND_SENDER_IDS: '{MessageProcessorRole.RoleId},{FailedMessageProcessorRole.RoleId}',
    };
    assert.deepEqual(variables(direct, 'MessageProcessor'), { ...settings, TARGET: 'https://orders.example.com/hook', TARGET_TIMEOUT_SECONDS: '30' });
    const handler = createBothTemplates(() => ({ target: Target.handler(join(fakeBundles(), 'message-processor')) }));
    assert.deepEqual(variables(handler.direct, 'MessageProcessor'), settings);
    assert.deepEqual(variables(handler.delayed, 'MessageProcessor'), { ...settings, STRATEGY: 'delayed-resend' });
  });

  test('every function of the loop allows recursive loops', () => {
    const loops = Object.entries(resources(direct, 'AWS::Lambda::Function')).map(([id, { Properties }]) => [id, makeReadable(Properties['RecursiveLoop'])]);
    assert.deepEqual(loops.sort(), ['FailedMessageProcessor', 'FinalDlqAnnotator', 'MessageProcessor'].map((id) => [id, ALLOWED_LOOP]));
  });

  test('an existing queue also moves its messages to the intermediate DLQ', () => {
    const existing = createBothTemplates(() => ({ existingSourceQueue: SourceQueue.fromArn(ORDERS) }));
    const set = (template: Template): unknown =>
      Object.values(resources(template, 'Custom::RedeliverSourceQueue')).map(({ Properties }) => makeReadable({ ...Properties, ServiceToken: '' }));
    assert.deepEqual(set(existing.direct), set(existing.delayed));
    assert.equal(variables(existing.direct, 'MessageProcessor')['SOURCE_QUEUE_URL'], 'https://sqs.eu-west-1.{AWS::URLSuffix}/111122223333/orders');
  });
});

describe('the permission to send to the source queue', () => {
  const cases: { readonly name: string; readonly props: MakeProps; readonly source: string; readonly key?: string[] }[] = [
    { name: 'a new one', props: () => ({}), source: '{SourceQueue.Arn}' },
    { name: 'a new one with long delays', props: () => ({ longDelays: true }), source: '{SourceQueue.Arn}' },
    // All queues share the key, so the function needs it for the other queues anyway.
    { name: 'new queue with a key', props: (stack) => ({ encryptionKey: new kms.Key(stack, 'Key') }), source: '{SourceQueue.Arn}' },
    { name: 'imported queue', props: () => ({ existingSourceQueue: SourceQueue.fromArn(ORDERS) }), source: ORDERS },
    {
      name: 'imported queue with its own key',
      props: (stack) => ({
        encryptionKey: new kms.Key(stack, 'Key'),
        existingSourceQueue: SourceQueue.fromArn(ORDERS, { encryptionKey: kms.Key.fromKeyArn(stack, 'QueueKey', QUEUE_KEY) }),
      }),
      source: ORDERS,
      key: [`Allow kms:GenerateDataKey on ${QUEUE_KEY}`],
    },
    {
      name: 'queue of the stack, with its own key',
      props: (stack) => ({
        encryptionKey: new kms.Key(stack, 'Key'),
        existingSourceQueue: SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders', { encryptionMasterKey: kms.Key.fromKeyArn(stack, 'QueueKey', QUEUE_KEY) })),
      }),
      source: '{Orders.Arn}',
      key: [`Allow kms:GenerateDataKey on ${QUEUE_KEY}`],
    },
    {
      name: "new queue, with a user's own handler",
      props: () => ({ target: Target.handler(join(fakeBundles(), 'message-processor')) }),
      source: '{SourceQueue.Arn}',
    },
  ];
  for (const { name, props, source, key = [] } of cases) {
    test(`${name}: only the two re-sending functions have it, with either strategy`, () => {
      const { delayed, direct } = createBothTemplates(props);
      for (const template of [delayed, direct]) {
        for (const role of ['MessageProcessorRole', 'FailedMessageProcessorRole']) {
          const missing = [...key, `Allow sqs:SendMessage on ${source}`].filter((right) => !grants(template, role).includes(right));
          assert.deepEqual(missing, [], role);
        }
        assert.ok(!grants(template, 'FinalDlqAnnotatorRole').includes(`Allow sqs:SendMessage on ${source}`));
      }
      for (const type of ['AWS::IAM::Policy', 'AWS::IAM::Role', 'AWS::SQS::QueuePolicy', 'AWS::KMS::Key']) {
        assert.deepEqual(resources(direct, type), resources(delayed, type), `${type}: a change of the strategy withdraws no right`);
      }
    });
  }
});

describe('monitoring', () => {
  test('the alarms equal those of delayed-resend', () => {
    const { delayed, direct } = createBothTemplates();
    assert.deepEqual(alarms(direct), alarms(delayed));
  });

  test('age alarms allow the age of delayed-resend plus the batching windows', () => {
    const age = (maxBatchingWindow: Duration): unknown =>
      alarms(templateWith(() => ({ ...HTTP, strategy: Strategy.DIRECT_RESEND, sourceRetention: Duration.days(1), maxBatchingWindow })))
        .find((line) => line.startsWith('message-processor-sees-old-messages'))?.match(/\d+(?= for)/)?.[0];
    // Six calls and 189 holds can each wait for a batch, and 20 unanswered messages each wait for the visibility
    // timeout, which includes that window.
    assert.equal(Number(age(Duration.seconds(20))) - Number(age(Duration.seconds(0))), (6 + 189 + 20) * 20);
  });

  test('retries are summed over both functions', () => {
    const { direct } = createBothTemplates();
    const [first, second] = ['{MessageProcessor}', '{FailedMessageProcessor}'];
    const parts = [`retriesScheduled0 = RetriesScheduled of ${first}, Sum`, `retriesScheduled1 = RetriesScheduled of ${second}, Sum`];
    const sum = 'FILL(retriesScheduled0, 0) + FILL(retriesScheduled1, 0)';
    assert.deepEqual(graph(direct, 'Flow in: messages per 5 minutes'), [
      'from producers = FILL(sent, 0) - FILL(retries, 0) - FILL(held, 0)',
      'sent = NumberOfMessagesSent of {SourceQueue.QueueName}, Sum',
      `retries = ${sum}`,
      ...parts,
      `held = Held of ${first}, Sum`,
      `processed = Processed of ${first}, Sum`,
    ]);
    assert.ok(graph(direct, 'In the time shown').includes(`retries = ${sum}`));
    assert.deepEqual(
      graph(direct, 'Retries by attempt').map((line) => line.match(/Function="(.*?)"/)?.[1]),
      [first, second],
    );
    assert.deepEqual(graph(direct, 'Retries by function, and what SQS moved'), [
      `by the message-processor = RetriesScheduled of ${first}, Sum`,
      `by the failed-message-processor = RetriesScheduled of ${second}, Sum`,
      `moved by SQS (crash, timeout, throttle) = ArrivedByRedrive of ${second}, Sum`,
    ]);
    assert.deepEqual(graph(direct, 'Delays before retries, in seconds'), [
      ...['MessageProcessor', 'FailedMessageProcessor'].flatMap((id) => [
        `average: ${id} = RetryDelaySeconds of {${id}}, Average`,
        `90 % are below: ${id} = RetryDelaySeconds of {${id}}, p90`,
        `longest: ${id} = RetryDelaySeconds of {${id}}, Maximum`,
      ]),
    ]);
    assert.equal(dashboardBody(direct).includes('HandedOff'), false);
    const right = graph(createBothTemplates(() => ({ longDelays: true })).direct, 'Delays before retries, in seconds').filter((line) => / = FILL/.test(line));
    assert.deepEqual(right, ['hops (right) = FILL(hops0, 0) + FILL(hops1, 0)']);
  });
});
