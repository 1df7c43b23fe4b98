import { Duration, Stack, Token } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

import { refuseTooLarge } from './environment';
import type { Given } from './given';
import { type Change, changeable, type UserFunction } from './user-function';

/** Of a function that says none ("Configure Lambda function timeout"). */
const LAMBDA_TIMEOUT_SECONDS = 3;
/** Variables of the libraries that nobody else sets. `LOG_LEVEL` may be that of a logger of the user's own. */
const OURS_ALONE = [
  'INTERMEDIATE_DLQ_URL', 'RETRY_POLICY', 'MAX_CONCURRENCY', 'STRATEGY', 'ENVELOPE', 'MESSAGE_ID_ATTRIBUTE', 'MESSAGE_ID_POINTER',
];
/** Props of our own message-processor, and what there is instead. */
const INSTEAD = {
  timeout: 'set timeout on the function',
  reservedConcurrency: 'set reservedConcurrentExecutions on the function',
  memorySize: 'set memorySize on the function',
  vpc: 'set vpc on the function',
  maxConcurrentCalls: 'use target.handlerConcurrency',
  // The failed-message-processor could look, but only at what has failed: what succeeds would never be checked.
  dataSchema: 'check data in your handler, with a permanent error for what is wrong',
  bodySchema: 'check the body in your handler, with a permanent error for what is wrong',
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
    maxConcurrentCalls: target.handlerConcurrency,
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
    ...(typeof found === 'string' ? [found] : templateProblems(found, props, stack)),
    ...beside.map(([name, instead]) => `${name} is for redeliver's own message-processor, and target.function takes its place; remove it, and ${instead}.`),
  ];
}

/** What its template says, and redeliver would have to change or cannot know. */
function templateProblems({ function: own, resource }: UserFunction, props: Given, stack: Stack): string[] {
  const variables = Object.keys(stack.resolve(resource.environment)?.variables ?? {});
  const ours = [...OURS_ALONE, ...(props.logDetail ? ['LOG_DETAIL'] : []), ...(props.logLevel ? ['LOG_LEVEL'] : [])];
  const taken = variables.filter((name) => ours.includes(name));
  return [
    ...(taken.length > 0
      ? [`${nameOf(own)} has ${taken.join(', ')} in its environment already; remove it there: Redeliver sets it, for one source queue alone.`]
      : []),
    ...(Token.isUnresolved(resource.timeout)
      ? [`${nameOf(own)} has a timeout that only the deployment knows, so that nothing can be checked against it; give it a number.`]
      : []),
  ];
}

/** Gives the function its settings. @throws GivenError if they are more than Lambda takes. */
export function configure({ function: own, resource }: UserFunction, environment: Readonly<Record<string, string>>): lambda.Function {
  Object.entries(environment).forEach(([name, value]) => own.addEnvironment(name, value));
  // As for our own functions: the loop is meant, and it ends.
  resource.recursiveLoop = lambda.RecursiveLoop.ALLOW;
  const all = Stack.of(own).resolve(resource.environment)?.variables ?? {};
  refuseTooLarge(own, { functionName: nameOf(own), environment: all });
  return own;
}

const CHANGE: Change = {
  by: 'Redeliver',
  settings: 'neither its environment nor its recursiveLoop',
  notOfAlias: 'whose environment cannot be set',
};

function changed(target: lambda.IFunction, stack: Stack): UserFunction | string {
  return changeable(target, nameOf(target), CHANGE, stack);
}

function nameOf({ node }: lambda.IFunction): string {
  return `target.function (${node.path})`;
}
