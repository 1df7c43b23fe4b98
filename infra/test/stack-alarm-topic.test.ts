import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as sns from 'aws-cdk-lib/aws-sns';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AsyncRetry, Redeliver } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { plain, resources } from './stack-exact';
import { fakeBundles, HTTP } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();
const ENV = { account: '111122223333', region: 'eu-west-1' };

/** Two `Redeliver` and an `AsyncRetry` with one topic; `later` is added after them. */
function alarmed(topicOf: (stack: Stack) => sns.ITopic, later: (topic: sns.ITopic) => void = () => {}): Template {
  const stack = new Stack(new App(), 'Test');
  const alarmTopic = topicOf(stack);
  new Redeliver(stack, 'Retries', { ...HTTP, bundles, alarmTopic });
  new Redeliver(stack, 'Second', { ...HTTP, bundles, alarmTopic, stage: 'test' });
  new AsyncRetry(stack, 'Async', { functions: [userFunction(stack, 'Report')], bundles, alarmTopic });
  later(alarmTopic);
  return Template.fromStack(stack);
}

/** All statements of all policies of a type. */
function statements(template: Template, type: string, document: string): unknown[] {
  return Object.values(resources(template, type)).flatMap(({ Properties }) => plain(Properties[document]).Statement);
}

const topicPolicies = (template: Template): unknown[] => statements(template, 'AWS::SNS::TopicPolicy', 'PolicyDocument');

function alarmsOf(account: string, sid: string): object {
  return {
    Sid: sid,
    Effect: 'Allow',
    Principal: { Service: 'cloudwatch.amazonaws.com' },
    Action: 'sns:Publish',
    Resource: '{Topic}',
    Condition: { StringEquals: { 'aws:SourceAccount': account } },
  };
}

const tls = {
  Sid: 'AllowPublishThroughSSLOnly',
  Effect: 'Deny',
  Principal: '*',
  Action: 'sns:Publish',
  Resource: '{Topic}',
  Condition: { Bool: { 'aws:SecureTransport': 'false' } },
};

describe("an alarm topic's policy", () => {
  test('a plain topic keeps the one that SNS gives it, which lets in more than alarms', () => {
    assert.deepEqual(topicPolicies(alarmed((stack) => new sns.Topic(stack, 'Topic'))), []);
  });

  test('one of its own lets alarms in, once', () => {
    const template = alarmed((stack) => new sns.Topic(stack, 'Topic', { enforceSSL: true }));
    assert.deepEqual(topicPolicies(template), [tls, alarmsOf('{AWS::AccountId}', '1')]);
  });

  test('also where the user writes it after the construct', () => {
    const publisher = new iam.PolicyStatement({
      sid: 'Budgets',
      principals: [new iam.ServicePrincipal('budgets.amazonaws.com')],
      actions: ['sns:Publish'],
      resources: ['*'],
    });
    const template = alarmed(
      (stack) => new sns.Topic(stack, 'Topic'),
      (topic) => topic.addToResourcePolicy(publisher),
    );
    assert.deepEqual(topicPolicies(template), [
      { Sid: 'Budgets', Effect: 'Allow', Principal: { Service: 'budgets.amazonaws.com' }, Action: 'sns:Publish', Resource: '*' },
      alarmsOf('{AWS::AccountId}', '1'),
    ]);
  });

  test("an imported topic's is its owner's business", () => {
    const arn = 'arn:aws:sns:eu-west-1:111122223333:alarms';
    assert.deepEqual(topicPolicies(alarmed((stack) => sns.Topic.fromTopicArn(stack, 'Topic', arn))), []);
  });

  test("another account's topic lets the alarms of this one in, which SNS's own policy does not", () => {
    const app = new App();
    const home = new Stack(app, 'Home', { env: { ...ENV, account: '444455556666' } });
    const alarmTopic = new sns.Topic(home, 'Topic', { topicName: 'alarms' });
    new Redeliver(new Stack(app, 'Test', { env: ENV }), 'Retries', { ...HTTP, bundles, alarmTopic });
    assert.deepEqual(topicPolicies(Template.fromStack(home)), [alarmsOf('111122223333', '0')]);
  });
});

describe('an encrypted alarm topic', () => {
  const keyed = (key: (stack: Stack) => kms.IKey) => (stack: Stack): sns.ITopic => new sns.Topic(stack, 'Topic', { masterKey: key(stack) });
  const forAlarms = {
    Effect: 'Allow',
    Principal: { Service: 'cloudwatch.amazonaws.com' },
    Action: ['kms:Decrypt', 'kms:GenerateDataKey*'],
    Resource: '*',
  };
  const owner = { Effect: 'Allow', Principal: { AWS: 'arn:{AWS::Partition}:iam::{AWS::AccountId}:root' }, Action: 'kms:*', Resource: '*' };
  const keyPolicies = (template: Template): unknown[] => statements(template, 'AWS::KMS::Key', 'KeyPolicy');

  test('its key lets alarms in, once, or each would fail to tell it', () => {
    const template = alarmed(keyed((stack) => new kms.Key(stack, 'Key')));
    assert.deepEqual(keyPolicies(template), [owner, forAlarms]);
    assert.deepEqual(topicPolicies(template), []);
  });

  test('also by an alias of the key', () => {
    const template = alarmed(keyed((stack) => new kms.Key(stack, 'Key').addAlias('alarms')));
    assert.deepEqual(keyPolicies(template), [owner, forAlarms]);
  });

  test("an imported key's policy is its owner's business", () => {
    const arn = 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000001';
    assert.deepEqual(keyPolicies(alarmed(keyed((stack) => kms.Key.fromKeyArn(stack, 'Key', arn)))), []);
  });

  test("AWS's own key lets no alarm in and cannot be changed, so it is refused", () => {
    const sentence =
      "alarmTopic is encrypted with AWS's own key (alias/aws/sns), which CloudWatch alarms cannot use and whose policy cannot be changed; " +
      'encrypt it with a customer managed key.';
    const aws = keyed((stack) => kms.Alias.fromAliasName(stack, 'Key', 'alias/aws/sns'));
    const refused = (error: unknown): boolean => error instanceof RedeliverPropsError && error.message === sentence;
    assert.throws(() => alarmed(aws), refused);
    const stack = new Stack(new App(), 'Async');
    const functions = [userFunction(stack, 'Report')];
    assert.throws(() => new AsyncRetry(stack, 'Retries', { functions, bundles, alarmTopic: aws(stack) }), refused);
  });
});

test('a topic of another region is refused: CloudWatch takes none, and the deployment would fail', () => {
  const stack = new Stack(new App(), 'Test', { env: ENV });
  const alarmTopic = sns.Topic.fromTopicArn(stack, 'Topic', 'arn:aws:sns:us-east-1:111122223333:alarms');
  const sentence = 'alarmTopic is a topic of us-east-1, but the alarms are in eu-west-1, and CloudWatch only notifies topics in its own region; use a topic in eu-west-1.';
  const refused = (error: unknown): boolean => error instanceof RedeliverPropsError && error.message === sentence;
  assert.throws(() => new Redeliver(stack, 'Retries', { ...HTTP, bundles, alarmTopic }), refused);
  assert.throws(() => new AsyncRetry(stack, 'Async', { functions: [userFunction(stack, 'Report')], bundles, alarmTopic }), refused);
});
