import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import type { Stack } from 'aws-cdk-lib';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { Producer, type RedeliverProps, SourceQueue } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { makeReadable, resources } from './stack-exact';
import { HTTP, stackWith } from './stack-support';

// docs/producers.md shows this code.
const producers = [
  Producer.principal('444455556666'),
  Producer.principal('arn:aws:iam::777788889999:role/shop'),
  Producer.topic('arn:aws:sns:eu-west-1:444455556666:orders'),
  Producer.bucket('arn:aws:s3:::uploads', '444455556666'),
  Producer.rule('arn:aws:events:eu-west-1:111122223333:rule/order-placed'),
];

const ACCOUNT = '444455556666';
const TOPIC = 'arn:aws:sns:eu-west-1:444455556666:orders';
const [BUCKET, RULE] = ['arn:aws:s3:::uploads', 'arn:aws:events:eu-west-1:111122223333:rule/order-placed'];
const PRINCIPALS = { AWS: [ACCOUNT, 'arn:aws:iam::777788889999:role/shop'] };
const FROM_TOPIC = { ArnEquals: { 'aws:SourceArn': TOPIC } };

function createStack(props: (stack: Stack) => Partial<RedeliverProps>): { stack: Stack; template: Template } {
  const { stack } = stackWith((its) => ({ ...HTTP, producers, ...props(its) }));
  return { stack, template: Template.fromStack(stack) };
}

/** Returns the `Allow` statements of a policy, except the account's own. */
function allowStatements(document: any): unknown[] {
  const statements: any[] = makeReadable(document).Statement;
  return statements
    .filter(({ Effect, Action }) => Effect === 'Allow' && Action !== 'kms:*')
    .map(({ Sid, Principal, Action, Condition }) => [Sid, Principal, Action, Condition]);
}

const TO_THE_QUEUE = [
  ['ProducersSend', PRINCIPALS, 'sqs:SendMessage', undefined],
  [undefined, { Service: 'sns.amazonaws.com' }, 'sqs:SendMessage', FROM_TOPIC],
  [undefined, { Service: 's3.amazonaws.com' }, 'sqs:SendMessage', { ArnEquals: { 'aws:SourceArn': BUCKET }, StringEquals: { 'aws:SourceAccount': ACCOUNT } }],
  [undefined, { Service: 'events.amazonaws.com' }, 'sqs:SendMessage', { ArnEquals: { 'aws:SourceArn': RULE } }],
];

const KMS = ['kms:Decrypt', 'kms:GenerateDataKey'];
const TO_THE_KEY = [
  ['ProducersSend', PRINCIPALS, KMS, undefined],
  [undefined, { Service: 'sns.amazonaws.com' }, KMS, FROM_TOPIC],
  [undefined, { Service: ['events.amazonaws.com', 's3.amazonaws.com'] }, KMS, undefined],
];

test('each producer can send only to the source queue, and a service only for its topic, bucket or rule', () => {
  const { template } = createStack(() => ({}));
  const policies = Object.values(resources(template, 'AWS::SQS::QueuePolicy'));
  const open = policies.map(({ Properties }) => [makeReadable(Properties['Queues']), allowStatements(Properties['PolicyDocument'])]).filter(([, statements]) => (statements as unknown[]).length > 0);
  assert.deepEqual(open, [[['{SourceQueue}'], TO_THE_QUEUE]]);
});

test("the app's own key admits the producers, and SNS only for its topic", () => {
  const { stack, template } = createStack((its) => ({ encryptionKey: new kms.Key(its, 'Key') }));
  const [key, ...others] = Object.values(resources(template, 'AWS::KMS::Key'));
  assert.equal(others.length, 0);
  assert.deepEqual(allowStatements(key?.Properties['KeyPolicy']), TO_THE_KEY);
  Annotations.fromStack(stack).hasNoWarning('*', Match.stringLikeRegexp('cannot change the policy'));
});

test("an imported key is unchanged, and the warning lists the statements it needs", () => {
  const { stack } = createStack((its) => ({ encryptionKey: kms.Key.fromKeyArn(its, 'Key', 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000001') }));
  const [warning, ...others] = Annotations.fromStack(stack).findWarning('*', Match.stringLikeRegexp('cannot change the policy'));
  assert.equal(others.length, 0);
  const [, json = ''] = /add to it: (\[.*\]) \[ack/.exec(String(warning?.entry.data)) ?? [];
  assert.deepEqual(JSON.parse(json).map(({ Principal, Condition }: any) => [Object.keys(Principal), Condition]), [
    [['AWS'], undefined],
    [['Service'], FROM_TOPIC],
    [['Service'], undefined],
    [['Service'], undefined],
  ]);
});

test('a producer that no policy can admit is refused', () => {
  const refused = (props: Partial<RedeliverProps>): string => {
    try {
      stackWith(() => ({ ...HTTP, ...props }));
    } catch (error) {
      assert.ok(error instanceof RedeliverPropsError, String(error));
      return error.message;
    }
    return '';
  };
  const cases: [Producer, string][] = [
    [Producer.principal('*'), 'producers[0] (Producer.principal) has principal "*"; give an account id or the ARN of a role or user, without *.'],
    [Producer.topic(BUCKET), `producers[0] (Producer.topic) has topicArn "${BUCKET}"; give the ARN of a topic.`],
    [Producer.bucket('uploads', ACCOUNT), 'producers[0] (Producer.bucket) has bucketArn "uploads"; give the ARN of a bucket.'],
    [Producer.bucket(BUCKET, 'shop'), 'producers[0] (Producer.bucket) has account "shop"; give an account id of 12 digits.'],
    [Producer.rule('order-placed'), 'producers[0] (Producer.rule) has ruleArn "order-placed"; give the ARN of a rule.'],
  ];
  for (const [producer, sentence] of cases) {
    assert.equal(refused({ producers: [producer] }), sentence);
  }
  assert.equal(
    refused({ producers, existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders') }),
    'producers cannot be set with existingSourceQueue; remove it, and add the statements of docs/producers.md to the policy of that queue.',
  );
  assert.match(refused({ producers: ['444455556666'] as unknown as Producer[] }), /^producers\[0\] is a string; give Producer\.principal\(…\), Producer\.topic\(…\), /);
});

test("the statements in examples/producers equal the construct's", () => {
  const read = (name: string): any[] => JSON.parse(readFileSync(join(__dirname, `../../examples/producers/${name}.json`), 'utf8'));
  const [queue, key] = [read('queue-policy'), read('key-policy')];
  const facts = (statements: any[]): unknown[] => statements.map(({ Sid, Principal, Action, Condition }) => [Sid, Principal, Action, Condition]);
  assert.deepEqual([facts(queue), facts(key)], [TO_THE_QUEUE, TO_THE_KEY]);
  assert.ok(queue.every(({ Effect, Resource }) => Effect === 'Allow' && Resource === 'arn:aws:sqs:eu-west-1:111122223333:orders'));
  assert.ok(key.every(({ Effect, Resource }) => Effect === 'Allow' && Resource === '*'));
});
