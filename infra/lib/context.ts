import { RemovalPolicy } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sns from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

import { RedeliverPropsError } from './plan.ts';
import type { RetryPolicy } from './policy.ts';
import type { RedeliverProps, Target } from './props.ts';

/** The values that the app knows, each `--context NAME=VALUE`; for all else there is the construct. */
export const CONTEXT_VALUES = [
  'target',
  'headersSecretArn',
  'policy',
  'strategy',
  'longDelays',
  'dataSchema',
  'prefix',
  'stage',
  'architecture',
  'alarmTopicArn',
  'existingSourceQueueArn',
  'removalPolicy',
  'bundles',
] as const;

type ContextValue = (typeof CONTEXT_VALUES)[number];

/**
 * The props that the context values stand for.
 *
 * @param scope where secrets and topics are looked up.
 * @param directory what paths are relative to.
 * @throws RedeliverPropsError if one is missing or not understood.
 */
export function propsOfContext(scope: Construct, directory: string): RedeliverProps {
  const value = (name: ContextValue): string | undefined => {
    const given: unknown = scope.node.tryGetContext(name);
    return given === undefined || given === '' ? undefined : String(given);
  };
  const path = (name: ContextValue): string | undefined => {
    const given = value(name);
    return given === undefined ? undefined : resolve(directory, given);
  };
  const choice = <T>(name: ContextValue, choices: Record<string, T>): T | undefined => {
    const given = value(name);
    if (given !== undefined && !Object.hasOwn(choices, given)) {
      refuse(`${name} is "${given}"; use ${Object.keys(choices).join(' or ')}.`);
    }
    return given === undefined ? undefined : choices[given];
  };
  refuseUnknown(scope);
  const alarmTopicArn = value('alarmTopicArn');
  if (alarmTopicArn !== undefined && !/^arn:[^:]+:sns:[^:]+:\d{12}:[^:]+$/.test(alarmTopicArn)) {
    refuse(`alarmTopicArn is "${alarmTopicArn}", which is not a topic's ARN; use arn:aws:sns:REGION:ACCOUNT:NAME.`);
  }
  const queueArn = value('existingSourceQueueArn');
  return {
    target: targetOf(scope, value('target'), value('headersSecretArn')),
    ...given({
      policy: policyOf(path('policy')),
      strategy: choice('strategy', { 'delayed-resend': 'delayed-resend', visibility: 'visibility' } as const),
      longDelays: choice('longDelays', { true: true, false: false }),
      dataSchema: path('dataSchema'),
      prefix: value('prefix'),
      stage: value('stage'),
      architecture: choice('architecture', {
        'arm64': lambda.Architecture.ARM_64,
        'x86-64': lambda.Architecture.X86_64,
      }),
      removalPolicy: choice('removalPolicy', { retain: RemovalPolicy.RETAIN, destroy: RemovalPolicy.DESTROY } as const),
      bundles: path('bundles'),
      existingSourceQueue: queueArn === undefined ? undefined : { queueArn },
      alarmTopic:
        alarmTopicArn === undefined ? undefined : sns.Topic.fromTopicArn(scope, 'AlarmTopic', alarmTopicArn),
    }),
  };
}

function targetOf(scope: Construct, target: string | undefined, secretArn: string | undefined): Target {
  if (target === undefined) {
    return refuse(
      'target is missing: add --context target=https://… or --context target=arn:aws:lambda:REGION:ACCOUNT:function:NAME.',
    );
  }
  if (!target.startsWith('arn:')) {
    if (secretArn !== undefined && !/^arn:[^:]+:secretsmanager:[^:]+:\d{12}:secret:.+-[A-Za-z0-9]{6}$/.test(secretArn)) {
      refuse(
        `headersSecretArn is "${secretArn}", which is not a secret's whole ARN; it ends with a hyphen and six characters.`,
      );
    }
    const headersSecret =
      secretArn === undefined ? undefined : secretsmanager.Secret.fromSecretCompleteArn(scope, 'Headers', secretArn);
    return { kind: 'http', url: target, ...given({ headersSecret }) };
  }
  if (!/^arn:[^:]+:lambda:[^:]+:\d{12}:function:[^:]+(:[^:]+)?$/.test(target)) {
    return refuse(`target is "${target}", which is not a Lambda function's ARN; use one, or an https:// URL.`);
  }
  if (secretArn !== undefined) {
    return refuse('headersSecretArn is for a URL as target; remove it, a Lambda function gets no headers.');
  }
  return { kind: 'lambda', function: lambda.Function.fromFunctionArn(scope, 'Target', target) };
}

function policyOf(path: string | undefined): RetryPolicy | undefined {
  if (path === undefined) {
    return undefined;
  }
  try {
    // What it holds is checked by the construct, against the schema.
    const policy = JSON.parse(readFileSync(path, 'utf8')) as RetryPolicy | null;
    return policy ?? refuse(`policy ${path} holds null; write {} for the defaults.`);
  } catch (error) {
    if (error instanceof RedeliverPropsError) {
      throw error;
    }
    return refuse(`policy cannot be read from ${path}: ${(error as Error).message}; name a JSON file.`);
  }
}

/** A value that is misspelt would be a default in silence. Names with `@`, `:` or `/` are the CDK's own. */
function refuseUnknown(scope: Construct): void {
  const names = Object.keys(scope.node.getAllContext()).filter((name) => !/[@:/]/.test(name));
  const unknown = names.filter((name) => !(CONTEXT_VALUES as readonly string[]).includes(name));
  if (unknown.length > 0) {
    refuse(`${unknown.join(', ')} is no context value; there are ${CONTEXT_VALUES.join(', ')}.`);
  }
}

function refuse(problem: string): never {
  throw new RedeliverPropsError([problem]);
}

/** Without the members that are undefined. */
function given<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
