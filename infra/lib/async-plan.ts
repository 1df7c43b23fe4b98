import { Stack } from 'aws-cdk-lib';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import { topicProblems } from './alarm-topic';
import { type Commons, commonsOf } from './commons';
import { bytesInEnvironment, ENVIRONMENT_BYTES_MAX } from './environment';
import { innerConcurrencyProblems } from './function';
import { givenAsyncOf } from './given';
import { type AsyncNames, asyncNamesOf, nameProblems, takenProblems } from './names';
import type { PolicyDocument } from './policy';
import { inWordsOfTheConstruct } from './policy-document';
import type { AsyncRetryProps } from './props';
import { refuse } from './props-error';
import { policyProblems } from './schemas';
import { type Change, changeable, type UserFunction } from './user-function';

/** What is to be deployed, found to be sound. */
export interface AsyncPlan extends Commons {
  readonly names: AsyncNames;
  /** `undefined`: the handler's own default. */
  readonly policy: PolicyDocument | undefined;
  readonly functions: readonly UserFunction[];
}

/** The two queues' URLs and the variables' names. */
const OTHER_BYTES = 512;
/** `arn:aws-us-gov:lambda:us-gov-west-1:111122223333:function:` with a name of 64 characters, and a comma. */
const ARN_BYTES = 124;

/**
 * Fills in the defaults and checks all of it.
 *
 * @param scope where the construct is.
 * @throws RedeliverPropsError with everything that is wrong.
 */
export function asyncPlanOf(given: AsyncRetryProps, scope: Construct): AsyncPlan {
  const props = givenAsyncOf(given);
  const names = asyncNamesOf(props.prefix, props.stage);
  const functions = props.functions.map((target, index) => retried(target, index, props.functions, Stack.of(scope)));
  const problems = [
    ...nameProblems(names),
    ...takenProblems(names, Stack.of(scope)),
    ...topicProblems(props.alarmTopic, Stack.of(scope)),
    ...innerConcurrencyProblems(props),
    ...(props.functions.length === 0
      ? ['functions is empty; name the functions whose failed asynchronous invocations are to be retried.']
      : []),
    ...functions.filter((found) => typeof found === 'string'),
    // Without a policy, too: the functions alone can be more than fits.
    ...ownPolicyProblems(props.policy ?? {}, props.functions.length),
  ];
  refuse(props.isDocument ? problems : problems.map(inWordsOfTheConstruct));
  return { names, policy: props.policy, functions: functions.filter((found) => typeof found !== 'string'), ...commonsOf(props) };
}

function ownPolicyProblems(policy: PolicyDocument, functions: number): string[] {
  // What is absent is as in the handler's own policy, which has long delays.
  const problems = policyProblems({ long_delays: true, ...policy });
  if (problems.length > 0) {
    return problems;
  }
  if (policy.long_delays === false && policy.backoff === undefined && policy.preset === undefined) {
    problems.push("policy/long_delays is false, but AsyncRetry's own delays are up to 12 hours; give a backoff or a preset, too.");
  }
  if (policy.immediate !== undefined) {
    problems.push('policy/immediate is for calls that are waited for, and an asynchronous invocation is not; remove it.');
  }
  if (policy.circuit_breaker) {
    problems.push('policy/circuit_breaker is set, but Lambda has called the function before this one sees it: remove it.');
  }
  if (policy.max_redrives !== undefined) {
    problems.push('policy/max_redrives is for the strategies delayed-resend and direct-resend: remove it.');
  }
  if (policy.max_redelivery_per_second !== undefined) {
    problems.push('policy/max_redelivery_per_second is for messages that are sent to a source queue again; remove it.');
  }
  const bytes = bytesInEnvironment(JSON.stringify(policy)) + functions * ARN_BYTES + OTHER_BYTES;
  if (bytes > ENVIRONMENT_BYTES_MAX) {
    problems.push(
      `policy and functions may take ${bytes} bytes of the function's environment, which has ${ENVIRONMENT_BYTES_MAX}; shorten the policy's lists, ` +
        'or use two AsyncRetry with a part of the functions each.',
    );
  }
  return problems;
}

const CHANGE: Change = {
  by: 'AsyncRetry',
  settings: 'neither its recursiveLoop nor its on-failure destination',
  notOfAlias: 'which has settings of its own for asynchronous invocations',
};

/** The function, or what is wrong with it. */
function retried(
  target: lambda.IFunction,
  index: number,
  all: readonly lambda.IFunction[],
  stack: Stack,
): UserFunction | string {
  const what = `functions[${index}] (${target.node.path})`;
  const first = all.indexOf(target);
  if (first < index) {
    return `${what} is functions[${first}] again; name it once.`;
  }
  const found = changeable(target, what, CHANGE, stack);
  if (typeof found === 'string') {
    return found;
  }
  if (target.node.tryFindChild('EventInvokeConfig')) {
    return `${what} has onFailure, onSuccess, retryAttempts or maxEventAge already; remove them: AsyncRetry sets the first and the third.`;
  }
  if (found.resource.deadLetterConfig !== undefined) {
    return `${what} has a dead-letter queue, which would get each failed attempt; remove it: what is given up is in the final DLQ.`;
  }
  return found;
}
