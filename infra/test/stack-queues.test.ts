import { RemovalPolicy, type Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { SourceQueue, Strategy } from '../lib/index';
import { makeReadable } from './stack-exact';
import { HTTP, namedResource, type Resource, templateWith } from './stack-support';

const SUFFIXES = ['source', 'intermediate-dlq', 'annotation', 'final-dlq'] as const;

function queue(template: Template, suffix: (typeof SUFFIXES)[number]): Resource {
  return namedResource(template, 'AWS::SQS::Queue', 'QueueName', `redeliver-prod-${suffix}`);
}

/** Returns the statements of one queue's policy. */
function statements(template: Template, suffix: string): any[] {
  const queues = template.findResources('AWS::SQS::Queue', { Properties: { QueueName: `redeliver-prod-${suffix}` } });
  const [id] = Object.keys(queues);
  const policies = Object.values(template.findResources('AWS::SQS::QueuePolicy')) as Resource[];
  const ofQueue = policies.filter((policy) => policy.Properties['Queues'][0].Ref === id);
  return ofQueue.flatMap((policy) => policy.Properties['PolicyDocument'].Statement);
}

describe('queues', () => {
  const template = templateWith(() => HTTP);

  test('retention and receive counts are as designed', () => {
    const actual = SUFFIXES.map((suffix) => {
      const { Properties } = queue(template, suffix);
      return [
        suffix,
        Properties['MessageRetentionPeriod'],
        Properties['VisibilityTimeout'],
        Properties['RedrivePolicy']?.maxReceiveCount,
        Properties['MaximumMessageSize'],
        Properties['SqsManagedSseEnabled'],
        Properties['FifoQueue'],
      ];
    });
    assert.deepEqual(actual, [
      ['source', 604_800, 361, 1, 1_048_576, true, undefined],
      ['intermediate-dlq', 1_209_600, 180, 100, 1_048_576, true, undefined],
      ['annotation', 1_209_600, 180, 110, 1_048_576, true, undefined],
      ['final-dlq', 1_209_600, 180, undefined, 1_048_576, true, undefined],
    ]);
  });

  test('each queue admits moves only from its previous queue', () => {
    const actual = SUFFIXES.map((suffix) => {
      const { redrivePermission, sourceQueueArns } = queue(template, suffix).Properties['RedriveAllowPolicy'];
      return [suffix, redrivePermission, JSON.stringify(sourceQueueArns ?? []).match(/:(redeliver-prod-[a-z-]+)"/)?.[1]];
    });
    assert.deepEqual(actual, [
      ['source', 'denyAll', undefined],
      ['intermediate-dlq', 'byQueue', 'redeliver-prod-source'],
      ['annotation', 'byQueue', 'redeliver-prod-intermediate-dlq'],
      ['final-dlq', 'byQueue', 'redeliver-prod-annotation'],
    ]);
  });

  test('all requests require TLS', () => {
    for (const suffix of SUFFIXES) {
      const tls = statements(template, suffix).filter((statement) => statement.Condition?.Bool?.['aws:SecureTransport']);
      assert.equal(tls.length, 1, suffix);
      assert.deepEqual([tls[0].Effect, tls[0].Action, tls[0].Principal], ['Deny', 'sqs:*', { AWS: '*' }]);
    }
  });

  test('only the functions can send to the inner queues', () => {
    const senders = (suffix: string): string[] =>
      statements(template, suffix)
        .filter((statement) => statement.Sid === 'OnlyTheFunctionsSend')
        .flatMap((statement) => {
          assert.deepEqual(
            [statement.Effect, statement.Action, statement.Principal, Object.keys(statement.Condition)],
            ['Deny', 'sqs:SendMessage', { AWS: '*' }, ['ArnNotEquals']],
          );
          return statement.Condition.ArnNotEquals['aws:PrincipalArn'];
        })
        .map((arn) => arn['Fn::GetAtt'][0].replace(/^Retries|Role[0-9A-F]{8}$/g, ''));
    assert.deepEqual(senders('source'), [], 'producers are anybody');
    assert.deepEqual(senders('intermediate-dlq'), ['MessageProcessor']);
    assert.deepEqual(senders('annotation'), ['MessageProcessor', 'FailedMessageProcessor']);
    assert.deepEqual(senders('final-dlq'), ['FinalDlqAnnotator']);
  });

  test('queues outlive the stack, but not a failed first deployment', () => {
    for (const suffix of SUFFIXES) {
      const { DeletionPolicy, UpdateReplacePolicy } = queue(template, suffix);
      assert.deepEqual([DeletionPolicy, UpdateReplacePolicy], ['RetainExceptOnCreate', 'Retain'], suffix);
    }
    const gone = templateWith(() => ({ ...HTTP, removalPolicy: RemovalPolicy.DESTROY }));
    for (const suffix of SUFFIXES) {
      assert.equal(queue(gone, suffix).DeletionPolicy, 'Delete', suffix);
    }
  });

  test('a given key encrypts all four queues, and functions can use it without wildcards', () => {
    const encrypted = templateWith((stack) => ({ ...HTTP, encryptionKey: new kms.Key(stack, 'Key') }));
    for (const suffix of SUFFIXES) {
      const { KmsMasterKeyId, SqsManagedSseEnabled } = queue(encrypted, suffix).Properties;
      assert.match(JSON.stringify(KmsMasterKeyId), /^\{"Fn::GetAtt":\["Key/, suffix);
      assert.equal(SqsManagedSseEnabled, undefined);
    }
    const actions = (Object.values(encrypted.findResources('AWS::IAM::Policy')) as Resource[])
      .flatMap((policy) => policy.Properties['PolicyDocument'].Statement)
      .flatMap((statement) => statement.Action)
      .filter((action: string) => action.startsWith('kms:'));
    assert.deepEqual([...new Set(actions)].sort(), ['kms:Decrypt', 'kms:GenerateDataKey']);
  });

  test("an existing queue's key encrypts the other queues, too, unless another key is given", () => {
    const ARN = 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-00000000000a';
    const QUEUE = 'arn:aws:sqs:eu-west-1:111122223333:orders';
    const key = (stack: Stack): kms.IKey => kms.Key.fromKeyArn(stack, 'QueueKey', ARN);
    const ours = (template: Template): unknown[] =>
      SUFFIXES.slice(1).flatMap((suffix) => Object.values(template.findResources('AWS::SQS::Queue', { Properties: { QueueName: `redeliver-prod-${suffix}` } }))
        .map(({ Properties }) => Properties.KmsMasterKeyId));
    const cases: [string, (stack: Stack) => SourceQueue][] = [
      ['by its ARN', (stack) => SourceQueue.fromArn(QUEUE, { encryptionKey: key(stack) })],
      ['imported', (stack) => SourceQueue.fromQueue(sqs.Queue.fromQueueAttributes(stack, 'Orders', { queueArn: QUEUE, keyArn: ARN }))],
      ['of the stack', (stack) => SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders', { encryptionMasterKey: key(stack) }))],
    ];
    for (const [name, queue] of cases) {
      assert.deepEqual(ours(templateWith((stack) => ({ ...HTTP, existingSourceQueue: queue(stack) }))), [ARN, ARN, ARN], name);
    }
    const [, byArn] = cases[0] ?? assert.fail();
    const hidden = templateWith((stack) => ({ ...HTTP, strategy: Strategy.VISIBILITY, existingSourceQueue: byArn(stack) }));
    assert.deepEqual(ours(hidden), [ARN, ARN]);
    const another = ARN.replace(/a$/, 'b');
    const other = templateWith((stack) => ({
      ...HTTP,
      existingSourceQueue: byArn(stack),
      encryptionKey: kms.Key.fromKeyArn(stack, 'Other', another),
    }));
    assert.deepEqual(ours(other), [another, another, another]);
  });

  test('names start with prefix and stage, so one account can have several deployments', () => {
    const other = templateWith(() => ({ ...HTTP, prefix: 'orders', stage: 'test' }));
    const names = Object.values(other.findResources('AWS::SQS::Queue')).map((found) => found['Properties'].QueueName);
    assert.deepEqual(names.sort(), SUFFIXES.map((suffix) => `orders-test-${suffix}`).sort());
    for (const type of ['AWS::CloudWatch::Alarm', 'AWS::Lambda::Function', 'AWS::CloudWatch::Dashboard']) {
      for (const { Properties } of Object.values(other.findResources(type)) as Resource[]) {
        const name = makeReadable(Properties['AlarmName'] ?? Properties['FunctionName'] ?? Properties['DashboardName']);
        assert.ok(name.startsWith('orders-test'), name);
      }
    }
  });
});
