import { Duration, type Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { type RedeliverProps, SourceQueue, Strategy, Target } from '../lib/index';
import { ALLOWED_LOOP, grants, plain, resources } from './stack-exact';
import { fakeBundles, HTTP, stackWith, templateWith } from './stack-support';
import { userFunction } from './stack-variants';

const ORDERS = 'arn:aws:sqs:eu-west-1:111122223333:orders';
const QUEUE_KEY = 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-00000000000a';

type Props = (stack: Stack) => Partial<RedeliverProps>;

/** The same stack with delayed and with direct re-sends. */
function both(props: Props = () => ({})): { readonly delayed: Template; readonly direct: Template } {
  const of = (strategy: Strategy): Template => templateWith((stack) => ({ ...HTTP, strategy, ...props(stack) }));
  return { delayed: of(Strategy.DELAYED_RESEND), direct: of(Strategy.DIRECT_RESEND) };
}

function variables(template: Template, id: string): Record<string, string> {
  return plain(resources(template, 'AWS::Lambda::Function')[id]?.Properties['Environment'].Variables);
}

/** Permissions that only one of two roles has. */
function moreOf(one: string[], other: string[]): string[] {
  return one.filter((grant) => !other.includes(grant));
}

/** Name, metric, statistic and threshold of each alarm. */
function alarms(template: Template): string[] {
  return Object.values(resources(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => {
    const { AlarmName, MetricName, Dimensions, Metrics, Statistic, Threshold, EvaluationPeriods } = plain(Properties);
    const watched = Metrics === undefined ? `${MetricName} of ${Dimensions[0].Value}, ${Statistic}` : Metrics.map(part).sort().join('; ');
    return `${AlarmName.replace('redeliver-prod-', '')}: ${watched} > ${Threshold} for ${EvaluationPeriods}`;
  });
}

function part({ Id, Expression, MetricStat: stat, ReturnData }: any): string {
  return Expression ? `${ReturnData === false ? `${Id} = ` : ''}${Expression}` : `${Id} = ${stat.Metric.MetricName} of ${stat.Metric.Dimensions[0].Value}, ${stat.Stat}`;
}

function body(template: Template): string {
  return plain(resources(template, 'AWS::CloudWatch::Dashboard')['Dashboard']?.Properties['DashboardBody']);
}

/** The lines of a graph, each with its label if it has one. */
function graph(template: Template, title: string): string[] {
  const { widgets } = JSON.parse(body(template));
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
  const { delayed, direct } = both();

  test('is delayed-resend except for the message-processor, its rights, who re-sends, and the dashboard', () => {
    const ids = (template: Template): string[] => Object.keys(template.toJSON().Resources).sort();
    const [some, others] = [direct.toJSON().Resources, delayed.toJSON().Resources];
    const ofDirectOnly = ids(direct).filter((id) => !ids(delayed).includes(id));
    assert.deepEqual(ofDirectOnly.map((id) => some[id].Type), ['AWS::IAM::Policy']);
    assert.deepEqual(ids(delayed), ids(direct).filter((id) => !ofDirectOnly.includes(id)));
    const changed = ids(delayed).filter((id) => JSON.stringify(some[id]) !== JSON.stringify(others[id]));
    assert.deepEqual(changed.map((id) => id.replace(/^Retries|[0-9A-F]{8}$/g, '')).sort(), ['Dashboard', 'FailedMessageProcessor', 'MessageProcessor']);
    const { redeliver } = stackWith(() => ({ ...HTTP, strategy: Strategy.DIRECT_RESEND }));
    assert.deepEqual([redeliver.intermediateDlq?.node.id, redeliver.failedMessageProcessor?.node.id], ['IntermediateDlq', 'FailedMessageProcessor']);
  });

  test('the message-processor has the settings of the strategy, also if it is a handler of your own', () => {
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
    const handler = both(() => ({ target: Target.handler(join(fakeBundles(), 'message-processor')) }));
    assert.deepEqual(variables(handler.direct, 'MessageProcessor'), settings);
    assert.deepEqual(['STRATEGY', 'SOURCE_QUEUE_URL'].filter((name) => name in variables(delayed, 'MessageProcessor')), []);
    const { RESEND_SENDER_IDS, ...others } = variables(delayed, 'FailedMessageProcessor');
    assert.equal(RESEND_SENDER_IDS, '{FailedMessageProcessorRole.RoleId}');
    assert.deepEqual(variables(direct, 'FailedMessageProcessor'), { ...others, RESEND_SENDER_IDS: settings.RESEND_SENDER_IDS });
  });

  test('Lambda may not take any function of the loop for an endless one', () => {
    const loops = Object.entries(resources(direct, 'AWS::Lambda::Function')).map(([id, { Properties }]) => [id, plain(Properties['RecursiveLoop'])]);
    assert.deepEqual(loops.sort(), ['FailedMessageProcessor', 'FinalDlqAnnotator', 'MessageProcessor'].map((id) => [id, ALLOWED_LOOP]));
  });

  test('an existing queue moves its messages to the intermediate DLQ, too', () => {
    const existing = both(() => ({ existingSourceQueue: SourceQueue.fromArn(ORDERS) }));
    const set = (template: Template): unknown =>
      Object.values(resources(template, 'Custom::RedeliverSourceQueue')).map(({ Properties }) => plain({ ...Properties, ServiceToken: '' }));
    assert.deepEqual(set(existing.direct), set(existing.delayed));
    assert.equal(variables(existing.direct, 'MessageProcessor')['SOURCE_QUEUE_URL'], 'https://sqs.eu-west-1.{AWS::URLSuffix}/111122223333/orders');
  });
});

describe('a change of the strategy under load spends no redrives', () => {
  const key = (stack: Stack): kms.IKey => kms.Key.fromKeyArn(stack, 'QueueKey', QUEUE_KEY);
  const own = (stack: Stack): Target => Target.ownFunction(userFunction(stack, 'Own', { timeout: Duration.seconds(60), architecture: lambda.Architecture.ARM_64 }));
  const cases: [string, Props, string[]][] = [
    ['the defaults', () => ({}), ['Allow sqs:SendMessage on {SourceQueue.Arn}']],
    [
      'an existing queue with a key',
      (stack) => ({ existingSourceQueue: SourceQueue.fromArn(ORDERS, { encryptionKey: key(stack) }) }),
      [`Allow kms:Decrypt on ${QUEUE_KEY}`, `Allow kms:GenerateDataKey on ${QUEUE_KEY}`, `Allow sqs:SendMessage on ${ORDERS}`],
    ],
    ["a user's own function", (stack) => ({ target: own(stack) }), ['Allow sqs:SendMessage on {SourceQueue.Arn}']],
  ];
  for (const [name, props, rights] of cases) {
    test(`${name}: rights that delayed re-sends lack are a resource of their own, which CloudFormation removes last`, () => {
      const { delayed, direct } = both(props);
      for (const type of ['AWS::IAM::Policy', 'AWS::IAM::Role', 'AWS::SQS::QueuePolicy', 'AWS::SQS::Queue', 'AWS::KMS::Key']) {
        const { ResendRights, ...others } = resources(direct, type);
        assert.deepEqual(others, resources(delayed, type), `${type}: nothing is withdrawn before the functions are changed`);
        assert.equal(ResendRights !== undefined, type === 'AWS::IAM::Policy');
      }
      const [[id, { Properties }] = assert.fail()] = Object.entries(direct.findResources('AWS::IAM::Policy')).filter(([id]) => id.includes('ResendRights'));
      const allowed = Properties.PolicyDocument.Statement.flatMap(({ Effect, Action, Resource }: any) => [Action].flat().map((action) => `${Effect} ${action} on ${plain(Resource)}`));
      assert.deepEqual(allowed.sort(), rights);
      const reader = Object.entries(direct.findResources('AWS::Lambda::Function')).filter(([, { Properties }]) => Properties.Environment?.Variables.STRATEGY === 'direct-resend');
      assert.deepEqual(reader.map(([, { Metadata }]) => Metadata), [{ Needs: { Ref: id } }], 'and they are there before the function needs them');
    });
  }
});

describe('the right to send to the source queue', () => {
  const cases: { readonly name: string; readonly props: Props; readonly source: string; readonly key?: string[] }[] = [
    { name: 'a new one', props: () => ({}), source: '{SourceQueue.Arn}' },
    { name: 'a new one with long delays', props: () => ({ longDelays: true }), source: '{SourceQueue.Arn}' },
    // The key of all queues, which it also needs for the others.
    { name: 'a new one with a key', props: (stack) => ({ encryptionKey: new kms.Key(stack, 'Key') }), source: '{SourceQueue.Arn}' },
    { name: 'one that is elsewhere', props: () => ({ existingSourceQueue: SourceQueue.fromArn(ORDERS) }), source: ORDERS },
    {
      name: 'one that is elsewhere, with a key of its own',
      props: (stack) => ({
        encryptionKey: new kms.Key(stack, 'Key'),
        existingSourceQueue: SourceQueue.fromArn(ORDERS, { encryptionKey: kms.Key.fromKeyArn(stack, 'QueueKey', QUEUE_KEY) }),
      }),
      source: ORDERS,
      key: [`Allow kms:GenerateDataKey on ${QUEUE_KEY}`],
    },
    {
      name: 'one of the stack, with a key of its own',
      props: (stack) => ({
        encryptionKey: new kms.Key(stack, 'Key'),
        existingSourceQueue: SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders', { encryptionMasterKey: kms.Key.fromKeyArn(stack, 'QueueKey', QUEUE_KEY) })),
      }),
      source: '{Orders.Arn}',
      key: [`Allow kms:GenerateDataKey on ${QUEUE_KEY}`],
    },
    {
      name: "a new one, which also a handler of a user's own may send to",
      props: () => ({ target: Target.handler(join(fakeBundles(), 'message-processor')) }),
      source: '{SourceQueue.Arn}',
    },
  ];
  for (const { name, props, source, key = [] } of cases) {
    test(`${name}: the message-processor has exactly it with direct re-sends, and never with delayed ones`, () => {
      const { delayed, direct } = both(props);
      const [usual, more] = [delayed, direct].map((template) => grants(template, 'MessageProcessorRole')) as [string[], string[]];
      const sends = `Allow sqs:SendMessage on ${source}`;
      assert.equal(usual.includes(sends), false);
      assert.deepEqual(moreOf(more, usual), [...key, sends].sort());
      assert.deepEqual(moreOf(usual, more), []);
      for (const role of ['FailedMessageProcessorRole', 'FinalDlqAnnotatorRole']) {
        assert.deepEqual(grants(direct, role), grants(delayed, role), role);
      }
    });
  }

  test('and nobody else may send to the inner queues than before', () => {
    const policies = (template: Template): unknown => plain(resources(template, 'AWS::SQS::QueuePolicy'));
    for (const props of [() => ({}), () => ({ longDelays: true })]) {
      const { delayed, direct } = both(props);
      assert.deepEqual(policies(direct), policies(delayed));
    }
  });
});

describe('what is watched', () => {
  test('the alarms are those of delayed re-sends', () => {
    const { delayed, direct } = both();
    assert.deepEqual(alarms(direct), alarms(delayed));
  });

  test('messages may become as old as with delayed re-sends, and older by what their batches wait for', () => {
    const age = (maxBatchingWindow: Duration): unknown =>
      alarms(templateWith(() => ({ ...HTTP, strategy: Strategy.DIRECT_RESEND, sourceRetention: Duration.days(1), maxBatchingWindow })))
        .find((told) => told.startsWith('message-processor-sees-old-messages'))?.match(/\d+(?= for)/)?.[0];
    // Six calls, 189 holds, and 20 unanswered deliveries, each a longer visibility timeout.
    assert.equal(Number(age(Duration.seconds(20))) - Number(age(Duration.seconds(0))), (6 + 189 + 20) * 20);
  });

  test('retries are those of both functions', () => {
    const { direct } = both();
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
      graph(direct, 'Retries by attempt').map((told) => told.match(/Function="(.*?)"/)?.[1]),
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
    assert.equal(body(direct).includes('HandedOff'), false);
    const right = graph(both(() => ({ longDelays: true })).direct, 'Delays before retries, in seconds').filter((told) => / = FILL/.test(told));
    assert.deepEqual(right, ['hops (right) = FILL(hops0, 0) + FILL(hops1, 0)']);
  });
});
