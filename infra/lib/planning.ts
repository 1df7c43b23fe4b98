import { Duration, type Stack } from 'aws-cdk-lib';

import { problemsOf } from './checks';
import { commonsOf } from './commons';
import { readerOf } from './function-target';
import type { Given } from './given';
import { namesOf } from './names';
import { type Plan, VISIBILITY_FACTOR } from './plan';
import type { PolicyDocument } from './policy';
import { inWordsOfTheConstruct } from './policy-document';
import { refuse } from './props-error';
import { ofThisStack, saidOf } from './source-queue';
import { STRATEGIES, Strategy } from './strategy/index';

/**
 * Fills in the defaults and checks all of it.
 *
 * @param before what was found to be wrong already, said with the rest.
 * @throws RedeliverPropsError with everything that is wrong.
 */
export function planOf(props: Given, stack: Stack, before: readonly string[] = []): Plan {
  const plan = withDefaults(props, stack);
  const problems = problemsOf(props, plan, stack);
  refuse([...before, ...(props.isDocument ? problems : problems.map(inWordsOfTheConstruct))]);
  return plan;
}

/** "Provisioned mode" of SQS event source mappings: so many invocations of one poller run at the same time. */
const INVOCATIONS_OF_A_POLLER = 10;

function withDefaults(props: Given, stack: Stack): Plan {
  const { target } = props;
  const reader = readerOf(props, stack);
  const timeout = reader.timeout ?? Duration.seconds(60);
  const strategy = props.strategy ?? Strategy.DELAYED_RESEND;
  const policy = withLongDelays(props.policy ?? {}, props.longDelays);
  const maxBatchingWindow = props.maxBatchingWindow ?? Duration.seconds(0);
  const { provisionedPollers: asked } = props;
  const pollers = asked && { minimum: asked.minimum ?? 2, maximum: asked.maximum ?? 200 };
  const said = saidOf(ofThisStack(props.existingSourceQueue, stack));
  return {
    names: namesOf(props.prefix, props.stage),
    strategy,
    policy,
    hasCircuitBreaker: { ...STRATEGIES[strategy].defaultPolicy, ...policy }.circuit_breaker !== false,
    maxReceiveCount: STRATEGIES[strategy].maxReceiveCount(props, policy),
    sourceRetention: props.sourceRetention ?? said.retention ?? Duration.days(7),
    sourceVisibilityTimeout:
      props.sourceVisibilityTimeout ??
      said.visibilityTimeout ??
      // Whole seconds, so that of a timeout or a window with a fraction nothing more is said than that.
      Duration.seconds(Math.ceil((VISIBILITY_FACTOR * timeout.toMilliseconds() + maxBatchingWindow.toMilliseconds()) / 1000)),
    batchSize: props.batchSize ?? 10,
    maxBatchingWindow,
    userFunction: reader.userFunction,
    maxConcurrentCalls: reader.maxConcurrentCalls ?? 10,
    maxConcurrency: pollers ? INVOCATIONS_OF_A_POLLER * pollers.maximum : (props.maxConcurrency ?? 10),
    pollers,
    reservedConcurrency: reader.reservedConcurrency,
    timeout,
    targetTimeout: target.kind === 'handler' || target.kind === 'function' ? undefined : (target.timeout ?? Duration.seconds(30)),
    ...commonsOf(props),
  };
}

/** A contradiction of the two is reported elsewhere. */
function withLongDelays(policy: PolicyDocument, longDelays: boolean | undefined): PolicyDocument {
  return longDelays !== undefined && policy.long_delays === undefined ? { ...policy, long_delays: longDelays } : policy;
}
