import { Duration, RemovalPolicy, type Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import { fileURLToPath } from 'node:url';

import { problemsOf } from './checks.ts';
import { type Names, namesOf } from './names.ts';
import { maxAttempts, type RetryPolicy } from './policy.ts';
import type { CommonProps, RedeliverProps, Strategy } from './props.ts';
import { redeliverShapeProblems } from './props-shape.ts';
import { ofThisStack, saidOf } from './source-queue.ts';

/** What every construct's resources have in common. */
export interface Commons {
  readonly architecture: lambda.Architecture;
  readonly bundles: string;
  readonly logRetention: RetentionDays;
  readonly removalPolicy: RemovalPolicy;
}

/** What is to be deployed: the props with every default filled in, found to be sound. */
export interface Plan extends Commons {
  readonly names: Names;
  readonly strategy: Strategy;
  readonly policy: RetryPolicy;
  /** Of the source queue. */
  readonly maxReceiveCount: number;
  readonly sourceRetention: Duration;
  readonly sourceVisibilityTimeout: Duration;
  readonly batchSize: number;
  readonly maxConcurrentCalls: number;
  readonly maxConcurrency: number;
  readonly reservedConcurrency: number | undefined;
  /** The message-processor's. */
  readonly timeout: Duration;
  /** Of one call; a handler of your own has none but the function's. */
  readonly targetTimeout: Duration | undefined;
}

/** A wrong prop; the message is one sentence for each, saying what to change. */
export class RedeliverPropsError extends Error {
  constructor(problems: readonly string[]) {
    super(problems.join('\n'));
    this.name = 'RedeliverPropsError';
  }
}

/** "Configuring a queue to use with Lambda": the visibility timeout is at least six times the function's. */
export const VISIBILITY_FACTOR = 6;

/** When a message's age is an alarm, as a share of the retention: time enough to act before SQS deletes it. */
export const RETENTION_SHARE = 0.8;

/** Where the stack goes; tokens where nobody knows yet. */
export interface Place {
  readonly account: string;
  readonly region: string;
}

/** Of all queues but the source queue. A redriven message keeps its first clock, so it is longer than the source's. */
export const INNER_RETENTION = Duration.days(14);

/**
 * Receives that the retries leave over, with strategy `visibility`: for those that the function does not see, and those
 * after which it could not give the message up. Only then SQS moves it, without a reason.
 */
export const SPARE_RECEIVES = 10;

/**
 * Fills in the defaults and checks all of it.
 *
 * @param before what was found to be wrong already, told with the rest.
 * @throws RedeliverPropsError with everything that is wrong.
 */
export function planOf(props: RedeliverProps, stack: Stack, before: readonly string[] = []): Plan {
  const shape = redeliverShapeProblems(props);
  if (shape.length > 0) {
    refuse([...before, ...shape]);
  }
  const plan = withDefaults(props, stack);
  refuse([...before, ...problemsOf(props, plan, stack)]);
  return plan;
}

/** @throws RedeliverPropsError if there are problems. */
export function refuse(problems: readonly string[]): void {
  if (problems.length > 0) {
    throw new RedeliverPropsError(problems);
  }
}

function withDefaults(props: RedeliverProps, stack: Stack): Plan {
  const { target } = props;
  const timeout = props.timeout ?? Duration.seconds(60);
  const strategy = props.strategy ?? 'delayed-resend';
  const policy = withLongDelays(props.policy ?? {}, props.longDelays);
  const said = saidOf(ofThisStack(props.existingSourceQueue, stack));
  return {
    names: namesOf(props.prefix, props.stage),
    strategy,
    policy,
    maxReceiveCount: strategy === 'visibility' ? maxAttempts(policy) + SPARE_RECEIVES : (props.maxReceiveCount ?? 1),
    sourceRetention: props.sourceRetention ?? said.retention ?? Duration.days(7),
    sourceVisibilityTimeout:
      props.sourceVisibilityTimeout ?? said.visibilityTimeout ?? Duration.millis(VISIBILITY_FACTOR * timeout.toMilliseconds()),
    batchSize: props.batchSize ?? 10,
    maxConcurrentCalls: props.maxConcurrentCalls ?? 10,
    maxConcurrency: props.maxConcurrency ?? 10,
    reservedConcurrency: props.reservedConcurrency,
    timeout,
    targetTimeout: target.kind === 'handler' ? undefined : (target.timeout ?? Duration.seconds(30)),
    ...commonsOf(props),
  };
}

/** What every construct's resources have in common, with its defaults. */
export function commonsOf(props: CommonProps): Commons {
  return {
    architecture: props.architecture ?? lambda.Architecture.ARM_64,
    bundles: props.bundles ?? fileURLToPath(new URL('../../target/lambda', import.meta.url)),
    logRetention: props.logRetention ?? RetentionDays.ONE_MONTH,
    removalPolicy:
      props.removalPolicy === RemovalPolicy.DESTROY
        ? RemovalPolicy.DESTROY
        : // Kept, except after a first deployment that fails: its empty queues would be in the way of the next try.
          RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE,
  };
}

/** A contradiction of the two is told elsewhere. */
function withLongDelays(policy: RetryPolicy, longDelays: boolean | undefined): RetryPolicy {
  return longDelays !== undefined && policy.long_delays === undefined ? { ...policy, long_delays: longDelays } : policy;
}
