import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sns from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';

import { Envelope, Strategy } from './choices';
import { SourceQueue } from './existing-queue';
import { normalizeProps } from './normalized-props';
import { planOf } from './planning';
import type { RedeliverProps } from './props';
import { REMOVAL_POLICIES } from './props-shape';
import { RetryPolicy } from './retry-policy';
import { oneOf } from './shape';
import { Target } from './target';

/** The context values that the app accepts, each as `--context NAME=VALUE`. All other settings need the construct. */
export const CONTEXT_VALUES = [
  'target',
  'headersSecretArn',
  'policy',
  'strategy',
  'longDelays',
  'dataSchema',
  'envelope',
  'messageIdAttribute',
  'messageIdPointer',
  'bodySchema',
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
 * Returns the props from the context values.
 *
 * @param scope the scope of imported secrets, topics and functions.
 * @param directory the base directory of relative paths.
 * @throws RedeliverPropsError with all problems in the values and in the resulting props.
 */
export function propsOfContext(scope: Construct, directory: string): RedeliverProps {
  const problems = unknownNameProblems(scope);
  const value = (name: ContextValue): string | undefined => {
    const given: unknown = scope.node.tryGetContext(name);
    return given === undefined || given === '' ? undefined : String(given);
  };
  const path = (name: ContextValue): string | undefined => {
    const given = value(name);
    return given === undefined ? undefined : resolve(directory, given);
  };
  const choice = <T>(name: ContextValue, choices: Readonly<Record<string, T>>): T | undefined => {
    const given = value(name);
    problems.push(...(given === undefined ? [] : oneOf(Object.keys(choices))(given, name)));
    return given !== undefined && Object.hasOwn(choices, given) ? choices[given] : undefined;
  };
  const queueArn = value('existingSourceQueueArn');
  const props: RedeliverProps = {
    target: targetOf(scope, value('target'), value('headersSecretArn'), problems),
    ...omitUndefined({
      policy: policyOf(path('policy'), problems),
      strategy: choice('strategy', membersByValue(Strategy)),
      longDelays: choice('longDelays', { true: true, false: false }),
      dataSchema: path('dataSchema'),
      envelope: choice('envelope', membersByValue(Envelope)),
      messageIdAttribute: value('messageIdAttribute'),
      messageIdPointer: value('messageIdPointer'),
      bodySchema: path('bodySchema'),
      prefix: value('prefix'),
      stage: value('stage'),
      architecture: choice('architecture', {
        'arm64': lambda.Architecture.ARM_64,
        'x86-64': lambda.Architecture.X86_64,
      }),
      removalPolicy: choice('removalPolicy', REMOVAL_POLICIES),
      bundles: path('bundles'),
      existingSourceQueue: queueArn === undefined ? undefined : SourceQueue.fromArn(queueArn),
      ticketTopic: topicOf(scope, value('alarmTopicArn'), problems),
    }),
  };
  if (problems.length > 0) {
    planOf(normalizeProps(props, problems), scope, problems);
  }
  return props;
}

function topicOf(scope: Construct, arn: string | undefined, problems: string[]): sns.ITopic | undefined {
  if (arn === undefined) {
    return undefined;
  }
  if (!/^arn:[^:]+:sns:[^:]+:\d{12}:[^:]+$/.test(arn)) {
    problems.push(`alarmTopicArn is "${arn}", which is not a topic's ARN; use arn:aws:sns:REGION:ACCOUNT:NAME.`);
    return undefined;
  }
  return sns.Topic.fromTopicArn(scope, 'AlarmTopic', arn);
}

function targetOf(scope: Construct, target: string | undefined, secretArn: string | undefined, problems: string[]): Target {
  const placeholder = Target.handler(''); // Causes no further problems.
  const wrong = (problem: string): Target => {
    problems.push(problem);
    return placeholder;
  };
  if (target === undefined && secretArn === undefined) {
    return wrong(
      'target is missing: add --context target=https://…, --context target=arn:aws:lambda:REGION:ACCOUNT:function:NAME, ' +
        'or --context headersSecretArn=… of a secret with the URL.',
    );
  }
  if (target === undefined) {
    const secret = secretOf(scope, secretArn, problems);
    return secret ? Target.httpFromSecret(secret) : placeholder;
  }
  if (!target.startsWith('arn:')) {
    const headersSecret = secretOf(scope, secretArn, problems);
    return Target.http(target, omitUndefined({ headersSecret }));
  }
  if (!/^arn:[^:]+:lambda:[^:]+:\d{12}:function:[^:]+(:[^:]+)?$/.test(target)) {
    return wrong(`target is "${target}", which is not a Lambda function's ARN; use one, or an https:// URL.`);
  }
  if (secretArn !== undefined) {
    return wrong('headersSecretArn needs a URL as target; remove it: a Lambda function gets no headers.');
  }
  return Target.lambdaFunction(lambda.Function.fromFunctionArn(scope, 'Target', target));
}

function secretOf(scope: Construct, arn: string | undefined, problems: string[]): secretsmanager.ISecret | undefined {
  if (arn === undefined) {
    return undefined;
  }
  if (!/^arn:[^:]+:secretsmanager:[^:]+:\d{12}:secret:.+-[A-Za-z0-9]{6}$/.test(arn)) {
    problems.push(`headersSecretArn is "${arn}", which is not a secret's complete ARN; that ends with a hyphen and six characters.`);
    return undefined;
  }
  return secretsmanager.Secret.fromSecretCompleteArn(scope, 'Headers', arn);
}

function policyOf(path: string | undefined, problems: string[]): RetryPolicy | undefined {
  if (path === undefined) {
    return undefined;
  }
  try {
    // The construct checks the content against the schema.
    const policy = JSON.parse(readFileSync(path, 'utf8')) as Record<string, unknown> | null;
    if (policy !== null) {
      return RetryPolicy.fromJson(policy);
    }
    problems.push(`policy ${path} holds null; write {} for the defaults.`);
  } catch (error) {
    problems.push(`policy cannot be read from ${path}: ${(error as Error).message}; name a JSON file.`);
  }
  return undefined;
}

/** Reports misspelled names, which would otherwise be ignored. Names with `@`, `:` or `/` belong to the CDK. */
function unknownNameProblems(scope: Construct): string[] {
  const names = Object.keys(scope.node.getAllContext()).filter((name) => !/[@:/]/.test(name));
  const unknown = names.filter((name) => !(CONTEXT_VALUES as readonly string[]).includes(name));
  return unknown.length > 0 ? [`${unknown.join(', ')} is not a context value; the values are ${CONTEXT_VALUES.join(', ')}.`] : [];
}

/** Returns the members of an enum by their values. */
function membersByValue<T extends string>(choices: Readonly<Record<string, T>>): Readonly<Record<string, T>> {
  return Object.fromEntries(Object.values(choices).map((name) => [name, name]));
}

/** Returns the object without undefined members. */
function omitUndefined<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as {
    [K in keyof T]?: Exclude<T[K], undefined>;
  };
}
