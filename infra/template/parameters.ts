import type { JsonObject } from './merge';

/** A placeholder for the parameter `Prefix` that passes the construct's checks of names. */
export const PREFIX = 'prefix-of-the-template';

/** Limited by the longest function name: 64 characters ("CreateFunction"). */
const PREFIX_CHARACTERS_MAX = 64 - '-failed-message-processor'.length;

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
    // Loopback is for emulators.
    AllowedPattern: '(https://[^@#\\s]+|http://127\\.0\\.0\\.1:\\d+/[^@#\\s]*)?',
    Description: 'The https:// URL that each message is POSTed to. Give this or TargetFunctionArn.',
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
    Description: "The complete ARN of a secret with a JSON object of headers for TargetUrl. '': none.",
  },
  Policy: {
    Type: 'String',
    Default: '{}',
    // A file ends with a line break.
    AllowedPattern: '\\s*\\{[\\s\\S]*\\}\\s*',
    MaxLength: 2048,
    Description: 'The retry policy as JSON. An invalid one stops the functions: run `redeliver check --policy FILE` first.',
  },
  Strategy: {
    Type: 'String',
    Default: 'delayed-resend',
    AllowedValues: ['delayed-resend', 'direct-resend'],
    Description: 'delayed-resend: a separate function re-sends failed messages. direct-resend: the message-processor does, at half the cost.',
  },
  InnerConcurrency: {
    Type: 'Number',
    Default: 10,
    MinValue: 2,
    MaxValue: 1000,
    Description: 'Concurrent invocations of each function except the message-processor, about 100 messages a second each.',
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

/** Rules between the parameters. */
export const RULES = {
  OneTarget: {
    Assertions: [
      {
        Assert: {
          'Fn::Or': [
            { 'Fn::And': [isGiven('TargetUrl'), isEmpty('TargetFunctionArn')] },
            { 'Fn::And': [isEmpty('TargetUrl'), isGiven('TargetFunctionArn')] },
          ],
        },
        AssertDescription: 'Give either TargetUrl or TargetFunctionArn, not both.',
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
    ],
  },
  ModesAreForFunctions: {
    RuleCondition: isGiven('TargetUrl'),
    Assertions: [
      {
        Assert: { 'Fn::And': [isFalse('TenantIsolation'), isFalse('DurableFunction')] },
        AssertDescription: 'Remove TenantIsolation and DurableFunction: they are for TargetFunctionArn.',
      },
    ],
  },
};

/** Conditions of the resources. */
export const CONDITIONS: JsonObject = {
  IsDirectResend: { 'Fn::Equals': [{ Ref: 'Strategy' }, 'direct-resend'] },
  CallsFunction: isGiven('TargetFunctionArn'),
  HasHeaders: isGiven('HeadersSecretArn'),
  TellsTopic: isGiven('AlarmTopicArn'),
};

function isFalse(parameter: string): JsonObject {
  return { 'Fn::Equals': [{ Ref: parameter }, 'false'] };
}

function isEmpty(parameter: string): JsonObject {
  return { 'Fn::Equals': [{ Ref: parameter }, ''] };
}

export function isGiven(parameter: string): JsonObject {
  return { 'Fn::Not': [isEmpty(parameter)] };
}
