import Ajv from 'ajv';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse, parseAllDocuments } from 'yaml';

const read = (name: string): string => readFileSync(join(__dirname, '../../examples', name), 'utf8');
const documents = (name: string): any[] => parseAllDocuments(read(name)).map((document) => document.toJS());

const NAME = { type: 'object', required: ['name'], properties: { name: { type: 'string' } }, additionalProperties: false };

/** The members that we use, as the custom resource definition of KEDA 2.20 and its page "AWS SQS Queue" allow them. */
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
            // KEDA takes nothing but strings.
            properties: { queueURL: { type: 'string' }, awsRegion: { type: 'string' }, queueLength: { type: 'string', pattern: '^[0-9]+$' } },
          },
        },
      },
    },
  },
};

test('keda.yaml is what KEDA takes', () => {
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

test('keda.yaml scales the Deployment of kubernetes.yaml by the queues that it reads', () => {
  const [authentication, { spec }] = documents('keda.yaml');
  const deployment = documents('kubernetes.yaml').find(({ kind }) => kind === 'Deployment');
  assert.equal(spec.scaleTargetRef.name, deployment.metadata.name);
  assert.ok(spec.minReplicaCount >= deployment.spec.replicas && spec.maxReplicaCount > spec.minReplicaCount);
  const environment = Object.fromEntries(deployment.spec.template.spec.containers[0].env.map(({ name, value }: any) => [name, value]));
  const expected = ['SOURCE_QUEUE_URL', 'INTERMEDIATE_DLQ_URL'].map((name) => [environment[name], environment['AWS_REGION'], authentication.metadata.name]);
  assert.deepEqual(spec.triggers.map(({ metadata, authenticationRef }: any) => [metadata.queueURL, metadata.awsRegion, authenticationRef.name]), expected);
});

test('ecs.yaml scales its service by the messages a task on both queues', () => {
  const { Resources } = parse(read('ecs.yaml'));
  const { ResourceId, ...target } = Resources.Tasks.Properties;
  assert.deepEqual(ResourceId, { 'Fn::Sub': 'service/${Cluster}/${Service.Name}' });
  assert.deepEqual(target, { ServiceNamespace: 'ecs', ScalableDimension: 'ecs:service:DesiredCount', MinCapacity: 2, MaxCapacity: { Ref: 'TasksMax' } });
  assert.ok(!('DesiredCount' in Resources.Service.Properties), 'an update would undo the scaling');
  const { Metrics } = Resources.Backlog.Properties.TargetTrackingScalingPolicyConfiguration.CustomizedMetricSpecification;
  const [{ Expression }, ...metrics] = Metrics;
  assert.equal(Expression, '(FILL(source, 0) + FILL(failed, 0)) / tasks');
  const queue = (suffix: string): unknown => [{ Name: 'QueueName', Value: { 'Fn::Sub': `\${Prefix}-${suffix}` } }];
  const service = [{ Name: 'ClusterName', Value: { Ref: 'Cluster' } }, { Name: 'ServiceName', Value: { 'Fn::GetAtt': ['Service', 'Name'] } }];
  assert.deepEqual(metrics.map(({ Id, ReturnData, MetricStat: { Stat, Metric } }: any) => [Id, ReturnData, Stat, Metric.Namespace, Metric.MetricName, Metric.Dimensions]), [
    ['source', false, 'Sum', 'AWS/SQS', 'ApproximateNumberOfMessagesVisible', queue('source')],
    ['failed', false, 'Sum', 'AWS/SQS', 'ApproximateNumberOfMessagesVisible', queue('intermediate-dlq')],
    ['tasks', false, 'Average', 'ECS/ContainerInsights', 'RunningTaskCount', service],
  ]);
});

test('the lines of containers.md have the functions and the variables of ecs.yaml', () => {
  const page = readFileSync(join(__dirname, '../../docs/containers.md'), 'utf8');
  const [{ Command, Environment }] = parse(read('ecs.yaml')).Resources.Task.Properties.ContainerDefinitions;
  const functions = Command.slice(0, 4).join(' ');
  assert.ok(page.includes(`  ${functions} --name=orders\n`), functions);
  const [, file = ''] = /`orders.env`.*?```text\n(.*?)```/s.exec(page) ?? [];
  const given = [...file.matchAll(/^(\w+)=/gm)].map(([, name]) => name);
  // Fargate sets the region; the rest of the time for a batch is the default there.
  const names = Environment.map(({ Name }: { Name: string }) => Name).filter((name: string) => name !== 'TARGET_TIMEOUT_SECONDS');
  assert.deepEqual(given, ['AWS_REGION', ...names]);
});

test('the role of ecs.yaml is the one that containers.md gives to queues.yaml', () => {
  const { RoleName } = parse(read('ecs.yaml')).Resources.TaskRole.Properties;
  assert.deepEqual(RoleName, { 'Fn::Sub': 'redeliver-${Prefix}' });
  const page = readFileSync(join(__dirname, '../../docs/containers.md'), 'utf8');
  assert.match(page, /Prefix=orders WorkerRoleArns=arn:aws:iam::123456789012:role\/redeliver-orders$/m);
});
