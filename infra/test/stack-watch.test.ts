import { Match } from 'aws-cdk-lib/assertions';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sns from 'aws-cdk-lib/aws-sns';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { Target } from '../lib/index';
import { HTTP, type Resource, stackWith, templateWith } from './stack-support';

const DAY = 86_400;

describe('alarms', () => {
  const template = templateWith(() => HTTP);
  const alarms = Object.values(template.findResources('AWS::CloudWatch::Alarm')) as Resource[];

  /** Returns a short form of an alarm: metric, subject, statistic and threshold. */
  const describeAlarm = ({ Properties }: Resource): unknown[] => {
    if (Properties['Metrics'] !== undefined) {
      return [Properties['AlarmName'].replace('redeliver-prod-', ''), 'an expression', `${Properties['Metrics'].length - 1} metrics`, `> ${Properties['Threshold']}`];
    }
    const [dimension] = Properties['Dimensions'];
    const of = dimension.Value.Ref ?? dimension.Value['Fn::GetAtt'][0];
    return [
      Properties['AlarmName'].replace('redeliver-prod-', ''),
      `${Properties['Namespace']} ${Properties['MetricName']}`,
      `${dimension.Name}=${of.replace(/^Retries|[0-9A-F]{8}$/g, '')}`,
      `${Properties['Statistic']} > ${Properties['Threshold']}`,
    ];
  };

  test('each watches the metric of its problem', () => {
    const functions = [
      ['message-processor', 'MessageProcessor', 7],
      ['failed-message-processor', 'FailedMessageProcessor', 7],
      ['final-dlq-annotator', 'FinalDlqAnnotator', 14],
    ] as const;
    const queues = [
      ['source-queue', 'SourceQueue'],
      ['intermediate-dlq', 'IntermediateDlq'],
      ['annotation-queue', 'AnnotationQueue'],
    ] as const;
    const expected = [
      ['final-dlq-not-empty', 'AWS/SQS ApproximateNumberOfMessagesVisible', 'QueueName=FinalDlq', 'Maximum > 0'],
      ['final-dlq-arrivals', 'AWS/SQS NumberOfMessagesSent', 'QueueName=FinalDlq', 'Sum > 0'],
      ['final-dlq-about-to-expire', 'AWS/SQS ApproximateAgeOfOldestMessage', 'QueueName=FinalDlq', `Maximum > ${(14 * DAY * 8) / 10}`],
      ...queues.map(([name, id]) => [`${name}-waits-too-long`, 'AWS/SQS ApproximateAgeOfOldestMessage', `QueueName=${id}`, 'Maximum > 3600']),
      ['intermediate-dlq-backlog', 'AWS/SQS ApproximateNumberOfMessagesVisible', 'QueueName=IntermediateDlq', 'Minimum > 1000'],
      ['moved-by-redrive', 'Redeliver ArrivedByRedrive', 'Function=FailedMessageProcessor', 'Sum > 0'],
      ['intermediate-dlq-keeps-failing', 'Redeliver ReceiveCount', 'Function=FailedMessageProcessor', 'Maximum > 4'],
      ...functions.flatMap(([name, id, days]) => [
        [`${name}-sees-old-messages`, 'Redeliver MessageAgeSeconds', `Function=${id}`, `Maximum > ${(days * DAY * 8) / 10}`],
        [`${name}-errors`, 'AWS/Lambda Errors', `FunctionName=${id}`, 'Sum > 0'],
        [`${name}-throttles`, 'AWS/Lambda Throttles', `FunctionName=${id}`, 'Sum > 0'],
        [`${name}-not-confirmed`, 'Redeliver NotConfirmed', `Function=${id}`, 'Sum > 0'],
      ]),
      ['target-down', 'Redeliver CircuitOpen', 'Function=MessageProcessor', 'Maximum > 0'],
      ['held-too-long', 'Redeliver LongestHoldSeconds', 'Function=MessageProcessor', 'Maximum > 3600'],
      // stack-watch-exact.test.ts tests the expression.
      ['all-invalid', 'an expression', '5 metrics', '> 9'],
    ];
    assert.deepEqual(alarms.map(describeAlarm).sort(), expected.sort());
  });

  test('no alarm fires without traffic, and each description has a remedy', () => {
    for (const { Properties } of alarms) {
      const { TreatMissingData, ComparisonOperator, Period, Metrics = [], AlarmActions, AlarmDescription } = Properties;
      const periods = new Set([Period, ...Metrics.map(({ MetricStat }: any) => MetricStat?.Period)].filter((period) => period !== undefined));
      assert.deepEqual([TreatMissingData, ComparisonOperator, [...periods], AlarmActions], ['notBreaching', 'GreaterThanThreshold', [300], undefined]);
      assert.ok(AlarmDescription.length > 40, AlarmDescription);
    }
  });

  test('all alarms notify the given topic', () => {
    const sent = templateWith((stack) => ({ ...HTTP, ticketTopic: new sns.Topic(stack, 'Topic', { enforceSSL: true }) }));
    for (const { Properties } of Object.values(sent.findResources('AWS::CloudWatch::Alarm')) as Resource[]) {
      assert.match(Properties['AlarmActions'][0].Ref, /^Topic/);
      assert.match(Properties['OKActions'][0].Ref, /^Topic/);
    }
    sent.hasResourceProperties('AWS::SNS::TopicPolicy', {
      PolicyDocument: {
        Statement: Match.arrayWith([
          Match.objectLike({ Effect: 'Allow', Action: 'sns:Publish', Principal: { Service: 'cloudwatch.amazonaws.com' } }),
        ]),
      },
    });
  });

  test('a Lambda target gets a recursive-loop alarm', () => {
    const arn = 'arn:aws:lambda:eu-west-1:111122223333:function:orders';
    const template = templateWith((stack) => ({
      target: Target.lambdaFunction(lambda.Function.fromFunctionArn(stack, 'Target', arn)),
    }));
    template.hasResourceProperties('AWS::CloudWatch::Alarm', {
      AlarmName: 'redeliver-prod-target-loop-stopped',
      Dimensions: [{ Name: 'FunctionName', Value: 'orders' }],
    });
  });

  test("the receive threshold follows the source queue's maxReceiveCount", () => {
    const more = templateWith(() => ({ ...HTTP, maxReceiveCount: 3 }));
    more.hasResourceProperties('AWS::CloudWatch::Alarm', { AlarmName: 'redeliver-prod-intermediate-dlq-keeps-failing', Threshold: 6 });
  });
});

describe('the dashboard', () => {
  const { stack } = stackWith(() => HTTP);
  const [dashboard] = stack.node.findAll().filter((child) => child.node.id === 'Dashboard');
  const body = stack.resolve((dashboard?.node.defaultChild as any).dashboardBody);
  const text: string = body['Fn::Join'][1].map((part: unknown) => (typeof part === 'string' ? part : 'TOKEN')).join('');
  const { widgets } = JSON.parse(text) as { widgets: { x: number; y: number; width: number; height: number; properties: any }[] };

  test('shows arrivals, retries, dead letters and delays', () => {
    const titles = widgets.map(({ properties }) => properties.title);
    assert.deepEqual(titles, [
      'Alarms',
      'In the time shown',
      'Flow in: messages per 5 minutes',
      'Failures by kind',
      'Outages of the target',
      'Retries by attempt',
      'Delays before retries, in seconds',
      'Dead letters by error type',
      'Messages in the queues',
      'Oldest message since its first send, in seconds',
      'Oldest message in each queue, in seconds',
      'Successful calls to the target, in seconds',
      'Functions: errors, throttles, sends not confirmed',
    ]);
    assert.equal(widgets[0]?.properties.alarms.length, 24);
    for (const [dimension, metric] of [['RetryAttempt', 'RetriesScheduled'], ['ErrorType', 'DeadLettered'], ['FailureKind', 'HandedOff']]) {
      const search = `SEARCH('{Redeliver,Function,${dimension}} MetricName=\\"${metric}\\" Function=\\"TOKEN\\"', 'Sum', 300)`;
      assert.ok(text.includes(search), search);
    }
  });

  test('widgets do not overlap', () => {
    const cells = widgets.flatMap(({ x, y, width, height }) =>
      Array.from({ length: width * height }, (_, n) => `${x + (n % width)},${y + Math.floor(n / width)}`),
    );
    assert.equal(new Set(cells).size, cells.length);
    assert.ok(widgets.every(({ x, width }) => x + width <= 24));
  });
});

test('every watched metric is written by the functions', () => {
  const read = (path: string): string => readFileSync(join(__dirname, path), 'utf8');
  const writes = read('../../crates/aws/src/telemetry/metrics.rs');
  const [, names = ''] = read('../lib/metrics.ts').match(/export type RedeliverMetric =([^;]+);/) ?? [];
  const watched = [...names.matchAll(/'(\w+)'/g)].map(([, name]) => name);
  assert.equal(watched.length, 17);
  for (const name of watched) {
    assert.match(writes, new RegExp(`\\bM::${name}\\b`), `${name} is not written by the functions`);
  }
  for (const dimension of ['ErrorType', 'FailureKind', 'RetryAttempt']) {
    assert.ok(writes.includes(`name: "${dimension}"`), `${dimension} is not written by the functions`);
  }
  assert.ok(writes.includes('const NAMESPACE: &str = "Redeliver";'));
});
