import { RetentionDays } from 'aws-cdk-lib/aws-logs';

import { PRINCIPAL } from '../lib/producers';
import type { JsonObject } from './merge';

/** A placeholder for the parameter `Prefix` that passes the construct's name checks. */
export const PREFIX = 'prefix-of-the-template';

/** The maximum length of the prefix: function names are limited to 64 characters ("CreateFunction"). */
const PREFIX_CHARACTERS_MAX = 64 - '-failed-message-processor'.length;

/** A pattern for a JSON Pointer to a member, without a comma. */
const POINTER = '(/([^~/,]|~[01])*)+';

/** A parameter for the ARN of a key, or an empty string. */
const KEY = { Type: 'String', Default: '', AllowedPattern: '(arn:[^:]+:kms:[^:]+:\\d{12}:key/[^:\\s]+)?' };

/** The template's parameters. */
export const PARAMETERS = {
  Prefix: {
    Type: 'String',
    Default: 'redeliver',
    AllowedPattern: '[A-Za-z][A-Za-z0-9-]*',
    MaxLength: PREFIX_CHARACTERS_MAX,
    Description: 'The first part of the names of all queues, functions and alarms; unique for each deployment.',
  },
  TargetUrl: {
    Type: 'String',
    Default: '',
    // Loopback addresses are for emulators.
    AllowedPattern: '(https://[^@#\\s]+|http://127\\.0\\.0\\.1:\\d+/[^@#\\s]*)?',
    Description: 'The https:// URL that each message is POSTed to. Give this or TargetFunctionArn, or a secret with the URL.',
  },
  TargetFunctionArn: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(arn:[^:]+:lambda:[^:]+:\\d{12}:function:[^:]+(:[^:]+)?)?',
    Description: 'The ARN of the Lambda function that is called for each message. Give this or TargetUrl.',
  },
  TenantIsolation: {
    Type: 'String',
    Default: 'false',
    AllowedValues: ['false', 'true'],
    Description: "true: the function of TargetFunctionArn is in tenant isolation mode. A message's MessageGroupId is the tenant id.",
  },
  DurableFunction: {
    Type: 'String',
    Default: 'false',
    AllowedValues: ['false', 'true'],
    Description: 'true: TargetFunctionArn is a version or an alias of a durable function. All copies of an attempt are one execution.',
  },
  HeadersSecretArn: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(arn:[^:]+:secretsmanager:[^:]+:\\d{12}:secret:.+-[A-Za-z0-9]{6})?',
    Description: "The complete ARN of a secret with a JSON object: headers, :url, :signing-secrets. '': none.",
  },
  ErrorExcerpt: {
    Type: 'String',
    Default: '',
    AllowedPattern: `(${POINTER}(,${POINTER}){0,7})?`,
    MaxLength: 1024,
    Description: "Comma-separated JSON Pointers to the values that are recorded from the body of a failed response, such as /type,/title. '': none.",
  },
  Policy: {
    Type: 'String',
    Default: '{}',
    // A file may end with a line break.
    AllowedPattern: '\\s*\\{[\\s\\S]*\\}\\s*',
    MaxLength: 2048,
    Description: 'The retry policy as JSON. An invalid one stops the functions: run `redeliver check --policy FILE` first.',
  },
  Envelope: {
    Type: 'String',
    Default: 'required',
    AllowedValues: ['required', 'optional'],
    Description: 'optional: messages without an envelope are also accepted, in any format.',
  },
  MessageIdPointer: {
    Type: 'String',
    Default: '',
    AllowedPattern: '((/([^~/]|~[01])*)+)?',
    MaxLength: 256,
    Description: "With Envelope optional: the JSON Pointer to the id in the body, such as /detail/id. '': that of a CloudEvent, or SQS's own.",
  },
  Strategy: {
    Type: 'String',
    Default: 'delayed-resend',
    AllowedValues: ['delayed-resend', 'direct-resend'],
    Description: 'delayed-resend: a separate function re-sends failed messages. direct-resend: the message-processor does, at half the cost.',
  },
  MaxConcurrency: {
    Type: 'Number',
    Default: 10,
    MinValue: 2,
    MaxValue: 1000,
    Description: 'Concurrent invocations of the function that reads the source queue, each with up to ten calls at once.',
  },
  InnerConcurrency: {
    Type: 'Number',
    Default: 10,
    MinValue: 2,
    MaxValue: 1000,
    Description: 'Concurrent invocations of each function except the message-processor, about 100 messages a second each.',
  },
  KmsKeyArn: { ...KEY, Description: "The ARN of the key that encrypts the queues. '': keys managed by SQS." },
  LogKeyArn: { ...KEY, Description: "The ARN of the key that encrypts the logs; its policy lets CloudWatch Logs use it. '': keys of CloudWatch Logs." },
  EnvironmentKeyArn: { ...KEY, Description: "The ARN of the key that encrypts the functions' environment variables. '': a key of Lambda." },
  ProducerPrincipals: {
    Type: 'String',
    Default: '',
    AllowedPattern: `(${PRINCIPAL}(,${PRINCIPAL})*)?`,
    Description: "Account ids and role ARNs of other accounts, comma-separated, that may send to the source queue. '': none.",
  },
  VpcSubnetIds: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(subnet-[0-9a-f]+(,subnet-[0-9a-f]+)*)?',
    Description: "The functions' subnets in your VPC, comma-separated. '': no VPC.",
  },
  VpcSecurityGroupIds: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(sg-[0-9a-f]+(,sg-[0-9a-f]+)*)?',
    Description: "The functions' security groups, comma-separated. Give these and VpcSubnetIds, or neither.",
  },
  ArchiveBucket: {
    Type: 'String',
    Default: '',
    AllowedPattern: '([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?',
    Description: "The name of a bucket in this region that keeps each dead letter. '': none.",
  },
  ArchiveBucketOwner: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(\\d{12})?',
    Description: "The account that owns ArchiveBucket. '': this account.",
  },
  ArchiveKeyArn: { ...KEY, Description: "The ARN of the key of ArchiveBucket. '': the bucket has none of its own." },
  ArchivePrefix: {
    Type: 'String',
    Default: '',
    // With a trailing slash, and without `*`, which is a wildcard in the role's policy.
    AllowedPattern: "([A-Za-z0-9!_.'()=-][A-Za-z0-9!_.'()/=-]*/)?",
    MaxLength: 256,
    Description: "The first part of the keys in ArchiveBucket, with / at its end. '': none.",
  },
  ArchiveOmit: {
    Type: 'String',
    Default: '',
    AllowedPattern: `(${POINTER}(,${POINTER}){0,49})?`,
    MaxLength: 1024,
    Description: "JSON Pointers into the body, comma-separated, whose values are left out of ArchiveBucket. '': none.",
  },
  NotifyArn: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(arn:[^:]+:(sns:[^:]+:\\d{12}:[A-Za-z0-9_-]+|events:[^:]+:\\d{12}:event-bus/[A-Za-z0-9_./-]+))?',
    Description: "The standard SNS topic or the event bus in this region that gets notices of the causes of dead letters. '': none.",
  },
  NotifyKeyArn: { ...KEY, Description: "The ARN of the key of the topic of NotifyArn. '': the topic has none of its own." },
  PermissionsBoundaryArn: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(arn:[^:]+:iam::(\\d{12}|aws):policy/\\S+)?',
    Description: "The managed policy that bounds the functions' roles. '': none.",
  },
  LogRetentionDays: {
    Type: 'Number',
    Default: RetentionDays.ONE_MONTH,
    AllowedValues: Object.values(RetentionDays).filter((days): days is RetentionDays => typeof days === 'number' && days !== RetentionDays.INFINITE),
    Description: 'The days that CloudWatch Logs keeps the logs.',
  },
  Tracing: {
    Type: 'String',
    Default: 'true',
    AllowedValues: ['true', 'false'],
    Description: 'true: the functions send traces to X-Ray.',
  },
  AlarmTopicArn: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(arn:[^:]+:sns:[^:]+:\\d{12}:[^:]+)?',
    Description: "The SNS topic in this region that alarms notify. '': none; alarms only change state.",
  },
  MessageAgeAlarmSeconds: {
    Type: 'Number',
    Default: 483_840,
    MinValue: 60,
    Description: 'The message age that raises an alarm. Default: 80 % of 7 days; raise it if retries take longer.',
  },
} satisfies JsonObject;

/** Rules for combinations of parameters. */
export const RULES = {
  OneTarget: {
    Assertions: [
      {
        Assert: {
          'Fn::Or': [
            { 'Fn::And': [isGiven('TargetUrl'), isEmpty('TargetFunctionArn')] },
            { 'Fn::And': [isEmpty('TargetUrl'), isGiven('TargetFunctionArn')] },
            { 'Fn::And': [isEmpty('TargetUrl'), isEmpty('TargetFunctionArn'), isGiven('HeadersSecretArn')] },
          ],
        },
        AssertDescription: 'Give either TargetUrl or TargetFunctionArn, or neither if the secret of HeadersSecretArn has the URL.',
      },
    ],
  },
  HeadersAreForUrls: {
    RuleCondition: isGiven('TargetFunctionArn'),
    Assertions: [
      {
        Assert: isEmpty('HeadersSecretArn'),
        AssertDescription: 'Remove HeadersSecretArn: a Lambda function gets no headers.',
      },
      {
        Assert: isEmpty('ErrorExcerpt'),
        AssertDescription: 'Remove ErrorExcerpt: the error of a Lambda function has a name and a text.',
      },
    ],
  },
  ModesAreForFunctions: {
    RuleCondition: isEmpty('TargetFunctionArn'),
    Assertions: [
      {
        Assert: { 'Fn::And': [parameterEquals('TenantIsolation', 'false'), parameterEquals('DurableFunction', 'false')] },
        AssertDescription: 'Remove TenantIsolation and DurableFunction: they are for TargetFunctionArn.',
      },
    ],
  },
  PointersAreForAnyBody: {
    RuleCondition: isGiven('MessageIdPointer'),
    Assertions: [
      {
        Assert: parameterEquals('Envelope', 'optional'),
        AssertDescription: 'Set Envelope to optional, or remove MessageIdPointer: an envelope has its own id.',
      },
    ],
  },
  ArchiveHasBucket: {
    RuleCondition: isEmpty('ArchiveBucket'),
    Assertions: [
      {
        Assert: { 'Fn::And': ['ArchiveBucketOwner', 'ArchiveKeyArn', 'ArchivePrefix', 'ArchiveOmit'].map(isEmpty) },
        AssertDescription: 'Give ArchiveBucket, or remove ArchiveBucketOwner, ArchiveKeyArn, ArchivePrefix and ArchiveOmit.',
      },
    ],
  },
  NotifyKeyHasTopic: {
    RuleCondition: isEmpty('NotifyArn'),
    Assertions: [
      {
        Assert: isEmpty('NotifyKeyArn'),
        AssertDescription: 'Give the topic of NotifyKeyArn as NotifyArn, or remove NotifyKeyArn: an event bus needs no permission on its key.',
      },
    ],
  },
  VpcIsComplete: {
    Assertions: [
      {
        Assert: {
          'Fn::Or': [
            { 'Fn::And': [isGiven('VpcSubnetIds'), isGiven('VpcSecurityGroupIds')] },
            { 'Fn::And': [isEmpty('VpcSubnetIds'), isEmpty('VpcSecurityGroupIds')] },
          ],
        },
        AssertDescription: 'Give both VpcSubnetIds and VpcSecurityGroupIds, or neither.',
      },
    ],
  },
};

/** The parts of the template that a parameter adds. */
export interface Option {
  readonly condition: JsonObject;
  /** Strings in the JSON of these parts, by which they are found. */
  readonly marks: readonly string[];
  /** Strings in the JSON of complete resources. */
  readonly resources?: readonly string[];
}

/**
 * Parts that can be added without changing others, by condition. The template contains all of them under conditions, so
 * the construct need not be synthesized for each combination.
 */
export const OPTIONS = {
  HasHeaders: optionIfGiven('HeadersSecretArn'),
  HasKey: optionIfGiven('KmsKeyArn'),
  HasProducers: optionIfGiven('ProducerPrincipals'),
  IsInVpc: optionIfGiven('VpcSubnetIds', '"AttachToVpc"', '"ButNotFromTheFunction"'),
  HasBoundary: optionIfGiven('PermissionsBoundaryArn'),
  IsTraced: { condition: parameterEquals('Tracing', 'true'), marks: ['{"Mode":', '"xray:'] },
  TellsTopic: optionIfGiven('AlarmTopicArn'),
  HasArchive: {
    ...optionIfGiven('ArchiveBucket', '{"Ref":"ArchiveBucketOwner"}', '{"Ref":"ArchivePrefix"}', '{"Ref":"ArchiveOmit"}'),
    resources: ['"MetricName":"ArchiveRefused"'],
  },
  HasArchiveKey: optionIfGiven('ArchiveKeyArn'),
  HasNotices: { ...optionIfGiven('NotifyArn'), resources: ['"MetricName":"NoticeRefused"'] },
  HasNotifyKey: optionIfGiven('NotifyKeyArn'),
  HasLogKey: optionIfGiven('LogKeyArn'),
  HasEnvironmentKey: optionIfGiven('EnvironmentKeyArn'),
} satisfies Readonly<Record<string, Option>>;

export type OptionName = keyof typeof OPTIONS;
export const OPTION_NAMES = Object.keys(OPTIONS) as OptionName[];

/** The conditions of the resources, for any strategy. */
export const CONDITIONS: JsonObject = {
  CallsFunction: isGiven('TargetFunctionArn'),
  ...conditionsOf(OPTION_NAMES),
};

export function conditionsOf(options: readonly OptionName[]): JsonObject {
  return Object.fromEntries(options.map((name) => [name, OPTIONS[name].condition]));
}

/** Returns the option for parts that contain a reference to the parameter or one of these strings. */
function optionIfGiven(parameter: string, ...marks: string[]): Option {
  return { condition: isGiven(parameter), marks: [JSON.stringify({ Ref: parameter }), ...marks] };
}

export function parameterEquals(parameter: string, value: string): JsonObject {
  return { 'Fn::Equals': [{ Ref: parameter }, value] };
}

function isEmpty(parameter: string): JsonObject {
  return parameterEquals(parameter, '');
}

function isGiven(parameter: string): JsonObject {
  return { 'Fn::Not': [isEmpty(parameter)] };
}
