import { RemovalPolicy } from 'aws-cdk-lib';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';

import { Envelope, HandlerEvent, LogDetail, LogLevel } from './choices';
import type { SourceQueueOptions } from './existing-queue';
import { policy } from './policy-shape';
import type { AlarmSetting, AsyncRetryProps, CommonProps, ProvisionedPollers, RedeliverProps, VpcPlacement } from './props';
import { duration, flag, having, isPlain, listOf, made, members, needed, number, object, oneOf, type Shape, such, text } from './shape';
import { Strategy } from './strategy/index';
import type { GivenTarget } from './target';

/** Each removal policy by its name. */
export const REMOVAL_POLICIES = { retain: RemovalPolicy.RETAIN, destroy: RemovalPolicy.DESTROY } as const;

const key = having('keyArn', 'a KMS key');
const lambdaFunction = having('functionArn', 'a Lambda function');

const COMMON = {
  stage: text,
  encryptionKey: key,
  removalPolicy: oneOf(Object.keys(REMOVAL_POLICIES)),
  architecture: having('dockerPlatform', 'lambda.Architecture.ARM_64 or lambda.Architecture.X86_64'),
  bundles: text,
  logRetention: such((value) => typeof value === 'number' && value in RetentionDays, 'one of RetentionDays'),
  logDetail: oneOf(Object.values(LogDetail)),
  logLevel: oneOf(Object.values(LogLevel)),
  tracing: flag,
  logEncryptionKey: key,
  alarmTopic: having('topicArn', 'an SNS topic'),
  alarmSettings,
  innerReservedConcurrency: number,
} satisfies Shape<CommonProps>;

/** What {@link Target} makes, without its kind. */
const TARGETS = {
  http: { url: needed(text), headersSecret: having('secretArn', 'a secret of Secrets Manager'), allowHttp: flag, timeout: duration },
  lambda: { function: needed(lambdaFunction), timeout: duration },
  handler: { bundle: needed(text) },
  function: { function: needed(lambdaFunction), handlerEvent: oneOf(Object.values(HandlerEvent)) },
} satisfies { [K in GivenTarget['kind']]: Shape<Omit<Extract<GivenTarget, { kind: K }>, 'kind'>> };
const FACTORIES = { http: 'Target.http', lambda: 'Target.lambdaFunction', handler: 'Target.handler', function: 'Target.ownFunction' };

const POLLERS = { minimum: number, maximum: number } satisfies Shape<ProvisionedPollers>;

const ALARM = { enabled: flag, threshold: number } satisfies Shape<AlarmSetting>;

const VPC = {
  vpc: needed(having('vpcId', 'a VPC')),
  subnets: object, // The CDK's own.
  securityGroups: listOf(having('securityGroupId', 'a security group'), 'a list of security groups'),
} satisfies Shape<VpcPlacement>;

const ELSEWHERE = { queueArn: needed(text), encryptionKey: key } satisfies Shape<{ queueArn: string } & SourceQueueOptions>;

const REDELIVER = {
  ...COMMON,
  target: needed(target),
  policy,
  strategy: oneOf(Object.values(Strategy)),
  longDelays: flag,
  dataSchema: text,
  envelope: oneOf(Object.values(Envelope)),
  messageIdAttribute: text,
  messageIdPointer: text,
  bodySchema: text,
  prefix: text,
  existingSourceQueue,
  maxReceiveCount: number,
  sourceRetention: duration,
  sourceVisibilityTimeout: duration,
  batchSize: number,
  maxBatchingWindow: duration,
  maxConcurrentCalls: number,
  maxConcurrency: number,
  provisionedPollers: members(POLLERS, 'provisionedPollers'),
  reservedConcurrency: number,
  memorySize: number,
  timeout: duration,
  vpc: members(VPC, 'vpc'),
} satisfies Shape<RedeliverProps>;

const ASYNC_RETRY = {
  ...COMMON,
  functions: needed(listOf(lambdaFunction, 'a list of Lambda functions')),
  policy,
  prefix: text,
} satisfies Shape<AsyncRetryProps>;

/** What TypeScript would refuse in the props of `Redeliver`: tsx does not look, and JavaScript cannot. */
export function redeliverShapeProblems(props: unknown): string[] {
  return members(REDELIVER, 'Redeliver')(props, '');
}

/** The same of `AsyncRetry`. */
export function asyncRetryShapeProblems(props: unknown): string[] {
  return members(ASYNC_RETRY, 'AsyncRetry')(props, '');
}

/** By the alarms' names. */
function alarmSettings(value: unknown, name: string): string[] {
  return isPlain(value)
    ? Object.entries(value).flatMap(([alarm, setting]) => members(ALARM, 'alarmSettings')(setting, `${name}.${alarm}`))
    : object(value, name);
}

function target(value: unknown, name: string): string[] {
  return made(Object.values(FACTORIES).map((factory) => `${factory}(…)`), (given: GivenTarget) => {
    const { kind, ...rest } = given;
    return members(TARGETS[kind], FACTORIES[kind])(rest, name);
  })(value, name);
}

function existingSourceQueue(value: unknown, name: string): string[] {
  return made(['SourceQueue.fromQueue(…)', 'SourceQueue.fromArn(…)'], (given: unknown) =>
    isPlain(given)
      ? members(ELSEWHERE, 'SourceQueue.fromArn')(given, name)
      : having('queueUrl', 'a queue, or use SourceQueue.fromArn')(given, name),
  )(value, name);
}
