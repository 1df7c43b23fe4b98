import { RemovalPolicy, Token } from 'aws-cdk-lib';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';

import { AlarmPreset, Envelope, HandlerEvent, LogDetail, LogLevel, Strategy } from './choices';
import type { SourceQueueOptions } from './existing-queue';
import type { GivenNotify } from './notify';
import { policy } from './policy-shape';
import type { GivenProducer } from './producers';
import type { AlarmSetting, AsyncRetryProps, CommonProps, ProvisionedPollers, RedeliverProps, VpcPlacement } from './props';
import { duration, flag, fromFactory, isPlain, listOf, members, needed, number, object, oneOf, satisfying, type Shape, text, withMember } from './shape';
import type { GivenSigV4 } from './sigv4';
import type { GivenTarget, HttpCallOptions } from './target';

/** Removal policies by name. */
export const REMOVAL_POLICIES = { retain: RemovalPolicy.RETAIN, destroy: RemovalPolicy.DESTROY } as const;

const key = withMember('keyArn', 'a KMS key');
const topic = withMember('topicArn', 'an SNS topic');
const bucket = withMember('bucketArn', 'a bucket of S3');
const lambdaFunction = withMember('functionArn', 'a Lambda function');

const VPC = {
  vpc: needed(withMember('vpcId', 'a VPC')),
  subnets: object, // The CDK checks its members.
  securityGroups: listOf(withMember('securityGroupId', 'a security group'), 'a list of security groups'),
} satisfies Shape<VpcPlacement>;

const COMMON = {
  stage: text,
  encryptionKey: key,
  removalPolicy: oneOf(Object.keys(REMOVAL_POLICIES)),
  architecture: withMember('dockerPlatform', 'lambda.Architecture.ARM_64 or lambda.Architecture.X86_64'),
  bundles: text,
  logRetention: satisfying((value) => typeof value === 'number' && value in RetentionDays, 'one of RetentionDays'),
  logDetail: oneOf(Object.values(LogDetail)),
  logLevel: oneOf(Object.values(LogLevel)),
  tracing: flag,
  logEncryptionKey: key,
  environmentEncryptionKey: key,
  vpc: members(VPC, 'vpc'),
  ticketTopic: topic,
  pageTopic: topic,
  okActions: flag,
  alarmPreset: oneOf(Object.values(AlarmPreset)),
  alarmSettings,
  innerConcurrency: number,
  innerReservedConcurrency: number,
  archive: bucket,
  archivePrefix: text,
  archiveOmit: listOf(text, 'a list of strings'),
  notify,
} satisfies Shape<CommonProps>;

const secret = withMember('secretArn', 'a secret of Secrets Manager');
const HTTP_CALL = { sigV4, proxy: text, errorExcerpt: listOf(text, 'a list of strings'), allowHttp: flag, timeout: duration } satisfies Shape<HttpCallOptions>;

/** The members of each kind of {@link Target}. */
const TARGETS = {
  http: { url: needed(text), headersSecret: secret, ...HTTP_CALL },
  httpFromSecret: { secret: needed(secret), ...HTTP_CALL },
  lambda: { function: needed(lambdaFunction), timeout: duration, tenantIsolation: flag, durable: flag },
  handler: { bundle: needed(text) },
  function: { function: needed(lambdaFunction), handlerEvent: oneOf(Object.values(HandlerEvent)) },
} satisfies { [K in GivenTarget['kind']]: Shape<Omit<Extract<GivenTarget, { kind: K }>, 'kind'>> };
const FACTORIES = { http: 'Target.http', httpFromSecret: 'Target.httpFromSecret', lambda: 'Target.lambdaFunction', handler: 'Target.handler', function: 'Target.ownFunction' };

/** The members of each kind of {@link Notify}. */
const NOTIFY = {
  topic: { topic: needed(topic) },
  eventBus: { bus: needed(withMember('eventBusArn', 'an event bus')) },
} satisfies { [K in GivenNotify['kind']]: Shape<Omit<Extract<GivenNotify, { kind: K }>, 'kind'>> };

/** The members of each kind of {@link Producer}. */
const PRODUCERS = {
  principal: { principal: needed(text) },
  topic: { topicArn: needed(text) },
  bucket: { bucketArn: needed(text), account: needed(text) },
  rule: { ruleArn: needed(text) },
} satisfies { [K in GivenProducer['kind']]: Shape<Omit<Extract<GivenProducer, { kind: K }>, 'kind'>> };

const POLLERS = { minimum: number, maximum: needed(number) } satisfies Shape<ProvisionedPollers>;

const ALARM = { enabled: flag, threshold: number } satisfies Shape<AlarmSetting>;

const QUEUE_BY_ARN = { queueArn: needed(text), encryptionKey: key } satisfies Shape<{ queueArn: string } & SourceQueueOptions>;

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
  producers: listOf(producer, 'a list of Producer'),
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
  dashboard: flag,
} satisfies Shape<RedeliverProps>;

const ASYNC_RETRY = {
  ...COMMON,
  functions: needed(listOf(lambdaFunction, 'a list of Lambda functions')),
  policy,
  prefix: text,
} satisfies Shape<AsyncRetryProps>;

/** Returns type errors in the props of `Redeliver`, which tsx and JavaScript do not check. */
export function redeliverShapeProblems(props: unknown): string[] {
  return members(REDELIVER, 'Redeliver')(props, '');
}

/** Returns type errors in the props of `AsyncRetry`. */
export function asyncRetryShapeProblems(props: unknown): string[] {
  return members(ASYNC_RETRY, 'AsyncRetry')(props, '');
}

/** Checks the settings of each alarm. */
function alarmSettings(value: unknown, name: string): string[] {
  return isPlain(value)
    ? Object.entries(value).flatMap(([alarm, setting]) => members(ALARM, 'alarmSettings')(setting, `${name}.${alarm}`))
    : object(value, name);
}

function target(value: unknown, name: string): string[] {
  return fromFactory(Object.values(FACTORIES).map((factory) => `${factory}(…)`), (given: GivenTarget) => {
    const { kind, ...rest } = given;
    return members(TARGETS[kind], FACTORIES[kind])(rest, name);
  })(value, name);
}

function producer(value: unknown, name: string): string[] {
  const factory = (kind: string): string => `Producer.${kind}`;
  return fromFactory(Object.keys(PRODUCERS).map((kind) => `${factory(kind)}(…)`), ({ kind, ...rest }: GivenProducer) =>
    members(PRODUCERS[kind], factory(kind))(rest, name),
  )(value, name);
}

function notify(value: unknown, name: string): string[] {
  const factory = (kind: string): string => `Notify.${kind}`;
  return fromFactory(Object.keys(NOTIFY).map((kind) => `${factory(kind)}(…)`), ({ kind, ...rest }: GivenNotify) =>
    members(NOTIFY[kind], factory(kind))(rest, name),
  )(value, name);
}

function sigV4(value: unknown, name: string): string[] {
  const factories = ['SigV4.functionUrl(…)', 'SigV4.apiGateway(…)', 'SigV4.vpcLattice(…)'];
  return fromFactory(factories, ({ resource }: GivenSigV4) => arn(resource, name))(value, name);
}

const arn = satisfying((value) => typeof value === 'string' && (Token.isUnresolved(value) || value.startsWith('arn:')), 'an ARN');

function existingSourceQueue(value: unknown, name: string): string[] {
  return fromFactory(['SourceQueue.fromQueue(…)', 'SourceQueue.fromArn(…)'], (given: unknown) =>
    isPlain(given)
      ? members(QUEUE_BY_ARN, 'SourceQueue.fromArn')(given, name)
      : withMember('queueUrl', 'a queue, or use SourceQueue.fromArn')(given, name),
  )(value, name);
}
