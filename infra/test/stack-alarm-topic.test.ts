import { Annotations as Noted, App, Stack } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as sns from 'aws-cdk-lib/aws-sns';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AsyncRetry, Redeliver, type RedeliverProps } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { makeReadable, resources } from './stack-exact';
import { fakeBundles, HTTP } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();
const ENV = { account: '111122223333', region: 'eu-west-1' };

/** Creates two `Redeliver` constructs and an `AsyncRetry` with one topic; `later` runs after they are added. */
function createAlarmTemplate(topicOf: (stack: Stack) => sns.ITopic, later: (topic: sns.ITopic) => void = () => {}): Template {
  const stack = new Stack(new App(), 'Test');
  const ticketTopic = topicOf(stack);
  new Redeliver(stack, 'Retries', { ...HTTP, bundles, ticketTopic });
  new Redeliver(stack, 'Second', { ...HTTP, bundles, ticketTopic, stage: 'test' });
  new AsyncRetry(stack, 'Async', { functions: [userFunction(stack, 'Report')], bundles, ticketTopic });
  later(ticketTopic);
  return Template.fromStack(stack);
}

/** Returns the statements of all policies of a type. */
function statements(template: Template, type: string, document: string): unknown[] {
  return Object.values(resources(template, type)).flatMap(({ Properties }) => makeReadable(Properties[document]).Statement);
}

const topicPolicies = (template: Template): unknown[] => statements(template, 'AWS::SNS::TopicPolicy', 'PolicyDocument');

function alarmStatement(account: string, sid: string): object {
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
  test("an unencrypted topic keeps SNS's default policy, which admits more than alarms", () => {
    assert.deepEqual(topicPolicies(createAlarmTemplate((stack) => new sns.Topic(stack, 'Topic'))), []);
  });

  test('its own policy admits alarms, once', () => {
    const template = createAlarmTemplate((stack) => new sns.Topic(stack, 'Topic', { enforceSSL: true }));
    assert.deepEqual(topicPolicies(template), [tls, alarmStatement('{AWS::AccountId}', '1')]);
  });

  test('also if the user adds the policy after the construct', () => {
    const publisher = new iam.PolicyStatement({
      sid: 'Budgets',
      principals: [new iam.ServicePrincipal('budgets.amazonaws.com')],
      actions: ['sns:Publish'],
      resources: ['*'],
    });
    const template = createAlarmTemplate(
      (stack) => new sns.Topic(stack, 'Topic'),
      (topic) => topic.addToResourcePolicy(publisher),
    );
    assert.deepEqual(topicPolicies(template), [
      { Sid: 'Budgets', Effect: 'Allow', Principal: { Service: 'budgets.amazonaws.com' }, Action: 'sns:Publish', Resource: '*' },
      alarmStatement('{AWS::AccountId}', '1'),
    ]);
  });

  test("an imported topic's policy is unchanged", () => {
    const arn = 'arn:aws:sns:eu-west-1:111122223333:alarms';
    assert.deepEqual(topicPolicies(createAlarmTemplate((stack) => sns.Topic.fromTopicArn(stack, 'Topic', arn))), []);
  });

  test("a topic in another account admits this account's alarms, which SNS's default policy does not", () => {
    const app = new App();
    const home = new Stack(app, 'Home', { env: { ...ENV, account: '444455556666' } });
    const ticketTopic = new sns.Topic(home, 'Topic', { topicName: 'alarms' });
    new Redeliver(new Stack(app, 'Test', { env: ENV }), 'Retries', { ...HTTP, bundles, ticketTopic });
    assert.deepEqual(topicPolicies(Template.fromStack(home)), [alarmStatement('111122223333', '0')]);
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

  test('its key admits alarms, once; otherwise each notification would fail', () => {
    const template = createAlarmTemplate(keyed((stack) => new kms.Key(stack, 'Key')));
    assert.deepEqual(keyPolicies(template), [owner, forAlarms]);
    assert.deepEqual(topicPolicies(template), []);
  });

  test('also through an alias of the key', () => {
    const template = createAlarmTemplate(keyed((stack) => new kms.Key(stack, 'Key').addAlias('alarms')));
    assert.deepEqual(keyPolicies(template), [owner, forAlarms]);
  });

  test("an imported key's policy is unchanged", () => {
    const arn = 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000001';
    assert.deepEqual(keyPolicies(createAlarmTemplate(keyed((stack) => kms.Key.fromKeyArn(stack, 'Key', arn)))), []);
  });

  test("an AWS managed key is refused, since it admits no alarm and cannot be changed", () => {
    const sentence =
      "ticketTopic is encrypted with AWS's own key (alias/aws/sns), which CloudWatch alarms cannot use and whose policy cannot be changed; " +
      'encrypt it with a customer managed key.';
    const aws = keyed((stack) => kms.Alias.fromAliasName(stack, 'Key', 'alias/aws/sns'));
    const refused = (error: unknown): boolean => error instanceof RedeliverPropsError && error.message === sentence;
    assert.throws(() => createAlarmTemplate(aws), refused);
    const stack = new Stack(new App(), 'Async');
    const functions = [userFunction(stack, 'Report')];
    assert.throws(() => new AsyncRetry(stack, 'Retries', { functions, bundles, ticketTopic: aws(stack) }), refused);
  });
});

test('a topic of another region is refused, since CloudWatch accepts none', () => {
  const stack = new Stack(new App(), 'Test', { env: ENV });
  const ticketTopic = sns.Topic.fromTopicArn(stack, 'Topic', 'arn:aws:sns:us-east-1:111122223333:alarms');
  const sentence = 'ticketTopic is a topic of us-east-1, but the alarms are in eu-west-1, and CloudWatch only notifies topics in its own region; use a topic in eu-west-1.';
  const refused = (error: unknown): boolean => error instanceof RedeliverPropsError && error.message === sentence;
  assert.throws(() => new Redeliver(stack, 'Retries', { ...HTTP, bundles, ticketTopic }), refused);
  assert.throws(() => new AsyncRetry(stack, 'Async', { functions: [userFunction(stack, 'Report')], bundles, ticketTopic }), refused);
});

describe('notifications', () => {
  /**
   * Returns the alarms by the end of their names, each with the topics that it notifies when it fires and when it
   * clears, and the warnings.
   */
  function collectNotifications(props: (topic: (id: string) => sns.ITopic) => Partial<RedeliverProps>): { alarms: Record<string, string>; warnings: unknown[] } {
    const stack = new Stack(new App(), 'Test');
    new Redeliver(stack, 'Retries', { ...HTTP, bundles, ...props((id) => new sns.Topic(stack, id)) });
    const alarms = Object.values(resources(Template.fromStack(stack), 'AWS::CloudWatch::Alarm')).map(({ Properties }) => {
      const [off = [], over = []] = [Properties['AlarmActions'], Properties['OKActions']].map(makeReadable);
      return [Properties['AlarmName'].replace('redeliver-prod-', ''), `${off.join()}, ${over.join()}`];
    });
    return { alarms: Object.fromEntries(alarms), warnings: Annotations.fromStack(stack).findWarning('*', Match.anyValue()).map(({ entry }) => entry.data) };
  }
  const PAGES = [
    ...['source-queue', 'intermediate-dlq', 'annotation-queue'].map((queue) => `${queue}-waits-too-long`),
    ...['message-processor', 'failed-message-processor', 'final-dlq-annotator'].flatMap((name) => [`${name}-errors`, `${name}-not-confirmed`, `${name}-sees-old-messages`]),
    'all-invalid', 'final-dlq-about-to-expire', 'held-too-long', 'target-down',
  ].sort();
  const TICKETS = [
    'failed-message-processor-throttles', 'final-dlq-annotator-throttles', 'final-dlq-arrivals', 'final-dlq-not-empty', 'intermediate-dlq-backlog',
    'intermediate-dlq-keeps-failing', 'message-processor-throttles', 'moved-by-redrive',
  ];
  const who = (pages: string, tickets: string): Record<string, string> =>
    Object.fromEntries([...PAGES.map((name) => [name, pages]), ...TICKETS.map((name) => [name, tickets])]);
  const silent = (some: number): string =>
    `${some} of 24 alarms have no action: set ticketTopic (the app's alarmTopicArn), or acknowledge this if something else watches them. [ack: @redeliver/cdk:alarmsNotifyNobody]`;

  test('urgent alarms page, all others open a ticket', () => {
    const both = collectNotifications((topic) => ({ pageTopic: topic('Pager'), ticketTopic: topic('Desk') }));
    assert.deepEqual(both, { alarms: who('{Pager}, {Pager}', '{Desk}, {Desk}'), warnings: [] });
  });

  test('a single topic gets all alarms', () => {
    assert.deepEqual(collectNotifications((topic) => ({ ticketTopic: topic('Desk') })), { alarms: who('{Desk}, {Desk}', '{Desk}, {Desk}'), warnings: [] });
  });

  test('without a topic the synth warns', () => {
    assert.deepEqual(collectNotifications(() => ({})), { alarms: who(', ', ', '), warnings: [silent(24)] });
  });

  test('an acknowledged warning is silent', () => {
    const stack = new Stack(new App(), 'Test');
    new Redeliver(stack, 'Retries', { ...HTTP, bundles });
    Noted.of(stack).acknowledgeWarning('@redeliver/cdk:alarmsNotifyNobody');
    assert.deepEqual(Annotations.fromStack(stack).findWarning('*', Match.anyValue()), []);
  });

  test('with only a pager topic the synth lists the alarms without a topic', () => {
    assert.deepEqual(collectNotifications((topic) => ({ pageTopic: topic('Pager') })), { alarms: who('{Pager}, {Pager}', ', '), warnings: [silent(8)] });
  });

  test("notifications of an alarm's end can be disabled", () => {
    const off = collectNotifications((topic) => ({ ticketTopic: topic('Desk'), okActions: false }));
    assert.deepEqual(off, { alarms: who('{Desk}, ', '{Desk}, '), warnings: [] });
  });

  test('without alarms the synth does not warn', () => {
    const alarmSettings = Object.fromEntries([...PAGES, ...TICKETS].map((name) => [name, { enabled: false }]));
    assert.deepEqual(collectNotifications(() => ({ alarmSettings })), { alarms: {}, warnings: [] });
  });
});
