import Ajv from 'ajv';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';

import { resolveSection } from './cloudformation';

const read = (name: string): string => readFileSync(join(__dirname, '../../examples', name), 'utf8');
const documents = (name: string): any[] => parseAllDocuments(read(name)).map((document) => document.toJS());

const NAME = { type: 'object', required: ['name'], properties: { name: { type: 'string' } }, additionalProperties: false };

/** The members that we use, according to KEDA 2.20's custom resource definition and its page "AWS SQS Queue". */
const SCALED_OBJECT = {
  type: 'object',
  required: ['scaleTargetRef', 'triggers'],
  additionalProperties: false,
  properties: {
    scaleTargetRef: NAME,
    minReplicaCount: { type: 'integer' },
    maxReplicaCount: { type: 'integer' },
    triggers: {
      type: 'array',
      items: {
        type: 'object',
        required: ['type', 'metadata'],
        additionalProperties: false,
        properties: {
          type: { const: 'aws-sqs-queue' },
          authenticationRef: NAME,
          metadata: {
            type: 'object',
            required: ['queueURL', 'awsRegion'],
            additionalProperties: false,
            // KEDA accepts only strings.
            properties: { queueURL: { type: 'string' }, awsRegion: { type: 'string' }, queueLength: { type: 'string', pattern: '^[0-9]+$' } },
          },
        },
      },
    },
  },
};

test('keda.yaml is valid for KEDA', () => {
  const [authentication, scaled, ...others] = documents('keda.yaml');
  assert.equal(others.length, 0);
  assert.deepEqual([authentication, scaled].map(({ apiVersion, kind }) => [apiVersion, kind]), [
    ['keda.sh/v1alpha1', 'TriggerAuthentication'],
    ['keda.sh/v1alpha1', 'ScaledObject'],
  ]);
  assert.deepEqual(authentication.spec, { podIdentity: { provider: 'aws' } });
  const validate = new Ajv().compile(SCALED_OBJECT);
  assert.ok(validate(scaled.spec), JSON.stringify(validate.errors));
  assert.ok(!validate({ ...scaled.spec, minReplicas: 2 }), 'and a misspelled member is noticed');
});

test('keda.yaml scales the Deployment of kubernetes.yaml by the backlog of its queues', () => {
  const [authentication, { spec }] = documents('keda.yaml');
  const deployment = documents('kubernetes.yaml').find(({ kind }) => kind === 'Deployment');
  assert.equal(spec.scaleTargetRef.name, deployment.metadata.name);
  assert.ok(spec.minReplicaCount >= deployment.spec.replicas && spec.maxReplicaCount > spec.minReplicaCount);
  const environment = Object.fromEntries(deployment.spec.template.spec.containers[0].env.map(({ name, value }: any) => [name, value]));
  const expected = ['SOURCE_QUEUE_URL', 'INTERMEDIATE_DLQ_URL'].map((name) => [environment[name], environment['AWS_REGION'], authentication.metadata.name]);
  assert.deepEqual(spec.triggers.map(({ metadata, authenticationRef }: any) => [metadata.queueURL, metadata.awsRegion, authenticationRef.name]), expected);
});

const FUNCTIONS = ['message-processor', 'failed-message-processor', 'final-dlq-annotator'];
const ACCOUNT = { Prefix: 'orders', LogKeyArn: '', 'AWS::Partition': 'aws', 'AWS::Region': 'eu-central-1', 'AWS::AccountId': '123456789012' };

/** Returns the resources of ecs.yaml for one function. */
function ecsResources(name: string, parameters: Record<string, string> = {}): Record<string, any> {
  const { Mappings, Conditions, Resources } = parse(read('ecs.yaml'));
  const known = { ...ACCOUNT, ...parameters, Function: name };
  return substitute(resolveSection(Resources, Conditions, known), known, Mappings);
}

/** Replaces references to parameters, `Fn::FindInMap` and `Fn::Sub` with their values; keeps those to resources. */
function substitute(value: any, known: Record<string, string>, mappings: any): any {
  if (Array.isArray(value)) {
    return value.map((element) => substitute(element, known, mappings));
  }
  if (typeof value !== 'object' || value === null) {
    return value;
  }
  if ('Ref' in value) {
    return known[value.Ref] ?? value;
  }
  if ('Fn::FindInMap' in value) {
    const [map, first, second] = substitute(value['Fn::FindInMap'], known, mappings);
    return mappings[map][first][second];
  }
  if ('Fn::Sub' in value) {
    const [text, variables] = [value['Fn::Sub']].flat();
    const all = { ...known, ...substitute(variables ?? {}, known, mappings) };
    return text.replace(/\$\{([\w:]+)\}/g, (whole: string, name: string) => all[name] ?? whole);
  }
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, substitute(member, known, mappings)]));
}

test('ecs.yaml scales each service by the messages per task in its queue', () => {
  const queues = FUNCTIONS.map((name) => {
    const { Service, Tasks, Backlog } = ecsResources(name);
    const { ResourceId, ...target } = Tasks.Properties;
    assert.equal(ResourceId, 'service/${Cluster}/${Service.Name}');
    assert.deepEqual(target, { ServiceNamespace: 'ecs', ScalableDimension: 'ecs:service:DesiredCount', MinCapacity: { Ref: 'TasksMin' }, MaxCapacity: { Ref: 'TasksMax' } });
    assert.ok(!('DesiredCount' in Service.Properties), 'an update would undo the scaling');
    const [{ Expression }, ...metrics] = Backlog.Properties.TargetTrackingScalingPolicyConfiguration.CustomizedMetricSpecification.Metrics;
    assert.equal(Expression, 'FILL(waiting, 0) / tasks');
    const [waiting, tasks] = metrics.map(({ Id, ReturnData, MetricStat: { Stat, Metric } }: any) => [Id, ReturnData, Stat, Metric.Namespace, Metric.MetricName, Metric.Dimensions]);
    const service = [{ Name: 'ClusterName', Value: { Ref: 'Cluster' } }, { Name: 'ServiceName', Value: { 'Fn::GetAtt': ['Service', 'Name'] } }];
    assert.deepEqual(tasks, ['tasks', false, 'Average', 'ECS/ContainerInsights', 'RunningTaskCount', service]);
    const [{ Name, Value }] = waiting.pop();
    assert.deepEqual([...waiting, Name], ['waiting', false, 'Sum', 'AWS/SQS', 'ApproximateNumberOfMessagesVisible', 'QueueName']);
    return Value;
  });
  assert.deepEqual(queues, ['orders-source', 'orders-intermediate-dlq', 'orders-annotation']);
});

test("each role of ecs.yaml has one function's permissions, and only ECS of this account can assume it", () => {
  const queue = (suffix: string): string => `arn:aws:sqs:eu-central-1:123456789012:orders-${suffix}`;
  const trusted = (condition: unknown): unknown => [{ Effect: 'Allow', Principal: { Service: 'ecs-tasks.amazonaws.com' }, Action: 'sts:AssumeRole', Condition: condition }];
  const StringEquals = { 'aws:SourceAccount': '123456789012' };
  const rights = FUNCTIONS.map((name) => {
    const { TaskRole, ExecutionRole } = ecsResources(name);
    const ArnLike = { 'aws:SourceArn': 'arn:aws:ecs:eu-central-1:123456789012:*' };
    assert.deepEqual(TaskRole.Properties.AssumeRolePolicyDocument.Statement, trusted({ StringEquals, ArnLike }));
    assert.deepEqual(ExecutionRole.Properties.AssumeRolePolicyDocument.Statement, trusted({ StringEquals }));
    const [{ PolicyDocument }, ...others] = TaskRole.Properties.Policies;
    assert.equal(others.length, 0);
    return PolicyDocument.Statement.map(({ Effect, Action, Resource }: any) => [Effect, [Action].flat().join(' '), [Resource].flat().sort()]);
  });
  const reads = 'sqs:ReceiveMessage sqs:DeleteMessage sqs:GetQueueAttributes';
  const expected = [
    ['source', ['annotation', 'intermediate-dlq', 'source']],
    ['intermediate-dlq', ['annotation', 'source']],
    ['annotation', ['final-dlq']],
  ] as const;
  assert.deepEqual(rights, expected.map(([from, to]) => [['Allow', reads, [queue(from)]], ['Allow', 'sqs:SendMessage', to.map(queue)]]));
});

test('the logs of ecs.yaml use the given key', () => {
  assert.equal(ecsResources('message-processor').Log.Properties.KmsKeyId, undefined);
  const LogKeyArn = 'arn:aws:kms:eu-central-1:123456789012:key/0191f3a2-7b1c-7d3e-8f00-000000000001';
  assert.equal(ecsResources('message-processor', { LogKeyArn }).Log.Properties.KmsKeyId, LogKeyArn);
});

test('the commands in containers.md use the functions and variables of ecs.yaml', () => {
  const page = readFileSync(join(__dirname, '../../docs/containers.md'), 'utf8');
  const commands = FUNCTIONS.map((name) => ecsResources(name).Task.Properties.ContainerDefinitions[0].Command.slice(0, 2));
  const functions = `work ${commands.map(([work, name]: string[]) => (work === 'work' ? name : work)).join(' ')}`;
  assert.ok(page.includes(`  ${functions} --name=orders\n`), functions);
  const [{ Environment }] = ecsResources('message-processor').Task.Properties.ContainerDefinitions;
  const [, file = ''] = /`orders.env`.*?```text\n(.*?)```/s.exec(page) ?? [];
  const given = [...file.matchAll(/^(\w+)=/gm)].map(([, name]) => name);
  // Unlike ecs.yaml, the page sets the region (Fargate sets it itself) and keeps the default target timeout.
  const names = Environment.map(({ Name }: { Name: string }) => Name).filter((name: string) => name !== 'TARGET_TIMEOUT_SECONDS');
  assert.deepEqual(given, ['AWS_REGION', ...names]);
});

test('the roles of ecs.yaml are those that containers.md passes to queues.yaml', () => {
  const names = FUNCTIONS.map((name) => ecsResources(name).TaskRole.Properties.RoleName);
  assert.deepEqual(names, FUNCTIONS.map((name) => `redeliver-orders-${name}`));
  const page = readFileSync(join(__dirname, '../../docs/containers.md'), 'utf8');
  assert.ok(page.includes(`WorkerRoleArns=$ROLES-message-processor,$ROLES-failed-message-processor,$ROLES-final-dlq-annotator\n`));
  assert.ok(page.includes('ROLES=arn:aws:iam::123456789012:role/redeliver-orders\n'));
});
