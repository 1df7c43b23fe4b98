import { Duration, Stack } from 'aws-cdk-lib';
import type { Construct } from 'constructs';

import { problemsOf } from './checks';
import { commonSettingsOf } from './common-settings';
import { readerOf } from './function-target';
import { namesOf } from './names';
import type { NormalizedProps } from './normalized-props';
import { INNER_RETENTION, type Plan, VISIBILITY_FACTOR } from './plan';
import { type PolicyDocument, withDefaultsOf } from './policy';
import { withPropNames } from './policy-document';
import { refuse } from './props-error';
import { durationsInTemplate, keyOf, queueOfThisStack } from './source-queue';
import { DEFAULT_STRATEGY, STRATEGIES } from './strategy/index';

/**
 * Fills in the defaults and checks all props.
 *
 * @param scope the construct, or its stack.
 * @param before problems found earlier, reported with the rest.
 * @throws RedeliverPropsError with all problems.
 */
export function planOf(props: NormalizedProps, scope: Construct, before: readonly string[] = []): Plan {
  const plan = withDefaults(props, Stack.of(scope));
  const problems = problemsOf(props, plan, scope);
  refuse([...before, ...(props.isDocument ? problems : problems.map(withPropNames))]);
  return plan;
}

/** The number of concurrent invocations per provisioned poller ("Provisioned mode" of SQS event source mappings). */
const INVOCATIONS_PER_POLLER = 10;

function withDefaults(props: NormalizedProps, stack: Stack): Plan {
  const { target } = props;
  const reader = readerOf(props, stack);
  const timeout = reader.timeout ?? Duration.seconds(60);
  const strategy = props.strategy ?? DEFAULT_STRATEGY;
  const { isFifo, defaultPolicy } = STRATEGIES[strategy];
  const policy = withLongDelays(props.policy ?? {}, props.longDelays);
  const fullPolicy = withDefaultsOf(defaultPolicy, policy);
  const { provisionedPollers } = props;
  const pollers = provisionedPollers && { minimum: provisionedPollers.minimum ?? 2, maximum: provisionedPollers.maximum };
  const inTemplate = durationsInTemplate(queueOfThisStack(props.existingSourceQueue, stack));
  const givenVisibility = props.sourceVisibilityTimeout ?? inTemplate.visibilityTimeout;
  const maxBatchingWindow = props.maxBatchingWindow ?? defaultBatchingWindow(isFifo, timeout, givenVisibility);
  return {
    names: namesOf(props.prefix, props.stage, isFifo),
    strategy,
    policy,
    fullPolicy,
    isFifo,
    hasCircuitBreaker: fullPolicy.circuit_breaker !== false,
    maxReceiveCount: STRATEGIES[strategy].maxReceiveCount(props, policy),
    // In a FIFO queue, messages wait behind a failed message in their group.
    sourceRetention: props.sourceRetention ?? inTemplate.retention ?? (isFifo ? INNER_RETENTION : Duration.days(7)),
    sourceVisibilityTimeout:
      // Rounded up, so that a fractional timeout or window is reported only once, under its own name.
      givenVisibility ?? Duration.seconds(Math.ceil(visibilityMillis(timeout, maxBatchingWindow) / 1000)),
    // In a larger batch from a FIFO queue, messages that wait behind a failed one also count as received.
    batchSize: props.batchSize ?? (isFifo ? 1 : 10),
    maxBatchingWindow,
    userFunction: reader.userFunction,
    maxConcurrentCalls: reader.maxConcurrentCalls ?? 10,
    maxConcurrency: pollers ? INVOCATIONS_PER_POLLER * pollers.maximum : (props.maxConcurrency ?? 10),
    pollers,
    reservedConcurrency: reader.reservedConcurrency,
    timeout,
    targetTimeout: target.kind === 'handler' || target.kind === 'function' ? undefined : (target.timeout ?? Duration.seconds(30)),
    ...commonSettingsOf(props, stack),
    encryptionKey: props.encryptionKey ?? keyOf(props.existingSourceQueue),
  };
}

/**
 * Returns one second, which makes batches fuller during outages and at a few messages per second (see the table in
 * docs/scale.md). Returns zero for FIFO queues, which have no batching window, and if the given visibility timeout
 * is too short for such a window.
 */
function defaultBatchingWindow(isFifo: boolean, timeout: Duration, visibility: Duration | undefined): Duration {
  const second = Duration.seconds(1);
  const hasRoom = visibility === undefined || visibility.toMilliseconds() >= visibilityMillis(timeout, second);
  return hasRoom && !isFifo ? second : Duration.seconds(0);
}

/** Returns the minimum visibility timeout, in milliseconds. */
function visibilityMillis(timeout: Duration, batchingWindow: Duration): number {
  return VISIBILITY_FACTOR * timeout.toMilliseconds() + batchingWindow.toMilliseconds();
}

/** Returns the policy with the prop `longDelays` applied. checks.ts reports contradictions between the two. */
function withLongDelays(policy: PolicyDocument, longDelays: boolean | undefined): PolicyDocument {
  return longDelays !== undefined && policy.long_delays === undefined ? { ...policy, long_delays: longDelays } : policy;
}
