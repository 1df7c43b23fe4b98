import { Template } from 'aws-cdk-lib/assertions';
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';

import { PARAMETERS, queuesTemplateFile } from '../template/queues';
import { resolveSection } from './cloudformation';
import { makeReadable, resources } from './stack-exact';
import { HTTP, type Resource, templateWith } from './stack-support';

const PATH = join(__dirname, '../../examples/queues.yaml');
const FILE = queuesTemplateFile();
const { Conditions, Resources } = parse(FILE, { version: '1.1' });
const INNER = ['IntermediateDlq', 'AnnotationQueue', 'FinalDlq'];
const QUEUES = ['SourceQueue', ...INNER];

/** Returns all resources of a type, by their short ids, with these parameters. */
function resourcesOfType(type: string, AlarmTopicArn = ''): Record<string, Resource> {
  const given: any = resolveSection(Resources, Conditions, { AlarmTopicArn });
  return resources(Template.fromJSON({ Resources: JSON.parse(JSON.stringify(given)) }), type);
}

test("examples/queues.yaml equals the construct's output", () => {
  if (process.env['UPDATE_SNAPSHOTS'] === '1') {
    writeFileSync(PATH, FILE);
  }
  const message = 'the template has changed: look at the difference, then run this test once with UPDATE_SNAPSHOTS=1';
  assert.equal(FILE, readFileSync(PATH, 'utf8'), message);
});

test("its queues equal a stack's except for names and the batch time", () => {
  const comparable = (queues: Record<string, Resource>): any =>
    Object.fromEntries(Object.entries(queues).map(([id, { Properties, ...others }]) => {
      const { QueueName, VisibilityTimeout, RedriveAllowPolicy, ...same } = makeReadable(Properties);
      return [id, { ...others, ...same, redrive: RedriveAllowPolicy.redrivePermission }];
    }));
  const queues = resourcesOfType('AWS::SQS::Queue');
  assert.deepEqual(comparable(queues), comparable(resources(templateWith(() => HTTP), 'AWS::SQS::Queue')));
  const facts = QUEUES.map((id) => {
    const { QueueName, VisibilityTimeout, RedriveAllowPolicy } = queues[id]?.Properties ?? assert.fail(id);
    const [from = ''] = JSON.stringify(RedriveAllowPolicy.sourceQueueArns ?? []).match(/\$\{Prefix\}[a-z-]+/) ?? [];
    return [QueueName['Fn::Sub'], VisibilityTimeout, from, queues[id]?.DeletionPolicy];
  });
  assert.deepEqual(facts, [
    ['${Prefix}-source', 180, '', 'RetainExceptOnCreate'],
    ['${Prefix}-intermediate-dlq', 180, '${Prefix}-source', 'RetainExceptOnCreate'],
    ['${Prefix}-annotation', 180, '${Prefix}-intermediate-dlq', 'RetainExceptOnCreate'],
    ['${Prefix}-final-dlq', 180, '${Prefix}-annotation', 'RetainExceptOnCreate'],
  ]);
});

test("all queues require TLS, and only the containers' roles can send to the inner queues", () => {
  const policies = Object.values(resourcesOfType('AWS::SQS::QueuePolicy')).map(({ Properties }) => makeReadable(Properties));
  const found = policies.map(({ Queues, PolicyDocument }) => [Queues, PolicyDocument.Statement.map(({ Effect, Principal, Action, Resource, Condition }: any) =>
    [Effect, Principal, Action, Resource, Condition])]);
  const everybody = { AWS: '*' };
  const statements = (id: string): unknown[] => {
    const tls = ['Deny', everybody, 'sqs:*', `{${id}.Arn}`, { Bool: { 'aws:SecureTransport': 'false' } }];
    const lock = ['Deny', everybody, 'sqs:SendMessage', `{${id}.Arn}`, { ArnNotEquals: { 'aws:PrincipalArn': '{WorkerRoleArns}' } }];
    return [[`{${id}}`], INNER.includes(id) ? [tls, lock] : [tls]];
  };
  assert.deepEqual(found.sort(), QUEUES.map(statements).sort());
});

test('a role ARN is accepted, a wildcard or a session is refused', () => {
  // CloudFormation matches the pattern against each value of the list.
  const pattern = new RegExp(`^(?:${PARAMETERS.WorkerRoleArns.AllowedPattern})$`);
  assert.match('arn:aws:iam::111122223333:role/redeliver-orders', pattern);
  assert.match('arn:aws-cn:iam::111122223333:role/team/orders', pattern);
  for (const refused of ['', '*', 'redeliver-orders', 'arn:aws:iam::111122223333:role/*', 'arn:aws:sts::111122223333:assumed-role/orders/task']) {
    assert.doesNotMatch(refused, pattern);
  }
});

test('each alarm notifies the topic, if any', () => {
  const alarms = (topic: string): unknown[] =>
    Object.values(resourcesOfType('AWS::CloudWatch::Alarm', topic)).map(({ Properties }) => [Properties['AlarmName']['Fn::Sub'], Properties['AlarmActions'], Properties['OKActions']]);
  const names = ['final-dlq-not-empty', 'final-dlq-arrivals', 'final-dlq-about-to-expire', ...['source-queue', 'intermediate-dlq', 'annotation-queue'].map((queue) => `${queue}-waits-too-long`)];
  const topic = [{ Ref: 'AlarmTopicArn' }];
  assert.deepEqual(alarms(''), names.map((name) => [`\${Prefix}-${name}`, undefined, undefined]));
  assert.deepEqual(alarms('arn:aws:sns:eu-west-1:111122223333:alarms'), names.map((name) => [`\${Prefix}-${name}`, topic, topic]));
});
