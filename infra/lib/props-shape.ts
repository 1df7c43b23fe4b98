import { RemovalPolicy } from 'aws-cdk-lib';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';

import type { AsyncRetryProps, CommonProps, Envelope, LogDetail, LogLevel, RedeliverProps, SourceQueueElsewhere, Target, VpcPlacement } from './props';
import { alternatives, having, isPlain, listOf, members, needed, oneOf, type Shape, signature, such, inWords } from './shape';
import { STRATEGIES } from './strategy/index';

/** Each removal policy by its name. */
export const REMOVAL_POLICIES = { retain: RemovalPolicy.RETAIN, destroy: RemovalPolicy.DESTROY } as const;

/** Each value of `envelope`. */
export const ENVELOPES = { required: true, optional: true } satisfies Record<Envelope, true>;
const LOG_DETAILS = { batches: true, messages: true } satisfies Record<LogDetail, true>;
const LOG_LEVELS = { INFO: true, WARN: true } satisfies Record<LogLevel, true>;

const text = such((value) => typeof value === 'string', 'a string');
const number = such((value) => typeof value === 'number', 'a number');
const flag = such((value) => typeof value === 'boolean', 'true or false');
const object = such(isPlain, 'an object');
// By a member: an instance may be of another copy of the CDK.
const duration = having('toMilliseconds', 'a Duration');
const key = having('keyArn', 'a KMS key');
const lambdaFunction = having('functionArn', 'a Lambda function');

const COMMON = {
  stage: text,
  encryptionKey: key,
  removalPolicy: oneOf(REMOVAL_POLICIES),
  architecture: having('dockerPlatform', 'lambda.Architecture.ARM_64 or lambda.Architecture.X86_64'),
  bundles: text,
  logRetention: such((value) => typeof value === 'number' && value in RetentionDays, 'one of RetentionDays'),
  logDetail: oneOf(LOG_DETAILS),
  logLevel: oneOf(LOG_LEVELS),
  tracing: flag,
  alarmTopic: having('topicArn', 'an SNS topic'),
} satisfies Shape<CommonProps>;

const kind = needed(() => []); // Looked at before: it says which shape it is.
const TARGETS = {
  http: { kind, url: needed(text), headersSecret: having('secretArn', 'a secret of Secrets Manager'), allowHttp: flag, timeout: duration },
  lambda: { kind, function: needed(lambdaFunction), timeout: duration },
  handler: { kind, bundle: needed(text) },
  function: { kind, function: needed(lambdaFunction), handlerConcurrency: number },
} satisfies { [K in Target['kind']]: Shape<Extract<Target, { kind: K }>> };

const VPC = {
  vpc: needed(having('vpcId', 'a VPC')),
  subnets: object, // The CDK's own.
  securityGroups: listOf(having('securityGroupId', 'a security group'), 'a list of security groups'),
} satisfies Shape<VpcPlacement>;

const ELSEWHERE = { queueArn: needed(text), encryptionKey: key } satisfies Shape<SourceQueueElsewhere>;

const REDELIVER = {
  ...COMMON,
  target: needed(target),
  policy: object, // Its members are checked against the schema.
  strategy: oneOf(STRATEGIES),
  longDelays: flag,
  dataSchema: text,
  envelope: oneOf(ENVELOPES),
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
  reservedConcurrency: number,
  timeout: duration,
  vpc: members(VPC, 'vpc'),
} satisfies Shape<RedeliverProps>;

const ASYNC_RETRY = {
  ...COMMON,
  functions: needed(listOf(lambdaFunction, 'a list of Lambda functions')),
  policy: object,
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

function target(value: unknown, name: string): string[] {
  if (!isPlain(value)) {
    const kinds = Object.entries(TARGETS).map(([kind, shape]) => signature(shape).replace('kind', `kind: '${kind}'`));
    return [`${name} is ${inWords(value)}; give ${alternatives(kinds)}.`];
  }
  const wrong = oneOf(TARGETS)(value['kind'], `${name}.kind`);
  const kind = value['kind'] as Target['kind'];
  return wrong.length > 0 ? wrong : members(TARGETS[kind], `a target of kind ${kind}`)(value, name);
}

function existingSourceQueue(value: unknown, name: string): string[] {
  if (isPlain(value)) {
    return members(ELSEWHERE, name)(value, name);
  }
  return having('queueUrl', `a queue, or ${signature(ELSEWHERE)}`)(value, name);
}
