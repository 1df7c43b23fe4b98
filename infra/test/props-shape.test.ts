import { App, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AsyncRetry, type AsyncRetryProps, Backoff, Notify, Redeliver, type RedeliverProps, RetryPolicy, SigV4, SourceQueue, Target } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { fakeBundles, HTTP } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();
const URL = 'https://a.example/';

/** Props as from JavaScript or unchecked TypeScript. */
type Unchecked = Record<string, unknown>;

/** Returns the problems with invalid props, one sentence each. */
function collectProblems(make: (stack: Stack) => unknown): string[] {
  try {
    make(new Stack(new App(), 'Test'));
    return [];
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n');
  }
}

const redeliver = (props: (stack: Stack) => Unchecked): string[] =>
  collectProblems((stack) => new Redeliver(stack, 'Retries', { ...HTTP, bundles, ...props(stack) } as RedeliverProps));
const asyncRetry = (props: (stack: Stack) => Unchecked): string[] =>
  collectProblems((stack) => new AsyncRetry(stack, 'Retries', { functions: [userFunction(stack, 'Report')], bundles, ...props(stack) } as AsyncRetryProps));

const A_TARGET = 'give Target.http(…), Target.httpFromSecret(…), Target.lambdaFunction(…), Target.handler(…) or Target.ownFunction(…).';
const A_POLICY = 'give RetryPolicy.of(…), RetryPolicy.preset(…) or RetryPolicy.fromFile(…).';
const A_QUEUE = 'give SourceQueue.fromQueue(…) or SourceQueue.fromArn(…).';

/** Factories can also be called with wrong types. */
const http: (...given: any[]) => Target = Target.http;
const httpFromSecret: (...given: any[]) => Target = Target.httpFromSecret;
const lambdaFunction: (...given: any[]) => Target = Target.lambdaFunction;
const handler: (...given: any[]) => Target = Target.handler;
const ownFunction: (...given: any[]) => Target = Target.ownFunction;
const fromQueue: (...given: any[]) => SourceQueue = SourceQueue.fromQueue;
const fromArn: (...given: any[]) => SourceQueue = SourceQueue.fromArn;
const notifyTopic: (...given: any[]) => Notify = Notify.topic;
const notifyBus: (...given: any[]) => Notify = Notify.eventBus;
const of: (...given: any[]) => RetryPolicy = RetryPolicy.of;
const exponential: (...given: any[]) => Backoff = Backoff.exponential;
const fixed: (...given: any[]) => Backoff = Backoff.fixed;

describe('a prop of the wrong type is refused with one sentence, since tsx and JavaScript do not check types', () => {
  const cases: [string, (stack: Stack) => Unchecked, string][] = [
    ['a plain object as target', () => ({ target: { kind: 'http', url: 'https://a.example/' } }), `target is an object; ${A_TARGET}`],
    ['a URL as target', () => ({ target: 'https://a.example/' }), `target is a string; ${A_TARGET}`],
    ['no target', () => ({ target: undefined }), `target is missing; ${A_TARGET}`],
    ['a target without a URL', () => ({ target: http() }), 'target.url is missing; give a string.'],
    ['a target without a function', () => ({ target: lambdaFunction() }), 'target.function is missing; give a Lambda function.'],
    ["a function's ARN", () => ({ target: lambdaFunction('arn:aws:lambda:…') }), 'target.function is a string; give a Lambda function.'],
    ['a handler without a bundle', () => ({ target: handler() }), 'target.bundle is missing; give a string.'],
    ['an own-function target without the function', () => ({ target: ownFunction() }), 'target.function is missing; give a Lambda function.'],
    [
      "a URL for a function of a user's own",
      (stack) => ({ target: ownFunction(userFunction(stack, 'Own'), { url: 'https://a.example/' }) }),
      'target.url is not a prop of Target.ownFunction; the props are function, handlerEvent.',
    ],
    ['an unknown event', (stack) => ({ target: ownFunction(userFunction(stack, 'Own'), { handlerEvent: 'message' }) }), 'target.handlerEvent is "message"; use record or batch.'],
    ['a target without a secret', () => ({ target: httpFromSecret() }), 'target.secret is missing; give a secret of Secrets Manager.'],
    [
      'a URL beside the secret that has it',
      (stack) => ({ target: httpFromSecret(new secretsmanager.Secret(stack, 'Hook'), { url: URL }) }),
      'target.url is not a prop of Target.httpFromSecret; the props are secret, sigV4, proxy, errorExcerpt, allowHttp, timeout.',
    ],
    [
      'a service for a signature',
      () => ({ target: http(URL, { sigV4: 'execute-api' }) }),
      'target.sigV4 is a string; give SigV4.functionUrl(…), SigV4.apiGateway(…) or SigV4.vpcLattice(…).',
    ],
    ["an API's id instead of its ARN", () => ({ target: http(URL, { sigV4: SigV4.apiGateway('a1b2c3') }) }), 'target.sigV4 is a string; give an ARN.'],
    ["a secret's ARN", () => ({ target: http(URL, { headersSecret: 'arn:…' }) }), 'target.headersSecret is a string; give a secret of Secrets Manager.'],
    ['milliseconds instead of a Duration', () => ({ target: http(URL, { timeout: 10_000 }) }), 'target.timeout is a number; give a Duration.'],
    [
      "another target's prop",
      () => ({ target: http(URL, { handlerEvent: 'batch' }) }),
      'target.handlerEvent is not a prop of Target.http; the props are url, headersSecret, sigV4, proxy, errorExcerpt, allowHttp, timeout.',
    ],
    ['a misspelt target option', () => ({ target: http(URL, { timout: Duration.seconds(1) }) }), 'target.timout is not a prop of Target.http; did you mean target.timeout?'],
    ["another target's option", () => ({ target: http('http://a.example/', { kind: 'handler', url: URL }) }), 'target.url is http://, which is not encrypted; use https://, or set target.allowHttp: true.'],
    ['an unknown strategy', () => ({ strategy: 'visible' }), 'strategy is "visible"; use delayed-resend, direct-resend, visibility or ordered.'],
    ['an unknown log detail', () => ({ logDetail: 'all' }), 'logDetail is "all"; use batches or messages.'],
    ['an unknown log level', () => ({ logLevel: 'DEBUG' }), 'logLevel is "DEBUG"; use INFO or WARN.'],
    ['an unknown envelope', () => ({ envelope: 'none' }), 'envelope is "none"; use required or optional.'],
    ['seconds as batching window', () => ({ maxBatchingWindow: 20 }), 'maxBatchingWindow is a number; give a Duration.'],
    ["a queue's ARN", () => ({ existingSourceQueue: 'arn:aws:sqs:eu-west-1:111122223333:orders' }), `existingSourceQueue is a string; ${A_QUEUE}`],
    ['a queue', (stack) => ({ existingSourceQueue: new sqs.Queue(stack, 'Queue') }), `existingSourceQueue is the construct Test/Queue; ${A_QUEUE}`],
    ["a queue's ARN instead of a queue", () => ({ existingSourceQueue: fromQueue('arn:aws:sqs:eu-west-1:111122223333:orders') }), 'existingSourceQueue is a string; give a queue, or use SourceQueue.fromArn.'],
    ["an additional queue URL", () => ({ existingSourceQueue: fromArn('arn:…', { queueUrl: 'https://…' }) }), 'existingSourceQueue.queueUrl is not a prop of SourceQueue.fromArn; did you mean existingSourceQueue.queueArn?'],
    ['a topic instead of a queue', (stack) => ({ existingSourceQueue: fromQueue(new sns.Topic(stack, 'Topic')) }), 'existingSourceQueue is the construct Test/Topic; give a queue, or use SourceQueue.fromArn.'],
    ['a misspelt prop', () => ({ reservedConcurency: 10 }), 'reservedConcurency is not a prop of Redeliver; did you mean reservedConcurrency?'],
    ['a misspelt required prop, reported once', () => ({ target: undefined, Target: HTTP.target }), 'Target is not a prop of Redeliver; did you mean target?'],
    [
      "AsyncRetry's prop",
      () => ({ functions: [] }),
      'functions is not a prop of Redeliver; the props are stage, encryptionKey, removalPolicy, architecture, bundles, logRetention, logDetail, logLevel, tracing, logEncryptionKey, ' +
        'environmentEncryptionKey, vpc, ' +
        'ticketTopic, pageTopic, okActions, alarmPreset, alarmSettings, innerConcurrency, innerReservedConcurrency, archive, archivePrefix, archiveOmit, notify, target, policy, strategy, ' +
        'longDelays, dataSchema, envelope, messageIdAttribute, messageIdPointer, bodySchema, prefix, producers, existingSourceQueue, maxReceiveCount, sourceRetention, sourceVisibilityTimeout, batchSize, maxBatchingWindow, maxConcurrentCalls, ' +
        'maxConcurrency, provisionedPollers, reservedConcurrency, memorySize, timeout, dashboard.',
    ],
    ['a string instead of a number', () => ({ maxConcurrency: '10' }), 'maxConcurrency is a string; give a number.'],
    ['a string instead of a boolean', () => ({ longDelays: 'true' }), 'longDelays is a string; give true or false.'],
    ['seconds instead of a Duration', () => ({ timeout: 60 }), 'timeout is a number; give a Duration.'],
    ['null', () => ({ sourceRetention: null }), 'sourceRetention is null; give a Duration.'],
    ['a number as name', () => ({ stage: 1 }), 'stage is a number; give a string.'],
    ["a policy file's path", () => ({ policy: 'policy.json' }), `policy is a string; ${A_POLICY}`],
    ['a plain object as policy', () => ({ policy: { maxAttempts: 3 } }), `policy is an object; ${A_POLICY}`],
    ['a misspelt policy member', () => ({ policy: of({ maxAttemps: 3 }) }), 'policy.maxAttemps is not a prop of RetryPolicy; did you mean policy.maxAttempts?'],
    ['seconds in a policy', () => ({ policy: of({ maxAge: 60 }) }), 'policy.maxAge is a number; give a Duration.'],
    ['seconds in a backoff', () => ({ policy: of({ backoff: fixed(60) }) }), 'policy.backoff.delay is a number; give a Duration.'],
    ['the name of a backoff', () => ({ policy: of({ backoff: 'fixed' }) }), 'policy.backoff is a string; give Backoff.uniform(…), Backoff.exponential(…), Backoff.fixed(…) or Backoff.schedule(…).'],
    ['a backoff without its first delay', () => ({ policy: of({ backoff: exponential({}) }) }), 'policy.backoff.initialDelay is missing; give a Duration.'],
    ['a member of another backoff', () => ({ policy: of({ backoff: fixed(Duration.seconds(1), { rate: 2 }) }) }), 'policy.backoff.rate is not a prop of Backoff.fixed; the props are delay, jitter.'],
    ['the name of a jitter', () => ({ policy: of({ backoff: fixed(Duration.seconds(1), { jitter: 'none' }) }) }), 'policy.backoff.jitter is a string; give Jitter.NONE, Jitter.HALF, Jitter.FULL or Jitter.additive(…).'],
    ['no circuit breaker', () => ({ policy: of({ circuitBreaker: false }) }), 'policy.circuitBreaker is a boolean; give CircuitBreaker.OFF or CircuitBreaker.of(…).'],
    ['a string instead of a list', () => ({ policy: of({ retryable: 'Http.*' }) }), 'policy.retryable is a string; give a list of strings.'],
    ['a list as policy', () => ({ policy: RetryPolicy.fromJson([]) }), 'policy is a list; give an object.'],
    ['a policy that is null', () => ({ policy: RetryPolicy.fromJson(null as never) }), 'policy is null; give an object.'],
    ["a key's ARN", () => ({ encryptionKey: 'arn:…' }), 'encryptionKey is a string; give a KMS key.'],
    ["a topic's ARN", () => ({ ticketTopic: 'arn:…' }), 'ticketTopic is a string; give an SNS topic.'],
    ['a queue instead of a topic', (stack) => ({ pageTopic: new sqs.Queue(stack, 'Queue') }), 'pageTopic is the construct Test/Queue; give an SNS topic.'],
    ['an unknown alarm preset', () => ({ alarmPreset: 'few' }), 'alarmPreset is "few"; use all or essential.'],
    ["a bucket's name", () => ({ archive: 'dead-letters' }), 'archive is a string; give a bucket of S3.'],
    ['a single pointer instead of a list', () => ({ archiveOmit: '/card' }), 'archiveOmit is a string; give a list of strings.'],
    ['a number as pointer', () => ({ archiveOmit: [1] }), 'archiveOmit[0] is a number; give a string.'],
    ['an unwrapped topic', (stack) => ({ notify: new sns.Topic(stack, 'Topic') }), 'notify is the construct Test/Topic; give Notify.topic(…) or Notify.eventBus(…).'],
    ["a topic's ARN for notices", () => ({ notify: notifyTopic('arn:…') }), 'notify.topic is a string; give an SNS topic.'],
    ['a topic instead of a bus', (stack) => ({ notify: notifyBus(new sns.Topic(stack, 'Topic')) }), 'notify.bus is the construct Test/Topic; give an event bus.'],
    ['a string for dashboard', () => ({ dashboard: 'false' }), 'dashboard is a string; give true or false.'],
    ['the removal policy SNAPSHOT', () => ({ removalPolicy: RemovalPolicy.SNAPSHOT }), 'removalPolicy is "snapshot"; use retain or destroy.'],
    ['the name of an architecture', () => ({ architecture: 'arm64' }), 'architecture is a string; give lambda.Architecture.ARM_64 or lambda.Architecture.X86_64.'],
    ['an unsupported log retention', () => ({ logRetention: 31 }), 'logRetention is a number; give one of RetentionDays.'],
    ['the name of a log retention', () => ({ logRetention: 'ONE_MONTH' }), 'logRetention is a string; give one of RetentionDays.'],
    ['an unwrapped VPC', (stack) => ({ vpc: new ec2.Vpc(stack, 'Vpc') }), 'vpc is the construct Test/Vpc; give { vpc }.'],
    [
      "a security group's id",
      (stack) => ({ vpc: { vpc: new ec2.Vpc(stack, 'Vpc'), securityGroups: ['sg-1'] } }),
      'vpc.securityGroups[0] is a string; give a security group.',
    ],
  ];
  for (const [name, props, sentence] of cases) {
    test(name, () => assert.deepEqual(redeliver(props), [sentence]));
  }

  test('all errors are reported together', () => {
    assert.deepEqual(redeliver(() => ({ prefx: 'orders', target: http(1, { timeout: 5 }), strategy: 'hide' })), [
      'prefx is not a prop of Redeliver; did you mean prefix?',
      'target.url is a number; give a string.',
      'target.timeout is a number; give a Duration.',
      'strategy is "hide"; use delayed-resend, direct-resend, visibility or ordered.',
    ]);
  });

  test('missing props', () => {
    assert.deepEqual(collectProblems((stack) => new Redeliver(stack, 'Retries', undefined as never)), ['props is missing; give { target }.']);
  });

  test('an undefined prop counts as absent', () => {
    assert.deepEqual(redeliver(() => ({ prefix: undefined, timeout: undefined, vpc: undefined })), []);
  });
});

describe("AsyncRetry's props are checked in the same way", () => {
  const cases: [string, (stack: Stack) => Unchecked, string][] = [
    ['no functions', () => ({ functions: undefined }), 'functions is missing; give a list of Lambda functions.'],
    ['a single function instead of a list', (stack) => ({ functions: userFunction(stack, 'One') }), 'functions is the construct Test/One; give a list of Lambda functions.'],
    ["a function's ARN", () => ({ functions: ['arn:…'] }), 'functions[0] is a string; give a Lambda function.'],
    ['a misspelt prop', () => ({ ticketTopc: 1 }), 'ticketTopc is not a prop of AsyncRetry; did you mean ticketTopic?'],
    ['a policy as a string', () => ({ policy: '{}' }), `policy is a string; ${A_POLICY}`],
    ['an unknown log level', () => ({ logLevel: 'DEBUG' }), 'logLevel is "DEBUG"; use INFO or WARN.'],
    ['a number as name', () => ({ prefix: 1 }), 'prefix is a number; give a string.'],
  ];
  for (const [name, props, sentence] of cases) {
    test(name, () => assert.deepEqual(asyncRetry(props), [sentence]));
  }

  test('missing props', () => {
    assert.deepEqual(collectProblems((stack) => new AsyncRetry(stack, 'Retries', undefined as never)), ['props is missing; give { functions }.']);
  });
});
