import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { describe, test } from 'node:test';

import { HTTP, named, type Resource, temporaryDirectory, templateWith } from './stack-support.ts';

const ARN = 'arn:aws:sqs:eu-west-1:111122223333:orders';
const DLQ = 'arn:aws:sqs:eu-west-1:111122223333:redeliver-prod-intermediate-dlq';

describe('an existing source queue', () => {
  const template = templateWith(() => ({ ...HTTP, existingSourceQueue: { queueArn: ARN } }));

  test('is used instead of a new one, and is the only one that may move messages to the intermediate DLQ', () => {
    template.resourceCountIs('AWS::SQS::Queue', 3);
    const dlq = named(template, 'AWS::SQS::Queue', 'QueueName', 'redeliver-prod-intermediate-dlq');
    assert.deepEqual(dlq.Properties['RedriveAllowPolicy'], { redrivePermission: 'byQueue', sourceQueueArns: [ARN] });
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', { EventSourceArn: ARN });
  });

  test('the deployment checks it before a message is taken, and says how to set what it lacks', () => {
    const [id] = Object.keys(template.findResources('Custom::RedeliverSourceQueue'));
    const mappings = Object.values(template.findResources('AWS::Lambda::EventSourceMapping', { Properties: { EventSourceArn: ARN } }));
    assert.ok((mappings[0]?.['DependsOn'] as string[]).includes(id ?? 'none'));
    const outputs = JSON.stringify(template.findOutputs('*'));
    assert.match(outputs, /aws sqs set-queue-attributes --queue-url /);
    const [command] = Object.values(template.findOutputs('*')).map(({ Value }) => JSON.stringify(Value));
    const told = ['RedrivePolicy', 'VisibilityTimeout', 'MaximumMessageSize', 'MessageRetentionPeriod'].map((name) => command?.includes(name));
    assert.deepEqual(told, [true, true, true, false], 'shortening the retention deletes what is older');
  });

  test('a change is a new check and no update, which a rollback would fail', () => {
    const check = (maxReceiveCount: number): string[] =>
      Object.keys(templateWith(() => ({ ...HTTP, maxReceiveCount, existingSourceQueue: { queueArn: ARN } })).findResources('Custom::RedeliverSourceQueue'));
    assert.notDeepEqual(check(1), check(2));
  });

  test('not yet connected, nothing is taken from it and nothing is checked', () => {
    const first = templateWith(() => ({ ...HTTP, existingSourceQueue: { queueArn: ARN, connected: false } }));
    first.resourceCountIs('AWS::Lambda::EventSourceMapping', 2);
    first.resourceCountIs('Custom::RedeliverSourceQueue', 0);
    assert.match(JSON.stringify(first.findOutputs('*')), /set-queue-attributes/);
  });

  test('the check may look, and nothing else', () => {
    const policies = Object.entries(template.findResources('AWS::IAM::Policy')).filter(([id]) => id.includes('SourceQueueCheckRole'));
    const statements = policies.flatMap(([, policy]) => (policy as Resource).Properties['PolicyDocument'].Statement);
    const actions = statements.flatMap((statement) => statement.Action);
    assert.deepEqual(actions.sort(), ['logs:CreateLogStream', 'logs:PutLogEvents', 'sqs:GetQueueAttributes']);
    assert.ok(statements.every((statement) => statement.Resource !== '*'));
  });
});

/** Runs the check with a queue that has these attributes; CloudFormation's answer. */
async function checked(attributes: Record<string, string> | 'unreadable', requestType = 'Create'): Promise<any> {
  const directory = temporaryDirectory();
  const queue = attributes === 'unreadable' ? 'raise RuntimeError("AccessDenied")' : `return {"Attributes": ${JSON.stringify(attributes)}}`;
  writeFileSync(join(directory, 'boto3.py'), `class C:\n  def get_queue_attributes(self, **_):\n    ${queue}\ndef client(_): return C()\n`);
  let answer = '';
  const server = createServer((request, response) => {
    request.on('data', (chunk) => (answer += chunk)).on('end', () => response.end());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const required = {
    RedrivePolicy: JSON.stringify({ deadLetterTargetArn: DLQ, maxReceiveCount: 1 }),
    VisibilityTimeout: '360',
    MessageRetentionPeriod: '604800',
    MaximumMessageSize: '1048576',
  };
  const event = {
    RequestType: requestType,
    ResponseURL: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    StackId: 'stack',
    RequestId: 'request',
    LogicalResourceId: 'Check',
    ResourceProperties: { QueueUrl: 'https://sqs/orders', Attributes: JSON.stringify(required) },
  };
  const source = new URL('../lib/existing-source-queue.py', import.meta.url).pathname;
  // Without its pauses.
  const run = 'import json,sys,time,runpy; time.sleep = lambda _: None; runpy.run_path(sys.argv[1])["handler"](json.loads(sys.argv[2]), None)';
  const child = spawn('python3', ['-c', run, source, JSON.stringify(event)], {
    env: { ...process.env, PYTHONPATH: directory },
    stdio: 'inherit',
  });
  const [code] = await once(child, 'exit');
  server.close();
  assert.equal(code, 0);
  return JSON.parse(answer);
}

const RIGHT = {
  RedrivePolicy: JSON.stringify({ deadLetterTargetArn: DLQ, maxReceiveCount: 1 }),
  VisibilityTimeout: '900',
  MessageRetentionPeriod: '604800',
  MaximumMessageSize: '1048576',
};

describe('the check at deployment', { skip: spawnSync('python3', ['--version']).status === 0 ? false : 'needs python3' }, () => {
  test('lets a queue pass that has everything', async () => {
    const { Status, PhysicalResourceId, StackId, RequestId, LogicalResourceId } = await checked(RIGHT);
    assert.deepEqual([Status, PhysicalResourceId, StackId, RequestId, LogicalResourceId], ['SUCCESS', 'Check', 'stack', 'request', 'Check']);
  });

  test('says in one sentence what is missing, with the command that sets it', async () => {
    const without = async (change: Record<string, string>): Promise<string> => {
      const { Status, Reason } = await checked({ ...RIGHT, ...change });
      assert.equal(Status, 'FAILED');
      return Reason.replace('The source queue https://sqs/orders lacks what redeliver needs of ', '');
    };
    const command = 'aws sqs set-queue-attributes --queue-url https://sqs/orders --attributes';
    assert.equal(await without({ VisibilityTimeout: '30' }), `VisibilityTimeout: run ${command} '{"VisibilityTimeout": "360"}' and deploy again.`);
    assert.equal(await without({ MaximumMessageSize: '262144' }), `MaximumMessageSize: run ${command} '{"MaximumMessageSize": "1048576"}' and deploy again.`);
    assert.match(await without({ MessageRetentionPeriod: '345600' }), /^MessageRetentionPeriod: run .*"604800"/);
    // Only as much shorter as needed: what is older is deleted.
    assert.match(await without({ MessageRetentionPeriod: '1209600' }), /^MessageRetentionPeriod: run .*"1123200"/);
    assert.equal((await checked({ ...RIGHT, MessageRetentionPeriod: '1000000' })).Status, 'SUCCESS');
    assert.match(await without({ RedrivePolicy: '{}' }), /^RedrivePolicy: run .*redeliver-prod-intermediate-dlq/);
    assert.match(await without({ RedrivePolicy: JSON.stringify({ deadLetterTargetArn: DLQ, maxReceiveCount: '5' }) }), /^RedrivePolicy: /);
    assert.match(await without({ RedrivePolicy: '{}', VisibilityTimeout: '1' }), /^RedrivePolicy and VisibilityTimeout: run /);
  });

  test('refuses a queue with a key that the functions may not use', async () => {
    const { Status, Reason } = await checked({ ...RIGHT, KmsMasterKeyId: 'alias/orders' });
    assert.deepEqual(
      [Status, Reason],
      ['FAILED', 'The source queue https://sqs/orders is encrypted with the key alias/orders: give it as existingSourceQueue.encryptionKey.'],
    );
    assert.equal((await checked({ ...RIGHT, KmsMasterKeyId: 'alias/aws/sqs' })).Status, 'SUCCESS');
  });

  test('refuses a FIFO queue', async () => {
    const { Status, Reason } = await checked({ ...RIGHT, FifoQueue: 'true' });
    assert.deepEqual([Status, Reason], ['FAILED', 'The source queue https://sqs/orders is a FIFO queue, which cannot delay single messages: use a standard queue.']);
  });

  test('answers also when it cannot look, or CloudFormation would wait for an hour', async () => {
    const { Status, Reason } = await checked('unreadable');
    assert.deepEqual([Status, Reason], ['FAILED', 'The attributes of the source queue could not be read: AccessDenied.']);
  });

  test('never stands in the way of a deletion', async () => assert.equal((await checked('unreadable', 'Delete')).Status, 'SUCCESS'));

  test('fits where Lambda takes code inline', () => {
    assert.ok(readFileSync(new URL('../lib/existing-source-queue.py', import.meta.url)).length <= 4096);
  });
});
