import { Duration, type Stack, Token } from 'aws-cdk-lib';
import type * as lambda from 'aws-cdk-lib/aws-lambda';

import { eventSourceProblems } from './event-sources';
import { layerProblems, NEXT_WRAPPER_VARIABLE, variablesOf, WRAPPER } from './layer';
import type { NormalizedProps } from './normalized-props';
import type { StrategyDefinition } from './strategy/definition';
import { type Change, modifiableFunction, type UserFunction } from './user-function';

/** Lambda's default ("Configure Lambda function timeout"). */
const LAMBDA_TIMEOUT_SECONDS = 3;
/**
 * Variables that only redeliver's program reads. `LOG_LEVEL` is not included, since the user's own logger may read it.
 */
const RESERVED_VARIABLES = [
  NEXT_WRAPPER_VARIABLE, 'INTERMEDIATE_DLQ_URL', 'ANNOTATION_QUEUE_URL', 'SOURCE_QUEUE_URL', 'RETRY_POLICY', 'STRATEGY', 'VISIBILITY_TIMEOUT_SECONDS',
  'RETENTION_SECONDS', 'RESEND_SENDER_IDS', 'DATA_SCHEMA_PATH', 'ENVELOPE', 'MESSAGE_ID_ATTRIBUTE', 'MESSAGE_ID_POINTER', 'BODY_SCHEMA_PATH', 'HANDLER_EVENT',
];
/** Props of our own message-processor, and their replacements for a user's function. */
const REPLACEMENTS = {
  timeout: 'set timeout on the function',
  reservedConcurrency: 'set reservedConcurrentExecutions on the function',
  memorySize: 'set memorySize on the function',
  maxConcurrentCalls: 'use maxConcurrency: a runtime handles one event at a time',
} satisfies { readonly [K in keyof NormalizedProps]?: string };

/** Settings of the function that reads the source queue. */
export interface Reader extends Pick<NormalizedProps, 'timeout' | 'reservedConcurrency' | 'maxConcurrentCalls'> {
  /** The user's function, if it can be modified. */
  readonly userFunction: UserFunction | undefined;
}

/**
 * Returns the settings of the function that reads the source queue: from the props for our own function, and from the
 * function itself for a user's function.
 */
export function readerOf(props: NormalizedProps, stack: Stack): Reader {
  const { target, timeout, reservedConcurrency, maxConcurrentCalls } = props;
  if (target.kind !== 'function') {
    return { userFunction: undefined, timeout, reservedConcurrency, maxConcurrentCalls };
  }
  const found = modifiableTarget(target.function, stack);
  const own = typeof found === 'string' ? undefined : found;
  // Numbers that are only known at deployment are rejected in templateProblems, or ignored.
  const { timeout: seconds = LAMBDA_TIMEOUT_SECONDS, reservedConcurrentExecutions: reserved } = own?.resource ?? {};
  return {
    userFunction: own,
    timeout: own === undefined || Token.isUnresolved(seconds) ? undefined : Duration.seconds(seconds),
    reservedConcurrency: Token.isUnresolved(reserved) ? undefined : reserved,
  };
}

/** Returns problems with a user's function and with the props used with it, except for numbers. */
export function functionProblems(props: NormalizedProps, strategy: StrategyDefinition, stack: Stack): string[] {
  if (props.target.kind !== 'function') {
    return [];
  }
  const found = modifiableTarget(props.target.function, stack);
  const unused = Object.entries(REPLACEMENTS).filter(([name]) => props[name as keyof typeof REPLACEMENTS] !== undefined);
  return [
    ...(typeof found === 'string' ? [found] : [...layerProblems(found), ...templateProblems(found, props, strategy), ...eventSourceProblems(found, props.existingSourceQueue?.queueArn)]),
    ...unused.map(([name, instead]) => `${name} only applies to redeliver's own message-processor, which target.function replaces; remove it, and ${instead}.`),
  ];
}

/**
 * Returns problems with settings in the function's template that redeliver must set itself or must know at synthesis.
 */
function templateProblems(own: UserFunction, props: NormalizedProps, strategy: StrategyDefinition): string[] {
  const reserved = [
    ...RESERVED_VARIABLES,
    ...strategy.reservedVariables,
    ...(props.logDetail ? ['LOG_DETAIL'] : []),
    ...(props.logLevel ? ['LOG_LEVEL'] : []),
  ];
  const taken = Object.entries(variablesOf(own)).flatMap(([name, value]) => (reserved.includes(name) || value === WRAPPER ? [name] : []));
  return [
    ...(taken.length > 0
      ? [`${own.name} has ${taken.join(', ')} in its environment already; remove it there: Redeliver sets it, and one function serves one source queue.`]
      : []),
    ...(Token.isUnresolved(own.resource.timeout)
      ? [`${own.name} has a timeout that is only known at deployment, so nothing can be checked against it; set it to a number.`]
      : []),
  ];
}

const CHANGE: Change = {
  by: 'Redeliver',
  settings: 'neither its environment nor its recursiveLoop',
  whyNoAlias: 'whose environment cannot be set',
};

function modifiableTarget(target: lambda.IFunction, stack: Stack): UserFunction | string {
  return modifiableFunction(target, `target.function (${target.node.path})`, CHANGE, stack);
}
