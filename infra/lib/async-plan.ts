import { Stack } from 'aws-cdk-lib';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import { topicProblems } from './alarm-topic';
import { archiveProblems } from './archive';
import { type CommonSettings, commonSettingsOf } from './common-settings';
import { bytesInEnvironment, ENVIRONMENT_BYTES_MAX } from './environment';
import { innerConcurrencyProblems } from './function';
import { type AsyncNames, asyncNamesOf, duplicateNameProblems, nameProblems } from './names';
import { normalizeAsyncProps } from './normalized-props';
import { notifyProblems } from './notify';
import type { PolicyDocument } from './policy';
import { withPropNames } from './policy-document';
import type { AsyncRetryProps } from './props';
import { refuse } from './props-error';
import { keyProblems } from './queue-key';
import { elsewhereProblems, regionProblems } from './region';
import { policyProblems } from './schemas';
import { blockProblems, redriveProblems } from './strategy/policy-problems';
import { type Change, modifiableFunction, type UserFunction } from './user-function';

/** The checked props of an `AsyncRetry` with every default filled in. */
export interface AsyncPlan extends CommonSettings {
  readonly names: AsyncNames;
  /** `undefined` for the handler's own default. */
  readonly policy: PolicyDocument | undefined;
  readonly functions: readonly UserFunction[];
}

/** The space reserved for the two queues' URLs and the variables' names. */
const OTHER_BYTES = 512;
/**
 * The longest ARN: `arn:aws-us-gov:lambda:us-gov-west-1:111122223333:function:` with a name of 64 characters, and a
 * comma.
 */
const ARN_BYTES = 124;

/**
 * Fills in the defaults and checks all props.
 *
 * @param scope the construct.
 * @throws RedeliverPropsError with all problems.
 */
export function asyncPlanOf(given: AsyncRetryProps, scope: Construct): AsyncPlan {
  const props = normalizeAsyncProps(given);
  const names = asyncNamesOf(props.prefix, props.stage);
  const settings = commonSettingsOf(props, Stack.of(scope));
  const functions = props.functions.map((target, index) => retriedFunction(target, index, props.functions, Stack.of(scope)));
  const problems = [
    ...nameProblems(names),
    ...duplicateNameProblems(names, scope),
    ...topicProblems(props, Stack.of(scope)),
    ...archiveProblems(props, Stack.of(scope)),
    ...notifyProblems(props.notify, Stack.of(scope)),
    ...keyProblems('encryptionKey', props.encryptionKey, Stack.of(scope)),
    ...(props.logEncryptionKey ? elsewhereProblems('logEncryptionKey', 'a key', props.logEncryptionKey, Stack.of(scope)) : []),
    ...(props.environmentEncryptionKey ? elsewhereProblems('environmentEncryptionKey', 'a key', props.environmentEncryptionKey, Stack.of(scope)) : []),
    ...innerConcurrencyProblems(settings),
    ...regionProblems(props, Stack.of(scope)),
    ...(props.functions.length === 0
      ? ['functions is empty; list the functions whose failed asynchronous invocations are retried.']
      : []),
    ...functions.filter((found) => typeof found === 'string'),
    // Checked even without a policy: the functions alone can exceed the environment's size.
    ...ownPolicyProblems(props.policy ?? {}, props.functions.length),
  ];
  refuse(props.isDocument ? problems : problems.map(withPropNames));
  return { names, policy: props.policy, functions: functions.filter((found) => typeof found !== 'string'), ...settings };
}

function ownPolicyProblems(policy: PolicyDocument, functions: number): string[] {
  // The handler's default policy has long delays.
  const problems = policyProblems({ long_delays: true, ...policy });
  if (problems.length > 0) {
    return problems;
  }
  if (policy.long_delays === false && policy.backoff === undefined && policy.preset === undefined) {
    problems.push("policy/long_delays is false, but AsyncRetry's default delays reach 12 hours; also set a backoff or a preset.");
  }
  if (policy.immediate !== undefined) {
    problems.push('policy/immediate does not apply to asynchronous invocations, whose result is not awaited; remove it.');
  }
  if (policy.circuit_breaker) {
    problems.push('policy/circuit_breaker does not apply to asynchronous invocations: Lambda makes the first call itself; remove it.');
  }
  problems.push(...redriveProblems(policy), ...blockProblems(policy));
  const bytes = bytesInEnvironment(JSON.stringify(policy)) + functions * ARN_BYTES + OTHER_BYTES;
  if (bytes > ENVIRONMENT_BYTES_MAX) {
    problems.push(
      `policy and functions may take ${bytes} bytes of the function's environment, which holds ${ENVIRONMENT_BYTES_MAX}; shorten the policy's lists, ` +
        'or split the functions between two AsyncRetry constructs.',
    );
  }
  return problems;
}

const CHANGE: Change = {
  by: 'AsyncRetry',
  settings: 'neither its recursiveLoop nor its on-failure destination',
  whyNoAlias: 'which has settings of its own for asynchronous invocations',
};

/** Returns the function, or the problem with it. */
function retriedFunction(
  target: lambda.IFunction,
  index: number,
  all: readonly lambda.IFunction[],
  stack: Stack,
): UserFunction | string {
  const label = `functions[${index}] (${target.node.path})`;
  const first = all.indexOf(target);
  if (first < index) {
    return `${label} is functions[${first}] again; list it once.`;
  }
  const found = modifiableFunction(target, label, CHANGE, stack);
  if (typeof found === 'string') {
    return found;
  }
  if (target.node.tryFindChild('EventInvokeConfig')) {
    return `${label} has onFailure, onSuccess, retryAttempts or maxEventAge already; remove them: AsyncRetry sets the first and the third.`;
  }
  if (found.resource.tenancyConfig !== undefined) {
    return `${label} is in tenant isolation mode, in which Lambda refuses retries: its record of a failed invocation has no tenant id; remove it from functions.`;
  }
  if (found.resource.deadLetterConfig !== undefined) {
    return `${label} has a dead-letter queue, which would get every failed attempt; remove it: invocations that are given up go to the final DLQ.`;
  }
  return found;
}
