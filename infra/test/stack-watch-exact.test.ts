import type { Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as sns from 'aws-cdk-lib/aws-sns';
import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { Notify, SourceQueue, Strategy, Target } from '../lib/index';
import { makeReadable, resources } from './stack-exact';
import { HTTP, templateWith } from './stack-support';

const EXISTING = 'arn:aws:sqs:eu-west-1:111122223333:orders';
const TARGET = 'arn:aws:lambda:eu-west-1:111122223333:function:billing';

const template = templateWith(() => HTTP);
const everything = templateWith((stack) => ({
  target: Target.lambdaFunction(lambda.Function.fromFunctionArn(stack, 'Target', TARGET)),
  existingSourceQueue: SourceQueue.fromArn(EXISTING),
  encryptionKey: new kms.Key(stack, 'Key'),
  ticketTopic: sns.Topic.fromTopicArn(stack, 'Topic', 'arn:aws:sns:eu-west-1:111122223333:alarms'),
}));

/** Returns a short form of a graph's line: `[ID = ]NAMESPACE NAME of WHAT: STATISTIC[, hidden]`, or its expression. */
function line([namespace, name, ...rest]: any[]): string {
  if (typeof namespace === 'object') {
    return namespace.expression;
  }
  const options = typeof rest.at(-1) === 'object' ? rest.pop() : {};
  const what = `${namespace} ${name} of ${rest.filter((_, index) => index % 2 === 1).join(' ')}: ${options.stat ?? 'Average'}`;
  return `${options.id === undefined ? '' : `${options.id} = `}${what}${options.visible === false ? ', hidden' : ''}`;
}

type Widgets = readonly { readonly properties: any }[];

function widgetsOf(of: Template): Widgets {
  const { Dashboard } = resources(of, 'AWS::CloudWatch::Dashboard');
  return JSON.parse(makeReadable(Dashboard?.Properties['DashboardBody'])).widgets;
}

const widgets = widgetsOf(template);

function graph(title: string): string[] {
  const found = widgets.filter(({ properties }) => properties.title === title);
  assert.equal(found.length, 1, title);
  return found[0]?.properties.metrics.map(line);
}

describe('alarms', () => {
  const alarms = Object.values(resources(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => Properties);
  const all = Object.values(resources(everything, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => Properties);

  test('only the backlog alarm needs several periods, and only target-down and held-too-long clear later', () => {
    const periods = alarms.map((alarm) => [alarm['AlarmName'], alarm['EvaluationPeriods'], alarm['DatapointsToAlarm']]);
    const lasting = periods.filter(([, evaluated]) => evaluated !== 1);
    assert.deepEqual(lasting, [
      ['redeliver-prod-intermediate-dlq-backlog', 3, undefined],
      ['redeliver-prod-held-too-long', 3, 1],
      ['redeliver-prod-target-down', 3, 1],
    ]);
  });

  test('each notifies the topic once when it fires and once when it clears', () => {
    const topic = ['arn:aws:sns:eu-west-1:111122223333:alarms'];
    for (const { AlarmName, AlarmActions, OKActions, InsufficientDataActions } of all) {
      assert.deepEqual([AlarmActions, OKActions, InsufficientDataActions], [topic, topic, undefined], AlarmName);
    }
    for (const { AlarmName, AlarmActions, OKActions, InsufficientDataActions } of alarms) {
      assert.deepEqual([AlarmActions, OKActions, InsufficientDataActions], [undefined, undefined, undefined], AlarmName);
    }
  });

  test('all-invalid fires after one period with ten invalid messages and no other', () => {
    const alarm = alarms.find(({ AlarmName }) => AlarmName === 'redeliver-prod-all-invalid');
    const [expression, ...metrics] = alarm?.['Metrics'] as any[];
    const invalid = 'FILL(notFormat, 0) + FILL(notSchema, 0)';
    assert.equal(expression.Expression, `IF((FILL(called, 0) + FILL(held, 0) + FILL(died, 0)) > (${invalid}), 0, ${invalid})`);
    const described = metrics.map(({ Id, ReturnData, MetricStat: { Metric, Period, Stat } }) => [
      Id, ReturnData, Period, `${Stat} ${Metric.MetricName} of ${Metric.Dimensions.map(({ Value }: any) => makeReadable(Value)).join(' ')}`,
    ]);
    assert.deepEqual(described, [
      ['called', false, 300, 'SampleCount MessageAgeSeconds of {MessageProcessor}'],
      ['held', false, 300, 'Sum Held of {MessageProcessor}'],
      ['died', false, 300, 'Sum DeadLettered of {FinalDlqAnnotator}'],
      ['notFormat', false, 300, 'Sum DeadLettered of INVALID_MESSAGE_FORMAT {FinalDlqAnnotator}'],
      ['notSchema', false, 300, 'Sum DeadLettered of INVALID_MESSAGE_SCHEMA {FinalDlqAnnotator}'],
    ]);
    const value = (counts: object): number => {
      const { called, held, died, notFormat, notSchema } = { called: 0, held: 0, died: 0, notFormat: 0, notSchema: 0, ...counts };
      const names = { IF: (holds: boolean, one: number, other: number) => (holds ? one : other), FILL: (count: number) => count, called, held, died, notFormat, notSchema };
      return new Function(...Object.keys(names), `return ${expression.Expression};`)(...Object.values(names));
    };
    assert.deepEqual([value({}), value({ notFormat: 4, notSchema: 6, died: 10 })], [0, 10]);
    for (const other of [{ called: 1 }, { held: 1 }, { died: 11 }]) {
      assert.equal(value({ notFormat: 10, died: 10, ...other }), 0, 'a message that is not invalid');
    }
    assert.deepEqual([alarm?.['Threshold'], alarm?.['ComparisonOperator'], alarm?.['TreatMissingData']], [9, 'GreaterThanThreshold', 'notBreaching']);
  });

  test('an existing queue and a Lambda target get the same alarms', () => {
    const names = (of: typeof all): string[] => of.map((alarm) => alarm['AlarmName']).sort();
    assert.deepEqual(names(all), [...names(alarms), 'redeliver-prod-target-loop-stopped'].sort());
    const source = all.find((alarm) => alarm['AlarmName'] === 'redeliver-prod-source-queue-waits-too-long');
    assert.deepEqual(source?.['Dimensions'], [{ Name: 'QueueName', Value: 'orders' }]);
  });
});

describe('the dashboard', () => {
  test("flow in: producers' messages are arrivals without retries", () => {
    assert.deepEqual(graph('Flow in: messages per 5 minutes'), [
      'FILL(sent, 0) - FILL(retries, 0) - FILL(held, 0)',
      'sent = AWS/SQS NumberOfMessagesSent of {SourceQueue.QueueName}: Sum, hidden',
      'retries = Redeliver RetriesScheduled of {FailedMessageProcessor}: Sum',
      'held = Redeliver Held of {MessageProcessor}: Sum, hidden',
      'Redeliver Processed of {MessageProcessor}: Sum',
    ]);
  });

  test('retries by attempt, failures by kind and dead letters by error type come from the functions that count them', () => {
    const by = (dimension: string, metric: string, id: string): string =>
      `SEARCH('{Redeliver,Function,${dimension}} MetricName="${metric}" Function="{${id}}"', 'Sum', 300)`;
    assert.deepEqual(graph('Retries by attempt'), [by('RetryAttempt', 'RetriesScheduled', 'FailedMessageProcessor')]);
    assert.deepEqual(graph('Dead letters by error type'), [by('ErrorType', 'DeadLettered', 'FinalDlqAnnotator')]);
    assert.deepEqual(graph('Failures by kind'), [
      by('FailureKind', 'HandedOff', 'MessageProcessor'),
      'Redeliver ArrivedByRedrive of {FailedMessageProcessor}: Sum',
    ]);
  });

  test('an outage: circuit state, probes and held messages', () => {
    assert.deepEqual(
      graph('Outages of the target'),
      ['CircuitOpen', 'Probes', 'Held'].map((metric) => `Redeliver ${metric} of {MessageProcessor}: Sum`),
    );
  });

  test('delays and ages', () => {
    const delay = 'Redeliver RetryDelaySeconds of {FailedMessageProcessor}';
    assert.deepEqual(graph('Delays before retries, in seconds'), [`${delay}: Average`, `${delay}: p90`, `${delay}: Maximum`]);
    assert.deepEqual(
      graph('Oldest message since its first send, in seconds'),
      [
        ...['MessageProcessor', 'FailedMessageProcessor', 'FinalDlqAnnotator'].map((id) => `Redeliver MessageAgeSeconds of {${id}}: Maximum`),
        'Redeliver LongestHoldSeconds of {MessageProcessor}: Maximum',
      ],
    );
    assert.deepEqual(
      graph('Oldest message in each queue, in seconds'),
      ['SourceQueue', 'IntermediateDlq', 'AnnotationQueue', 'FinalDlq'].map(
        (id) => `AWS/SQS ApproximateAgeOfOldestMessage of {${id}.QueueName}: Maximum`,
      ),
    );
  });

  test("all widgets use this stack's alarms and region", () => {
    const names = widgets[0]?.properties.alarms.map((arn: string) => arn.replace(/^\{Alarm|\.Arn\}$/g, '').replaceAll('-', ''));
    assert.equal(new Set(names).size, Object.keys(resources(template, 'AWS::CloudWatch::Alarm')).length);
    const regions = new Set(widgets.map(({ properties }) => properties.region ?? '{AWS::Region}'));
    assert.deepEqual([...regions], ['{AWS::Region}']);
  });
});

describe('all watched metrics exist', () => {
  const crates = join(__dirname, '../../crates/');
  const source = readFileSync(join(crates, 'aws/src/telemetry/metrics.rs'), 'utf8');
  /** The metrics in each event's log line. */
  const shapes = source.split(/(?=Event::\w+ \{[^}]*\} =>)/).slice(1).map((text) => ({
    event: text.match(/^Event::(\w+)/)?.[1] ?? '',
    metrics: [...text.matchAll(/\bM::(\w+)/g)].map(([, metric]) => metric ?? ''),
  }));
  /** The name of each metric's additional dimension. */
  const dimensions = new Map(
    [...source.matchAll(/Self::(\w+) => Some\((\w+)\),/g)].map(([, metric, constant]) => [
      metric,
      source.match(new RegExp(`const ${constant}: Dimension = Dimension \\{\\s+name: "(\\w+)"`))?.[1],
    ]),
  );
  /** Returns the crates that emit an event; crates that all functions share count for all of them. */
  const makers = (event: string): string[] =>
    readdirSync(crates).filter((crate) => !crate.endsWith('.toml') &&
      (readdirSync(join(crates, `${crate}/src/`), { recursive: true }) as string[])
        .filter((file) => file.endsWith('.rs') && !/tests|telemetry/.test(file))
        .some((file) => readFileSync(join(crates, `${crate}/src/${file}`), 'utf8').includes(`Event::${event} {`)),
    );

  const direct = templateWith(() => ({ ...HTTP, strategy: Strategy.DIRECT_RESEND, longDelays: true }));
  const archived = templateWith((stack) => ({
    ...HTTP,
    archive: s3.Bucket.fromBucketName(stack, 'Archive', 'dead-letters'),
    notify: Notify.topic(sns.Topic.fromTopicArn(stack, 'Notices', 'arn:aws:sns:eu-west-1:111122223333:notices')),
  }));
  for (const [variant, of] of Object.entries({ 'delayed-resend': template, 'direct-resend': direct, 'an archive and notices': archived })) {
    test(`each metric is written by the function it is watched on: ${variant}`, () => assertMetricsWritten(of));
  }

  function assertMetricsWritten(of: Template): void {
    const asked = new Set(
      Object.values(resources(of, 'AWS::CloudWatch::Alarm'))
        .map(({ Properties }) => Properties)
        .flatMap((properties) => [properties, ...(properties['Metrics'] ?? []).map(({ MetricStat }: any) => MetricStat?.Metric ?? {})])
        .filter(({ Namespace }) => Namespace === 'Redeliver')
        .map(({ MetricName, Dimensions }) => `${MetricName} of ${makeReadable(Dimensions.find(({ Name }: any) => Name === 'Function').Value)}`)
        .concat(widgetsOf(of).flatMap(({ properties }) => (properties.metrics ?? []).map(line)).flatMap((described) => described.match(/(?<=^(?:\w+ = )?Redeliver )\w+ of \S+(?=:)/) ?? [])),
    );
    assert.ok(asked.size >= 12, [...asked].join(', '));
    const crateOf: Record<string, string> = {
      '{MessageProcessor}': 'message-processor',
      '{FailedMessageProcessor}': 'failed-message-processor',
      '{FinalDlqAnnotator}': 'final-dlq-annotator',
    };
    for (const one of asked) {
      const [metric = '', id = ''] = one.split(' of ');
      const writers = shapes.filter(({ metrics }) => metrics.includes(metric)).flatMap(({ event }) => makers(event));
      assert.ok(writers.includes(crateOf[id] ?? id) || writers.includes('core'), `${one} is written by ${writers.join(', ') || 'none'}`);
    }
  }

  test('each additional dimension exists with its metric', () => {
    const searched = widgets.flatMap(({ properties }) => (properties.metrics ?? []).map(line)).flatMap((described) => {
      const [, dimension, metric] = described.match(/^SEARCH\('\{Redeliver,Function,(\w+)\} MetricName="(\w+)"/) ?? [];
      return dimension === undefined ? [] : [[metric, dimension]];
    });
    assert.equal(searched.length, 3);
    for (const [metric, dimension] of searched) {
      assert.equal(dimensions.get(metric), dimension, metric);
    }
  });
});
