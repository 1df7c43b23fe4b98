import { App, Aws, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Redeliver, type RedeliverProps, SourceQueue, Strategy } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { cdkJson } from './fakes';
import { fakeBundles, HTTP, namedResource, type Resource, templateWith } from './stack-support';

const ARN = 'arn:aws:sqs:eu-west-1:111122223333:orders';
const BUNDLES = fakeBundles();

function templateWithQueueElsewhere(props: Partial<RedeliverProps> = {}): Template {
  return templateWith(() => ({ ...HTTP, bundles: BUNDLES, existingSourceQueue: SourceQueue.fromArn(ARN), ...props }));
}

function onlyResource(template: Template, type: string): [string, Resource] {
  const found = Object.entries(template.findResources(type));
  assert.equal(found.length, 1, type);
  return found[0] as [string, Resource];
}

/** Returns the two steps of the custom resource by name, and their ids. */
function steps(template: Template): { check: Resource; set: Resource; ids: Record<string, string> } {
  const found = Object.entries(template.findResources('Custom::RedeliverSourceQueue')) as [string, Resource][];
  const of = (name: string): [string, Resource] => found.find(([, { Properties }]) => Properties['Step'] === name) as [string, Resource];
  assert.equal(found.length, 2);
  return { check: of('check')[1], set: of('set')[1], ids: { check: of('check')[0], set: of('set')[0] } };
}

describe('a source queue owned by another stack', () => {
  const template = templateWithQueueElsewhere();

  test('replaces the new queue as the only source of the intermediate DLQ', () => {
    template.resourceCountIs('AWS::SQS::Queue', 3);
    const dlq = namedResource(template, 'AWS::SQS::Queue', 'QueueName', 'redeliver-prod-intermediate-dlq');
    assert.deepEqual(dlq.Properties['RedriveAllowPolicy'], { redrivePermission: 'byQueue', sourceQueueArns: [ARN] });
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', { EventSourceArn: ARN });
  });

  test('gets its attributes in the same deployment before any message is received: first all checks, then the change', () => {
    const { check, set, ids } = steps(template);
    const [mapping] = Object.values(template.findResources('AWS::Lambda::EventSourceMapping', { Properties: { EventSourceArn: ARN } }));
    assert.ok((mapping?.['DependsOn'] as string[]).includes(ids['set'] ?? 'none'));
    assert.deepEqual((set as unknown as Record<string, unknown>)['DependsOn'], [ids['check']]);
    const { ServiceToken, Build, RedrivePolicy, ...attributes } = set.Properties;
    assert.deepEqual(attributes, {
      ServiceTimeout: '180',
      Step: 'set',
      QueueArn: ARN,
      QueueUrl: { 'Fn::Join': ['', ['https://sqs.eu-west-1.', { Ref: 'AWS::URLSuffix' }, '/111122223333/orders']] },
      HasKey: 'false',
      VisibilityTimeout: '361',
      MessageRetentionPeriod: '604800',
      MaximumMessageSize: '1048576',
    });
    assert.match(JSON.stringify(RedrivePolicy), /deadLetterTargetArn.*IntermediateDlq.*maxReceiveCount\\":1/);
    assert.deepEqual(check.Properties, { ...set.Properties, Step: 'check' });
    const [processor] = Object.values(template.findResources('AWS::Lambda::Function', { Properties: { FunctionName: 'redeliver-prod-message-processor' } }));
    assert.equal(Build, processor?.['Properties'].Code.S3Key, 'set again with each new build');
    assert.deepEqual(template.findOutputs('*'), {}, 'no command to run by hand');
  });

  test('a given key is passed to the setter, which refuses any other', () => {
    const { check, set } = steps(
      templateWith((stack) => {
        const encryptionKey = kms.Key.fromKeyArn(stack, 'QueueKey', 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000001');
        return { ...HTTP, bundles: BUNDLES, existingSourceQueue: SourceQueue.fromArn(ARN, { encryptionKey }) };
      }),
    );
    assert.deepEqual([check, set].map(({ Properties }) => Properties['HasKey']), ['true', 'true']);
  });

  test('a change makes a new check and an update; a rollback deletes the check and reverts the update', () => {
    const [before, after] = [1, 2].map((maxReceiveCount) => steps(templateWithQueueElsewhere({ maxReceiveCount })).ids);
    assert.notEqual(before?.['check'], after?.['check']);
    assert.equal(before?.['set'], after?.['set']);
  });

  test('another queue gets another setter, so the old one can still remove its redrive policy', () => {
    const ids = (queueArn: string): string[] => {
      const other = templateWithQueueElsewhere({ existingSourceQueue: SourceQueue.fromArn(queueArn) });
      const [role] = Object.keys(other.findResources('AWS::IAM::Role')).filter((id) => id.includes('SourceQueueAttributes'));
      return [steps(other).ids['set'] ?? '', role ?? ''];
    };
    const [one, other] = [ids(ARN), ids(`${ARN}-2`)];
    assert.deepEqual(one.map((id, index) => id !== other[index]), [true, true]);
  });

  test("the setter can only read and change this queue's attributes", () => {
    const policies = Object.entries(template.findResources('AWS::IAM::Policy')).filter(([id]) => id.includes('SourceQueueAttributes'));
    const statements = policies.flatMap(([, policy]) => (policy as Resource).Properties['PolicyDocument'].Statement);
    const sqsStatements = statements.filter(({ Action }) => JSON.stringify(Action).includes('sqs:'));
    assert.deepEqual(sqsStatements, [{ Action: ['sqs:GetQueueAttributes', 'sqs:SetQueueAttributes'], Effect: 'Allow', Resource: ARN }]);
    assert.equal(statements.length, 2);
    assert.deepEqual(statements[0].Action, ['logs:CreateLogStream', 'logs:PutLogEvents']);
  });

  test("the setter is not retried after CloudFormation's timeout", () => {
    const [id, { Properties }] = onlyResource(template, 'AWS::Lambda::EventInvokeConfig');
    assert.ok((steps(template).check as unknown as Record<string, string[]>)['DependsOn']?.includes(id), 'which is so from the first time on');
    assert.deepEqual([Properties['MaximumRetryAttempts'], Properties['MaximumEventAgeInSeconds']], [0, 180]);
  });

  test('the attributes to set follow from the props', () => {
    const { set } = steps(templateWithQueueElsewhere({ sourceVisibilityTimeout: Duration.seconds(720), sourceRetention: Duration.days(5), maxReceiveCount: 3 }));
    assert.deepEqual([set.Properties['VisibilityTimeout'], set.Properties['MessageRetentionPeriod']], ['720', '432000']);
    assert.match(JSON.stringify(set.Properties['RedrivePolicy']), /maxReceiveCount\\":3/);
  });

  test('a queue of another stack of the same app is handled in the same way', () => {
    const app = new App({ context: cdkJson().context });
    const orders = new sqs.Queue(new Stack(app, 'Orders'), 'Orders');
    const stack = new Stack(app, 'Test');
    new Redeliver(stack, 'Retries', { ...HTTP, bundles: BUNDLES, existingSourceQueue: SourceQueue.fromQueue(orders) });
    assert.deepEqual(Object.keys(onlyResource(Template.fromStack(Stack.of(orders)), 'AWS::SQS::Queue')[1].Properties ?? {}), []);
    assert.equal(steps(Template.fromStack(stack)).set.Properties['MaximumMessageSize'], '1048576');
  });
});

describe("a queue of the same stack gets its attributes in the stack's template", () => {
  const withQueue = (queue: sqs.QueueProps, props: Partial<RedeliverProps> = {}): Template =>
    templateWith((stack) => ({ ...HTTP, bundles: BUNDLES, existingSourceQueue: SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders', queue)), ...props }));
  const orders = (template: Template): Record<string, any> =>
    Object.entries(template.findResources('AWS::SQS::Queue')).find(([id]) => id.startsWith('Orders'))?.[1]['Properties'];
  const dlqOf = (template: Template, name = 'intermediate-dlq'): [string, Resource] =>
    Object.entries(template.findResources('AWS::SQS::Queue', { Properties: { QueueName: `redeliver-prod-${name}` } }))[0] as [string, Resource];

  test('it has all attributes of a new queue, without a cycle and without a setter', () => {
    const template = withQueue({ queueName: 'orders' });
    const [id, dlq] = dlqOf(template);
    assert.deepEqual(orders(template), {
      QueueName: 'orders',
      RedrivePolicy: { deadLetterTargetArn: { 'Fn::GetAtt': [id, 'Arn'] }, maxReceiveCount: 1 },
      VisibilityTimeout: 361,
      MessageRetentionPeriod: 604_800,
      MaximumMessageSize: 1_048_576,
    });
    const arn = ['arn:', { Ref: 'AWS::Partition' }, ':sqs:', { Ref: 'AWS::Region' }, ':', { Ref: 'AWS::AccountId' }, ':orders'];
    assert.deepEqual(dlq.Properties['RedriveAllowPolicy'], { redrivePermission: 'byQueue', sourceQueueArns: [{ 'Fn::Join': ['', arn] }] });
    template.resourceCountIs('Custom::RedeliverSourceQueue', 0);
    template.resourceCountIs('AWS::Lambda::Function', 3);
  });

  test('without a physical name it is refused, since a policy would make a cycle', () => {
    const template = withQueue({});
    assert.deepEqual(dlqOf(template)[1].Properties['RedriveAllowPolicy'], { redrivePermission: 'allowAll' });
    assert.equal(orders(template)['RedrivePolicy'].maxReceiveCount, 1);
  });

  test('with strategy visibility it moves messages to the annotation queue', () => {
    const template = withQueue({ queueName: 'orders' }, { strategy: Strategy.VISIBILITY });
    const [id] = dlqOf(template, 'annotation');
    assert.deepEqual(orders(template)['RedrivePolicy'], { deadLetterTargetArn: { 'Fn::GetAtt': [id, 'Arn'] }, maxReceiveCount: 15 });
  });

  test('its own values are kept and used in checks', () => {
    const own = { visibilityTimeout: Duration.seconds(900), retentionPeriod: Duration.days(3) };
    const template = withQueue(own, { strategy: Strategy.VISIBILITY });
    assert.deepEqual([orders(template)['VisibilityTimeout'], orders(template)['MessageRetentionPeriod']], [900, 259_200]);
    const processor = namedResource(template, 'AWS::Lambda::Function', 'FunctionName', 'redeliver-prod-message-processor');
    const { VISIBILITY_TIMEOUT_SECONDS, RETENTION_SECONDS } = processor.Properties['Environment'].Variables;
    assert.deepEqual([VISIBILITY_TIMEOUT_SECONDS, RETENTION_SECONDS], ['900', '259200']);
  });

  test('the default batching window is omitted if its visibility timeout is too short', () => {
    const windowWith = (visibility: number, props: Partial<RedeliverProps> = {}): unknown =>
      Object.values(withQueue({ visibilityTimeout: Duration.seconds(visibility) }, props).findResources('AWS::Lambda::EventSourceMapping'))
        .flatMap((mapping) => mapping['Properties'].MaximumBatchingWindowInSeconds ?? []);
    const none = { maxBatchingWindow: Duration.seconds(0) };
    assert.deepEqual([windowWith(360), windowWith(361), windowWith(400, none)], [[0], [1], [0]]);
  });

  test('the synth refuses values that contradict each other', () => {
    const refused = (queue: sqs.QueueProps, props: Partial<RedeliverProps> = {}): string[] => {
      try {
        withQueue(queue, props);
      } catch (error) {
        assert.ok(error instanceof RedeliverPropsError, String(error));
        return error.message.split('\n');
      }
      return [];
    };
    const what = 'existingSourceQueue (Test/Orders)';
    const dlq = sqs.Queue.fromQueueArn(new Stack(), 'Dlq', `${ARN}-dlq`);
    assert.deepEqual(refused({ deadLetterQueue: { queue: dlq, maxReceiveCount: 3 } }), [
      `${what} already has a dead-letter queue; remove it there: redeliver's replaces it, and messages in the old one stay there.`,
    ]);
    assert.deepEqual(refused({ fifo: true }), [`${what} is a FIFO queue, which cannot delay individual messages; use a standard queue, or strategy ordered.`]);
    assert.deepEqual(refused({ maxMessageSizeBytes: 262_144 }), [
      `${what} has maxMessageSizeBytes 262144; use 1048576, or remove it: a re-sent message may be larger than the original.`,
    ]);
    assert.deepEqual(refused({ visibilityTimeout: Duration.seconds(359) }), [
      "existingSourceQueue's visibilityTimeout is 359 s; use at least 6 × timeout = 360 s, and at most 43200 s (12 hours).",
    ]);
    assert.deepEqual(refused({ visibilityTimeout: Duration.seconds(360) }, { maxBatchingWindow: Duration.seconds(20) }), [
      "existingSourceQueue's visibilityTimeout is 360 s; use at least 6 × timeout + maxBatchingWindow = 380 s, and at most 43200 s (12 hours).",
    ]);
    assert.deepEqual(refused({ retentionPeriod: Duration.days(14) }), [
      "existingSourceQueue's retentionPeriod is 1209600 s; use 60 s to 1209599 s, in whole seconds: less than the 14 days of the intermediate DLQ, where a moved message keeps its age.",
    ]);
    assert.deepEqual(refused({ visibilityTimeout: Duration.seconds(400) }, { sourceVisibilityTimeout: Duration.seconds(500) }), [
      `${what} has its own visibilityTimeout; remove sourceVisibilityTimeout.`,
    ]);
    assert.deepEqual(refused({ retentionPeriod: Duration.days(4) }, { sourceRetention: Duration.days(5) }), [
      `${what} has its own retentionPeriod; remove sourceRetention.`,
    ]);
    assert.deepEqual(refused({ retentionPeriod: Duration.days(4) }, { sourceRetention: Duration.days(4) }), []);
  });

  test("the name of one of redeliver's own queues", () => {
    assert.deepEqual(collectQueueProblems((stack) => SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders', { queueName: 'redeliver-prod-final-dlq' }))), [
      "existingSourceQueue (Test/Orders) is named redeliver-prod-final-dlq, which is the name of one of redeliver's own queues; change it, or change prefix or stage.",
    ]);
  });
});

/** Returns the problems with a source queue in a stack with a known account and region. */
function collectQueueProblems(queue: (stack: Stack) => SourceQueue): string[] {
  const stack = new Stack(new App({ context: cdkJson().context }), 'Test', { env: { account: '111122223333', region: 'eu-west-1' } });
  const existingSourceQueue = queue(stack);
  try {
    new Redeliver(stack, 'Retries', { ...HTTP, bundles: BUNDLES, existingSourceQueue });
    return [];
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n');
  }
}

describe("two orchestrators cannot share a source queue, since each would receive the other's messages", () => {
  const taken = (what: string): string[] => [`${what} is already the source queue of Test/First; give each Redeliver its own queue.`];
  const first = (stack: Stack, existingSourceQueue?: SourceQueue): Redeliver =>
    new Redeliver(stack, 'First', { ...HTTP, prefix: 'first', bundles: BUNDLES, ...(existingSourceQueue && { existingSourceQueue }) });

  test('a queue of the stack', () => {
    const queue = (stack: Stack): SourceQueue => {
      const orders = new sqs.Queue(stack, 'Orders');
      first(stack, SourceQueue.fromQueue(orders));
      return SourceQueue.fromQueue(orders);
    };
    assert.deepEqual(collectQueueProblems(queue), taken('existingSourceQueue (Test/Orders)'));
  });

  test('a queue of another stack of the app', () => {
    const queue = (stack: Stack): SourceQueue => {
      const orders = new sqs.Queue(new Stack(stack.node.root as App, 'Orders', { env: stack.env }), 'Orders', { queueName: 'orders' });
      first(stack, SourceQueue.fromQueue(orders));
      return SourceQueue.fromQueue(orders);
    };
    assert.deepEqual(collectQueueProblems(queue), taken('existingSourceQueue (Orders/Orders)'));
  });

  test('the queue that the other created', () => {
    assert.deepEqual(collectQueueProblems((stack) => SourceQueue.fromQueue(first(stack).sourceQueue)), taken('existingSourceQueue (Test/First/SourceQueue)'));
  });

  test('a queue that both reference by ARN', () => {
    const queue = (stack: Stack): SourceQueue => {
      first(stack, SourceQueue.fromArn(ARN));
      return SourceQueue.fromArn(ARN);
    };
    assert.deepEqual(collectQueueProblems(queue), taken('existingSourceQueue.queueArn'));
  });

  test('queues of the same name in two regions are accepted', () => {
    const app = new App({ context: cdkJson().context });
    for (const region of ['eu-west-1', 'us-east-1']) {
      const stack = new Stack(app, region, { env: { account: '111122223333', region } });
      const queueArn = `arn:aws:sqs:${Aws.REGION}:111122223333:orders`;
      new Redeliver(stack, 'Retries', { ...HTTP, bundles: BUNDLES, existingSourceQueue: SourceQueue.fromArn(queueArn) });
    }
  });
});

describe('a queue construct of another account or region is refused like its ARN', () => {
  const places = [
    { account: '111122223333', region: 'us-east-1' },
    { account: '444455556666', region: 'eu-west-1' },
  ];
  for (const env of places) {
    const sentence = `is in ${env.account}, ${env.region}, but the stack is in 111122223333, eu-west-1; a DLQ must be in the account and region of its queue.`;
    test(`of a stack in ${env.account} in ${env.region}`, () => {
      const queue = (stack: Stack): SourceQueue =>
        SourceQueue.fromQueue(new sqs.Queue(new Stack(stack.node.root as App, 'Far', { env }), 'Orders', { queueName: 'orders' }));
      assert.deepEqual(collectQueueProblems(queue), [`existingSourceQueue (Far/Orders) ${sentence}`]);
    });

    test(`imported, of ${env.account} in ${env.region}`, () => {
      const arn = `arn:aws:sqs:${env.region}:${env.account}:orders`;
      assert.deepEqual(collectQueueProblems((stack) => SourceQueue.fromQueue(sqs.Queue.fromQueueArn(stack, 'Orders', arn))), [`existingSourceQueue (Test/Orders) ${sentence}`]);
      assert.deepEqual(collectQueueProblems(() => SourceQueue.fromArn(arn)), [`existingSourceQueue.queueArn ${sentence}`]);
    });
  }
});
