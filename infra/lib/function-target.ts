import { Duration, Stack, Token } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

import { refuseTooLarge } from './environment.ts';
import type { RedeliverProps, Strategy } from './props.ts';
import { changeable, type UserFunction } from './user-function.ts';

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
  vpc: 'set vpc on the function',
  maxConcurrentCalls: 'use target.handlerConcurrency',
  // The failed-message-processor could look, but only at what has failed: what succeeds would never be checked.
  dataSchema: 'check data in your handler, with a permanent error for what is wrong',
  bodySchema: 'check the body in your handler, with a permanent error for what is wrong',
} satisfies { readonly [K in keyof RedeliverProps]?: string };

/** What the construct reads of a user's function. */
export interface SaidOfFunction {
  readonly userFunction: UserFunction | undefined;
  readonly timeout: Duration | undefined;
  readonly reservedConcurrency: number | undefined;
  readonly maxConcurrentCalls: number | undefined;
}

/** What a function in the message-processor's place says of itself; nothing if there is none that can be changed. */
export function saidOfFunction(props: RedeliverProps, stack: Stack): SaidOfFunction {
  const found = userFunction(props, stack);
  const own = typeof found === 'string' ? undefined : found;
  const { timeout = LAMBDA_TIMEOUT_SECONDS, reservedConcurrentExecutions: reserved } = own?.resource ?? {};
  return {
    userFunction: own,
    // What only the deployment knows is refused elsewhere, or left alone.
    timeout: own === undefined || Token.isUnresolved(timeout) ? undefined : Duration.seconds(timeout),
    reservedConcurrency: Token.isUnresolved(reserved) ? undefined : reserved,
    maxConcurrentCalls: props.target.kind === 'function' ? props.target.handlerConcurrency : undefined,
  };
}

/** What is wrong with such a function, and with the props beside it, except numbers. */
export function functionProblems(props: RedeliverProps, strategy: Strategy, stack: Stack): string[] {
  const found = userFunction(props, stack);
  if (found === undefined) {
    return [];
  }
  const beside = Object.entries(INSTEAD).filter(([name]) => props[name as keyof typeof INSTEAD] !== undefined);
  return [
    ...(typeof found === 'string' ? [found] : templateProblems(found, props, stack)),
    ...(strategy === 'delayed-resend'
      ? []
      : [`strategy is ${strategy}, but target.function only hands off what failed; use delayed-resend, or another kind of target.`]),
    ...beside.map(([name, instead]) => `${name} is for redeliver's own message-processor, and target.function takes its place; remove it, and ${instead}.`),
  ];
}

/** What its template says, and redeliver would have to change or cannot know. */
function templateProblems({ function: own, resource }: UserFunction, props: RedeliverProps, stack: Stack): string[] {
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

/** Gives the function its settings. @throws RedeliverPropsError if they are more than Lambda takes. */
export function configure({ function: own, resource }: UserFunction, environment: Readonly<Record<string, string>>): lambda.Function {
  Object.entries(environment).forEach(([name, value]) => own.addEnvironment(name, value));
  // As for our own functions: the loop is meant, and it ends.
  resource.recursiveLoop = lambda.RecursiveLoop.ALLOW;
  const all = Stack.of(own).resolve(resource.environment)?.variables ?? {};
  refuseTooLarge(own, { functionName: nameOf(own), environment: all });
  return own;
}

/** The function, or why it cannot be changed; `undefined` if the target is none. */
function userFunction({ target }: RedeliverProps, stack: Stack): UserFunction | string | undefined {
  if (target.kind !== 'function') {
    return undefined;
  }
  const change = {
    by: 'Redeliver',
    settings: 'neither its environment nor its recursiveLoop',
    notOfAlias: 'whose environment cannot be set',
  };
  return changeable(target.function, nameOf(target.function), change, stack);
}

function nameOf({ node }: lambda.IFunction): string {
  return `target.function (${node.path})`;
}
