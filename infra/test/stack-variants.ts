import { App, Duration, Stack, Validations } from 'aws-cdk-lib';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as events from 'aws-cdk-lib/aws-events';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { AsyncRetry, Envelope, LogDetail, LogLevel, Notify, Redeliver, type RedeliverProps, RetryPolicy, SourceQueue, Strategy, Target } from '../lib/index';
import { cdkJson } from './fakes';

/** Stacks that together cover everything, with the props of `Redeliver`. */
const VARIANTS: Record<string, (stack: Stack) => RedeliverProps> = {
  http: (stack) => ({
    target: Target.http('https://orders.example.com/hook', { headersSecret: secretsmanager.Secret.fromSecretCompleteArn(
        stack,
        'Secret',
        'arn:aws:secretsmanager:eu-west-1:111122223333:secret:headers-AbCdEf',
      ) }),
  }),
  lambda: (stack) => ({
    target: Target.lambdaFunction(lambda.Function.fromFunctionArn(stack, 'Target', 'arn:aws:lambda:eu-west-1:111122223333:function:orders')),
    encryptionKey: kms.Key.fromKeyArn(stack, 'Key', 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000001'),
    ticketTopic: sns.Topic.fromTopicArn(stack, 'Topic', 'arn:aws:sns:eu-west-1:111122223333:alarms'),
    vpc: {
      vpc: ec2.Vpc.fromVpcAttributes(stack, 'Vpc', {
        vpcId: 'vpc-0123456789abcdef0',
        availabilityZones: ['eu-west-1a', 'eu-west-1b'],
        privateSubnetIds: ['subnet-0123456789abcdef0', 'subnet-0123456789abcdef1'],
        privateSubnetRouteTableIds: ['rtb-0123456789abcdef0', 'rtb-0123456789abcdef1'],
      }),
    },
  }),
  'long-delays': (stack) => ({
    target: Target.http('https://orders.example.com/hook'),
    longDelays: true,
    policy: RetryPolicy.fromJson({ preset: 'durable_default', immediate: { max_attempts: 2, delay_ms: 100 } }),
    encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
    reservedConcurrency: 10,
    ticketTopic: new sns.Topic(stack, 'Topic', {
      enforceSSL: true,
      masterKey: new kms.Key(stack, 'TopicKey', { enableKeyRotation: true }),
    }),
  }),
  'direct-resend': (stack) => ({
    target: Target.http('https://orders.example.com/hook'),
    strategy: Strategy.DIRECT_RESEND,
    encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
    logEncryptionKey: new kms.Key(stack, 'LogKey', { enableKeyRotation: true }),
    provisionedPollers: { minimum: 2, maximum: 4 },
    memorySize: 512,
    innerConcurrency: 20,
    innerReservedConcurrency: 20,
    alarmSettings: { 'target-down': { enabled: false } },
    maxBatchingWindow: Duration.seconds(20),
    logDetail: LogDetail.MESSAGES,
    logLevel: LogLevel.WARN,
    tracing: false,
  }),
  'direct-resend-existing-queue': () => ({
    target: Target.http('https://orders.example.com/hook'),
    strategy: Strategy.DIRECT_RESEND,
    existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders'),
  }),
  archive: (stack) => ({
    target: Target.http('https://orders.example.com/hook'),
    archive: new s3.Bucket(stack, 'Archive', { enforceSSL: true, encryptionKey: new kms.Key(stack, 'ArchiveKey', { enableKeyRotation: true }), serverAccessLogsPrefix: 'logs/' }),
    archivePrefix: 'redeliver',
    archiveOmit: ['/customer/email', '/card'],
    notify: Notify.topic(new sns.Topic(stack, 'Notices', { enforceSSL: true, masterKey: new kms.Key(stack, 'NoticesKey', { enableKeyRotation: true }) })),
  }),
  'archive-elsewhere': (stack) => ({
    target: Target.http('https://orders.example.com/hook'),
    strategy: Strategy.DIRECT_RESEND,
    archive: s3.Bucket.fromBucketName(stack, 'Archive', 'dead-letters-of-the-shop'),
    notify: Notify.eventBus(events.EventBus.fromEventBusArn(stack, 'Bus', 'arn:aws:events:eu-west-1:111122223333:event-bus/ops')),
  }),
  visibility: (stack) => ({
    target: Target.http('https://orders.example.com/hook'),
    strategy: Strategy.VISIBILITY,
    encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
  }),
  'visibility-existing-queue': () => ({
    target: Target.http('https://orders.example.com/hook'),
    strategy: Strategy.VISIBILITY,
    existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders'),
  }),
  ordered: (stack) => ({
    target: Target.http('https://orders.example.com/hook'),
    strategy: Strategy.ORDERED,
    encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
  }),
  'ordered-existing-queue': () => ({
    target: Target.http('https://orders.example.com/hook'),
    strategy: Strategy.ORDERED,
    existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders.fifo'),
  }),
  'existing-queue': () => ({
    target: Target.http('https://orders.example.com/hook'),
    existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders'),
  }),
  'queue-of-the-stack': (stack) => ({
    target: Target.http('https://orders.example.com/hook'),
    existingSourceQueue: SourceQueue.fromQueue(new sqs.Queue(stack, 'Orders', { enforceSSL: true, encryption: sqs.QueueEncryption.SQS_MANAGED })),
  }),
  'existing-queue-with-keys': (stack) => ({
    target: Target.http('https://orders.example.com/hook'),
    encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
    existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders', { encryptionKey: kms.Key.fromKeyArn(
        stack,
        'QueueKey',
        'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000002',
      ) }),
  }),
  // Replaces the message-processor.
  function: (stack) => ({
    target: Target.ownFunction(ownFunction(stack)),
    encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
    longDelays: true,
    envelope: Envelope.OPTIONAL,
    messageIdPointer: '/detail/id',
  }),
  'function-direct-resend': (stack) => ({ target: Target.ownFunction(ownFunction(stack)), strategy: Strategy.DIRECT_RESEND }),
  'function-ordered': (stack) => ({ target: Target.ownFunction(ownFunction(stack)), strategy: Strategy.ORDERED }),
  'function-visibility': (stack) => ({ target: Target.ownFunction(ownFunction(stack)), strategy: Strategy.VISIBILITY }),
};

function ownFunction(stack: Stack): lambda.Function {
  const own = userFunction(stack, 'Orders', { timeout: Duration.seconds(60), architecture: lambda.Architecture.ARM_64 });
  acknowledgeUserFindings(own, 'Redeliver');
  return own;
}

/** The variant without a `Redeliver`. */
const ASYNC = 'async-retry';

export const VARIANT_NAMES: readonly string[] = [...Object.keys(VARIANTS), ASYNC];

/** Creates a minimal user function. */
export function userFunction(scope: Construct, id: string, props: Partial<lambda.FunctionProps> = {}): lambda.Function {
  return new lambda.Function(scope, id, {
    runtime: lambda.Runtime.PYTHON_3_14,
    handler: 'index.handler',
    code: lambda.Code.fromInline('def handler(event, context): pass'),
    ...props,
  });
}

export function variant(name: string, bundles: string): { app: App; stack: Stack } {
  const app = new App({ context: cdkJson().context });
  const stack = new Stack(app, name);
  if (name === ASYNC) {
    const functions = [userFunction(stack, 'Report'), userFunction(stack, 'Invoice')];
    const ticketTopic = sns.Topic.fromTopicArn(stack, 'Topic', 'arn:aws:sns:eu-west-1:111122223333:alarms');
    const encryptionKey = new kms.Key(stack, 'Key', { enableKeyRotation: true });
    functions.forEach((own) => acknowledgeUserFindings(own, 'AsyncRetry'));
    new AsyncRetry(stack, 'Retries', { functions, bundles, encryptionKey, ticketTopic });
    return { app, stack };
  }
  const props = VARIANTS[name]?.(stack);
  if (props === undefined) {
    throw new Error(`no variant ${name}`);
  }
  new Redeliver(stack, 'Retries', { bundles, ...props });
  return { app, stack };
}

/** Acknowledges the cdk-nag findings on the user's own function. */
function acknowledgeUserFindings(target: lambda.Function, by: string): void {
  const reason = `A user's function, as the CDK makes it: it is there to be changed by ${by}.`;
  Validations.of(target).acknowledge({ id: 'AwsSolutions-L1', reason });
  const basic = 'arn:<AWS::Partition>:iam::aws:policy/service-role/AWSLambdaBasicExecutionRole';
  Validations.of(target).acknowledge({ id: `AwsSolutions-IAM4[Policy::${basic}]`, reason });
}
