import type { JsonObject } from './merge';

/** Stands for the parameter `Prefix` while the construct makes names of it, whose length and characters it checks. */
export const PREFIX = 'prefix-of-the-template';

/** Room for the longest name, of a function: 64 characters ("CreateFunction"). */
const PREFIX_CHARACTERS_MAX = 64 - '-failed-message-processor'.length;

/** What whoever deploys the template says. */
export const PARAMETERS = {
  Prefix: {
    Type: 'String',
    Default: 'redeliver',
    AllowedPattern: '[A-Za-z][A-Za-z0-9-]*',
    MaxLength: PREFIX_CHARACTERS_MAX,
    Description: 'First part of the names of all queues, functions and alarms: one deployment for each.',
  },
  TargetUrl: {
    Type: 'String',
    Default: '',
    // Loopback is for emulators.
    AllowedPattern: '(https://[^@#\\s]+|http://127\\.0\\.0\\.1:\\d+/[^@#\\s]*)?',
    Description: 'The https:// URL that each message is POSTed to. This, or TargetFunctionArn.',
  },
  TargetFunctionArn: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(arn:[^:]+:lambda:[^:]+:\\d{12}:function:[^:]+(:[^:]+)?)?',
    Description: 'The ARN of the Lambda function that is called for each message. This, or TargetUrl.',
  },
  HeadersSecretArn: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(arn:[^:]+:secretsmanager:[^:]+:\\d{12}:secret:.+-[A-Za-z0-9]{6})?',
    Description: "The whole ARN of a secret: a JSON object of headers that TargetUrl is called with. '': none.",
  },
  Policy: {
    Type: 'String',
    Default: '{}',
    // A file ends with a line's end.
    AllowedPattern: '\\s*\\{[\\s\\S]*\\}\\s*',
    MaxLength: 2048,
    Description: 'The retry policy as JSON. A wrong one stops the functions: first `redeliver check --policy FILE`.',
  },
  Strategy: {
    Type: 'String',
    Default: 'delayed-resend',
    AllowedValues: ['delayed-resend', 'direct-resend'],
    Description: 'Who sends a failed message again: a function of its own, or the one that calls, at half the price.',
  },
  AlarmTopicArn: {
    Type: 'String',
    Default: '',
    AllowedPattern: '(arn:[^:]+:sns:[^:]+:\\d{12}:[^:]+)?',
    Description: "The SNS topic of this region that alarms tell. '': they change their colour and tell nobody.",
  },
  MessageAgeAlarmSeconds: {
    Type: 'Number',
    Default: 483_840,
    MinValue: 60,
    Description: 'A message older than this is an alarm. 80 % of 7 days; raise it if retries take longer.',
  },
} satisfies JsonObject;

/** What the parameters must be together. */
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
        AssertDescription: 'Give TargetUrl or TargetFunctionArn, and not both.',
      },
    ],
  },
  HeadersAreForUrls: {
    RuleCondition: isGiven('TargetFunctionArn'),
    Assertions: [
      {
        Assert: isEmpty('HeadersSecretArn'),
        AssertDescription: 'Remove HeadersSecretArn: a function gets no headers.',
      },
    ],
  },
};

/** What the resources depend on. */
export const CONDITIONS: JsonObject = {
  IsDirectResend: { 'Fn::Equals': [{ Ref: 'Strategy' }, 'direct-resend'] },
  CallsFunction: isGiven('TargetFunctionArn'),
  HasHeaders: isGiven('HeadersSecretArn'),
  TellsTopic: isGiven('AlarmTopicArn'),
};

function isEmpty(parameter: string): JsonObject {
  return { 'Fn::Equals': [{ Ref: parameter }, ''] };
}

export function isGiven(parameter: string): JsonObject {
  return { 'Fn::Not': [isEmpty(parameter)] };
}
