import { App, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AsyncRetry, type AsyncRetryProps, Redeliver, type RedeliverProps, RedeliverPropsError } from '../lib/index';
import { fakeBundles, HTTP } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();

/** As from JavaScript, or TypeScript that nobody has checked. */
type Unchecked = Record<string, unknown>;

/** What is said of wrong props, a sentence each. */
function refused(make: (stack: Stack) => unknown): string[] {
  try {
    make(new Stack(new App(), 'Test'));
    return [];
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n');
  }
}

const redeliver = (props: (stack: Stack) => Unchecked): string[] =>
  refused((stack) => new Redeliver(stack, 'Retries', { ...HTTP, bundles, ...props(stack) } as RedeliverProps));
const asyncRetry = (props: (stack: Stack) => Unchecked): string[] =>
  refused((stack) => new AsyncRetry(stack, 'Retries', { functions: [userFunction(stack, 'Report')], bundles, ...props(stack) } as AsyncRetryProps));

const A_TARGET = "give { kind: 'http', url }, { kind: 'lambda', function }, { kind: 'handler', bundle } or { kind: 'function', function }.";

describe('a prop that TypeScript would refuse is refused with one sentence, since tsx and JavaScript do not look', () => {
  const cases: [string, (stack: Stack) => Unchecked, string][] = [
    ['a kind of target that there is not', () => ({ target: { kind: 'https', url: 'https://a.example/' } }), 'target.kind is "https"; use http, lambda, handler or function.'],
    ['a target without a kind', () => ({ target: { url: 'https://a.example/' } }), 'target.kind is missing; use http, lambda, handler or function.'],
    ['a URL as target', () => ({ target: 'https://a.example/' }), `target is a string; ${A_TARGET}`],
    ['no target', () => ({ target: undefined }), `target is missing; ${A_TARGET}`],
    ['a target without a URL', () => ({ target: { kind: 'http' } }), 'target.url is missing; give a string.'],
    ['a target without a function', () => ({ target: { kind: 'lambda' } }), 'target.function is missing; give a Lambda function.'],
    ["a function's ARN", () => ({ target: { kind: 'lambda', function: 'arn:aws:lambda:…' } }), 'target.function is a string; give a Lambda function.'],
    ['a handler without a bundle', () => ({ target: { kind: 'handler' } }), 'target.bundle is missing; give a string.'],
    ['a function of a user without the function', () => ({ target: { kind: 'function' } }), 'target.function is missing; give a Lambda function.'],
    [
      "a URL for a function of a user's own",
      (stack) => ({ target: { kind: 'function', function: userFunction(stack, 'Own'), url: 'https://a.example/' } }),
      'target.url is no prop of a target of kind function; there are kind, function, handlerConcurrency.',
    ],
    ['text for its concurrency', (stack) => ({ target: { kind: 'function', function: userFunction(stack, 'Own'), handlerConcurrency: '5' } }), 'target.handlerConcurrency is a string; give a number.'],
    ["a secret's ARN", () => ({ target: { ...HTTP.target, headersSecret: 'arn:…' } }), 'target.headersSecret is a string; give a secret of Secrets Manager.'],
    ['milliseconds for a Duration', () => ({ target: { ...HTTP.target, timeout: 10_000 } }), 'target.timeout is a number; give a Duration.'],
    [
      "another kind's prop",
      () => ({ target: { kind: 'handler', bundle: bundles, timeout: Duration.seconds(1) } }),
      'target.timeout is no prop of a target of kind handler; there are kind, bundle.',
    ],
    ['a misspelt prop of the target', () => ({ target: { ...HTTP.target, timout: Duration.seconds(1) } }), 'target.timout is no prop of a target of kind http; did you mean target.timeout?'],
    ['a strategy that there is not', () => ({ strategy: 'visible' }), 'strategy is "visible"; use delayed-resend, direct-resend or visibility.'],
    ['a log of what there is not', () => ({ logDetail: 'all' }), 'logDetail is "all"; use batches or messages.'],
    ['a level that there is not', () => ({ logLevel: 'DEBUG' }), 'logLevel is "DEBUG"; use INFO or WARN.'],
    ['an envelope that there is not', () => ({ envelope: 'none' }), 'envelope is "none"; use required or optional.'],
    ['seconds to wait for a batch', () => ({ maxBatchingWindow: 20 }), 'maxBatchingWindow is a number; give a Duration.'],
    ["a queue's ARN", () => ({ existingSourceQueue: 'arn:aws:sqs:eu-west-1:111122223333:orders' }), 'existingSourceQueue is a string; give a queue, or { queueArn }.'],
    ["a queue's URL", () => ({ existingSourceQueue: { queueUrl: 'https://…', queueArn: 'arn:…' } }), 'existingSourceQueue.queueUrl is no prop of existingSourceQueue; did you mean existingSourceQueue.queueArn?'],
    ['a topic for a queue', (stack) => ({ existingSourceQueue: new sns.Topic(stack, 'Topic') }), 'existingSourceQueue is the construct Test/Topic; give a queue, or { queueArn }.'],
    ['a misspelt prop', () => ({ reservedConcurency: 10 }), 'reservedConcurency is no prop of Redeliver; did you mean reservedConcurrency?'],
    ['a misspelt prop that must be there, told once', () => ({ target: undefined, Target: HTTP.target }), 'Target is no prop of Redeliver; did you mean target?'],
    [
      "AsyncRetry's prop",
      () => ({ functions: [] }),
      'functions is no prop of Redeliver; there are stage, encryptionKey, removalPolicy, architecture, bundles, logRetention, logDetail, logLevel, tracing, alarmTopic, target, policy, strategy, ' +
        'longDelays, dataSchema, envelope, messageIdAttribute, messageIdPointer, bodySchema, prefix, existingSourceQueue, maxReceiveCount, sourceRetention, sourceVisibilityTimeout, batchSize, maxBatchingWindow, maxConcurrentCalls, ' +
        'maxConcurrency, reservedConcurrency, timeout, vpc.',
    ],
    ['text for a number', () => ({ maxConcurrency: '10' }), 'maxConcurrency is a string; give a number.'],
    ['text for yes or no', () => ({ longDelays: 'true' }), 'longDelays is a string; give true or false.'],
    ['seconds for a Duration', () => ({ timeout: 60 }), 'timeout is a number; give a Duration.'],
    ['null', () => ({ sourceRetention: null }), 'sourceRetention is null; give a Duration.'],
    ['a number as name', () => ({ stage: 1 }), 'stage is a number; give a string.'],
    ['a policy from a file that nobody has read', () => ({ policy: 'policy.json' }), 'policy is a string; give an object.'],
    ['a list as policy', () => ({ policy: [] }), 'policy is a list; give an object.'],
    ['a policy that is null', () => ({ policy: null }), 'policy is null; give an object.'],
    ["a key's ARN", () => ({ encryptionKey: 'arn:…' }), 'encryptionKey is a string; give a KMS key.'],
    ["a topic's ARN", () => ({ alarmTopic: 'arn:…' }), 'alarmTopic is a string; give an SNS topic.'],
    ['a queue for a topic', (stack) => ({ alarmTopic: new sqs.Queue(stack, 'Queue') }), 'alarmTopic is the construct Test/Queue; give an SNS topic.'],
    ['a snapshot of a queue', () => ({ removalPolicy: RemovalPolicy.SNAPSHOT }), 'removalPolicy is "snapshot"; use retain or destroy.'],
    ['the name of an architecture', () => ({ architecture: 'arm64' }), 'architecture is a string; give lambda.Architecture.ARM_64 or lambda.Architecture.X86_64.'],
    ['days that logs cannot be kept for', () => ({ logRetention: 31 }), 'logRetention is a number; give one of RetentionDays.'],
    ['the name of such days', () => ({ logRetention: 'ONE_MONTH' }), 'logRetention is a string; give one of RetentionDays.'],
    ['a VPC alone', (stack) => ({ vpc: new ec2.Vpc(stack, 'Vpc') }), 'vpc is the construct Test/Vpc; give { vpc }.'],
    [
      "a security group's id",
      (stack) => ({ vpc: { vpc: new ec2.Vpc(stack, 'Vpc'), securityGroups: ['sg-1'] } }),
      'vpc.securityGroups[0] is a string; give a security group.',
    ],
  ];
  for (const [name, props, sentence] of cases) {
    test(name, () => assert.deepEqual(redeliver(props), [sentence]));
  }

  test('all that is wrong is said at once', () => {
    assert.deepEqual(redeliver(() => ({ prefx: 'orders', target: { kind: 'http', url: 1, timeout: 5 }, strategy: 'hide' })), [
      'prefx is no prop of Redeliver; did you mean prefix?',
      'target.url is a number; give a string.',
      'target.timeout is a number; give a Duration.',
      'strategy is "hide"; use delayed-resend, direct-resend or visibility.',
    ]);
  });

  test('no props at all', () => {
    assert.deepEqual(refused((stack) => new Redeliver(stack, 'Retries', undefined as never)), ['props is missing; give { target }.']);
  });

  test('a prop that is undefined is one that was not given', () => {
    assert.deepEqual(redeliver(() => ({ prefix: undefined, timeout: undefined, vpc: undefined })), []);
  });
});

describe("AsyncRetry's props are looked at alike", () => {
  const cases: [string, (stack: Stack) => Unchecked, string][] = [
    ['no functions', () => ({ functions: undefined }), 'functions is missing; give a list of Lambda functions.'],
    ['a function alone', (stack) => ({ functions: userFunction(stack, 'One') }), 'functions is the construct Test/One; give a list of Lambda functions.'],
    ["a function's ARN", () => ({ functions: ['arn:…'] }), 'functions[0] is a string; give a Lambda function.'],
    ['a misspelt prop', () => ({ alarmTopc: 1 }), 'alarmTopc is no prop of AsyncRetry; did you mean alarmTopic?'],
    ['a policy that is text', () => ({ policy: '{}' }), 'policy is a string; give an object.'],
    ['a level that there is not', () => ({ logLevel: 'DEBUG' }), 'logLevel is "DEBUG"; use INFO or WARN.'],
    ['a number as name', () => ({ prefix: 1 }), 'prefix is a number; give a string.'],
  ];
  for (const [name, props, sentence] of cases) {
    test(name, () => assert.deepEqual(asyncRetry(props), [sentence]));
  }

  test('no props at all', () => {
    assert.deepEqual(refused((stack) => new AsyncRetry(stack, 'Retries', undefined as never)), ['props is missing; give { functions }.']);
  });
});
