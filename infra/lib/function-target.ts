import { Duration, type Stack, Token } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';

import type { Given } from './given';
import { layerProblems, NEXT_WRAPPER_VARIABLE, variablesOf, WRAPPER } from './layer';
import { Strategy } from './strategy/index';
import { type Change, changeable, type UserFunction } from './user-function';

/** Of a function that says none ("Configure Lambda function timeout"). */
const LAMBDA_TIMEOUT_SECONDS = 3;
/** Variables that redeliver's program reads, and nobody else. `LOG_LEVEL` may be that of a logger of the user's own. */
const OURS_ALONE = [
  NEXT_WRAPPER_VARIABLE, 'INTERMEDIATE_DLQ_URL', 'ANNOTATION_QUEUE_URL', 'SOURCE_QUEUE_URL', 'RETRY_POLICY', 'STRATEGY', 'VISIBILITY_TIMEOUT_SECONDS',
  'RETENTION_SECONDS', 'RESEND_SENDER_IDS', 'DATA_SCHEMA_PATH', 'ENVELOPE', 'MESSAGE_ID_ATTRIBUTE', 'MESSAGE_ID_POINTER', 'BODY_SCHEMA_PATH', 'HANDLER_EVENT',
];
/** Props of our own message-processor, and what there is instead. */
const INSTEAD = {
  timeout: 'set timeout on the function',
  reservedConcurrency: 'set reservedConcurrentExecutions on the function',
  memorySize: 'set memorySize on the function',
  vpc: 'set vpc on the function',
  maxConcurrentCalls: 'use maxConcurrency: a runtime handles one event at a time',
} satisfies { readonly [K in keyof Given]?: string };

/** What is said of the function that reads the source queue. */
export interface Reader extends Pick<Given, 'timeout' | 'reservedConcurrency' | 'maxConcurrentCalls'> {
  /** If it is one that can be changed. */
  readonly userFunction: UserFunction | undefined;
}

/** By the props of ours; by itself, if it is a user's. */
export function readerOf(props: Given, stack: Stack): Reader {
  const { target, timeout, reservedConcurrency, maxConcurrentCalls } = props;
  if (target.kind !== 'function') {
    return { userFunction: undefined, timeout, reservedConcurrency, maxConcurrentCalls };
  }
  const found = changed(target.function, stack);
  const own = typeof found === 'string' ? undefined : found;
  // A number that only the deployment knows is refused elsewhere, or left alone.
  const { timeout: seconds = LAMBDA_TIMEOUT_SECONDS, reservedConcurrentExecutions: reserved } = own?.resource ?? {};
  return {
    userFunction: own,
    timeout: own === undefined || Token.isUnresolved(seconds) ? undefined : Duration.seconds(seconds),
    reservedConcurrency: Token.isUnresolved(reserved) ? undefined : reserved,
  };
}

/** What is wrong with such a function, and with the props beside it, except numbers. */
export function functionProblems(props: Given, stack: Stack): string[] {
  if (props.target.kind !== 'function') {
    return [];
  }
  const found = changed(props.target.function, stack);
  const beside = Object.entries(INSTEAD).filter(([name]) => props[name as keyof typeof INSTEAD] !== undefined);
  return [
    ...(typeof found === 'string' ? [found] : [...layerProblems(found), ...templateProblems(found, props)]),
    ...beside.map(([name, instead]) => `${name} is for redeliver's own message-processor, and target.function takes its place; remove it, and ${instead}.`),
  ];
}

/** What its template says, and redeliver would have to change or cannot know. */
function templateProblems(own: UserFunction, props: Given): string[] {
  const ours = [...OURS_ALONE, ...(props.logDetail ? ['LOG_DETAIL'] : []), ...(props.logLevel ? ['LOG_LEVEL'] : [])];
  const taken = Object.entries(variablesOf(own)).flatMap(([name, value]) => (ours.includes(name) || value === WRAPPER ? [name] : []));
  return [
    ...(taken.length > 0
      ? [`${own.name} has ${taken.join(', ')} in its environment already; remove it there: Redeliver sets it, for one source queue alone.`]
      : []),
    ...(Token.isUnresolved(own.resource.timeout)
      ? [`${own.name} has a timeout that only the deployment knows, so that nothing can be checked against it; give it a number.`]
      : []),
    // SQS tells the functions who has sent a message: by the role's unique id, and not by its ARN.
    ...(props.strategy === Strategy.DIRECT_RESEND && !(own.function.role instanceof iam.Role)
      ? [`${own.name} has an imported role, whose unique id is not known here, and with direct-resend it sends messages again; create the role in this app, or use delayed-resend.`]
      : []),
  ];
}

const CHANGE: Change = {
  by: 'Redeliver',
  settings: 'neither its environment nor its recursiveLoop',
  notOfAlias: 'whose environment cannot be set',
};

function changed(target: lambda.IFunction, stack: Stack): UserFunction | string {
  return changeable(target, `target.function (${target.node.path})`, CHANGE, stack);
}
