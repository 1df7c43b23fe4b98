import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { type Alarm, WAITING_SECONDS_MAX, waitsTooLong } from '../alarm';
import { createAnnotator } from '../annotator';
import { createMessageProcessor } from '../message-processor';
import { PERIOD } from '../metrics';
import type { NormalizedProps } from '../normalized-props';
import type { Plan } from '../plan';
import { LONG_DELAY_SECONDS_MAX, longestDelaySeconds, maxAttempts, worstCaseDelaySeconds } from '../policy';
import { createDeadLetterQueues, denyOtherSenders } from '../queues';
import { allowSource, createSourceQueue } from '../source-queue';
import type { Loop, StrategyDefinition } from './definition';

/**
 * Receives beyond the retries, for throttles, and for invocations that could not give the message up. After them SQS
 * moves the message without a reason.
 */
const SPARE_RECEIVES = 10;
/** The largest `maxReceiveCount` of SQS. */
const RECEIVES_MAX = 1000;
/** The most messages of a queue that can be in flight; SQS delivers no more then ("Amazon SQS message quotas"). */
const IN_FLIGHT_MAX = 120_000;
const IN_FLIGHT_SHARE = 0.8;
/** SQS leaves messages with more receives out of a queue's age ("Available CloudWatch metrics for Amazon SQS"). */
const RECEIVES_IN_AGE = 3;

/** Keeps failed messages on the source queue, hidden until their retry. */
export const visibility: StrategyDefinition = {
  maxReceiveCount: (_, policy) => maxAttempts(policy) + SPARE_RECEIVES,
  // Off, since each receive is an attempt, also of a held message.
  defaultPolicy: { circuit_breaker: false },
  sourceDlqTitle: 'annotation queue',
  // All retries share one retention period, after which SQS deletes the message.
  mayOutlastRetention: () => false,
  minRetention: { seconds: 60, why: 'the minimum of SQS' },
  expectedAgeSecondsMax: () => 0,
  holdAdvice: 'Each receive of a held message still spends an attempt: if the outage lasts, pause until the target is back.',
  unansweredCost: 'an attempt',
  propProblems,
  // maxReceiveCount follows from the policy; planProblems checks it.
  rangeProblems: () => [],
  planProblems,
  create,
};

function propProblems({ maxReceiveCount }: NormalizedProps): string[] {
  if (maxReceiveCount === undefined) {
    return [];
  }
  return [
    'maxReceiveCount only applies to the strategies delayed-resend and direct-resend; remove it: with visibility each retry is a receive, and SQS moves a ' +
      `message after max_attempts + ${SPARE_RECEIVES} of them.`,
  ];
}

/** Checks a policy against the limits of hiding messages ("Amazon SQS message quotas"). */
function planProblems({ policy, maxReceiveCount, sourceVisibilityTimeout }: Plan): string[] {
  const problems: string[] = [];
  // The annotation queue's count is higher still, since a moved message keeps its receives.
  if (maxReceiveCount + SPARE_RECEIVES > RECEIVES_MAX) {
    problems.push(
      `policy/max_attempts is ${maxAttempts(policy)}; use at most ${RECEIVES_MAX - 2 * SPARE_RECEIVES} with strategy visibility: SQS moves a ` +
        `message after max_attempts + ${SPARE_RECEIVES} receives, the annotation queue keeps it for ${SPARE_RECEIVES} more, and SQS counts to ${RECEIVES_MAX}.`,
    );
  }
  if (policy.max_redelivery_per_second !== undefined) {
    problems.push('policy/max_redelivery_per_second only applies to the strategies delayed-resend and direct-resend; remove it: with visibility nothing is re-sent.');
  }
  if (policy.max_redrives !== undefined) {
    problems.push('policy/max_redrives only applies to the strategies delayed-resend and direct-resend: remove it.');
  }
  const visibility = sourceVisibilityTimeout.toSeconds();
  const longest = longestDelaySeconds(policy);
  if (longest > LONG_DELAY_SECONDS_MAX - visibility) {
    problems.push(
      `policy has a delay of ${longest} s; use at most ${LONG_DELAY_SECONDS_MAX - visibility} s with strategy visibility: SQS hides a message for ` +
        `at most ${LONG_DELAY_SECONDS_MAX} s (12 hours) from its receive, of which the visibility timeout (${visibility} s) may have passed.`,
    );
  }
  return problems;
}

function create(scope: Construct, props: NormalizedProps, plan: Plan): Loop {
  const allow = allowSource(scope, props, plan);
  const dead = createDeadLetterQueues(scope, plan, plan.names, { allow, maxReceiveCount: plan.maxReceiveCount });
  const source = createSourceQueue(scope, props, plan, dead.annotation);

  const messageProcessor = createMessageProcessor(scope, props, plan, {
    description: 'Validates each message and calls the target; hides failures on the source queue until their retry.',
    source,
    sendsTo: [dead.annotation],
    rights: [new iam.PolicyStatement({ actions: ['sqs:ChangeMessageVisibility'], resources: [source.queueArn] })],
    environment: {
      STRATEGY: 'visibility',
      SOURCE_QUEUE_URL: source.queueUrl,
      VISIBILITY_TIMEOUT_SECONDS: String(plan.sourceVisibilityTimeout.toSeconds()),
      RETENTION_SECONDS: String(plan.sourceRetention.toSeconds()),
      RETRY_POLICY: JSON.stringify(plan.policy),
      ANNOTATION_QUEUE_URL: dead.annotation.queueUrl,
    },
  });
  const finalDlqAnnotator = createAnnotator(scope, plan, plan.names.finalDlqAnnotator, dead);
  denyOtherSenders(dead.annotation, [messageProcessor]);
  denyOtherSenders(dead.finalDlq, [finalDlqAnnotator]);

  return {
    ...dead,
    source,
    sourceDlq: dead.annotation,
    stages: [],
    messageProcessor,
    finalDlqAnnotator,
    schedulers: [messageProcessor],
    alarms: [
      // The age that SQS reports includes the first retries.
      waitsTooLong('source-queue', source, 'message-processor', WAITING_SECONDS_MAX + worstCaseDelaySeconds(plan.policy, RECEIVES_IN_AGE)),
      waitsTooLong('annotation-queue', dead.annotation, 'final-dlq-annotator'),
      inFlight(source),
    ],
    graphs: {
      // Every failure is a retry or a dead letter.
      failed: [],
      fromProducers: source.metricNumberOfMessagesSent({ period: PERIOD, statistic: cloudwatch.Stats.SUM, label: 'from producers' }),
      // The scarce resource is the number of hidden messages.
      failures: {
        title: 'Received and not deleted: hidden until their retry, or worked on (at most 120,000)',
        left: [source.metricApproximateNumberOfMessagesNotVisible({ period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM, label: 'source' })],
        leftYAxis: { min: 0 },
      },
      delayEvents: [],
    },
  };
}

function inFlight(source: sqs.IQueue): Alarm {
  return {
    name: 'source-queue-in-flight',
    severity: 'page',
    isEssential: true,
    description:
      `More than ${IN_FLIGHT_SHARE * 100} % of the ${IN_FLIGHT_MAX} messages that SQS can hide for a queue are hidden, including those that ` +
      'wait for their retry. At the limit, SQS delivers no messages, not even new ones. Look at the target; shorten the ' +
      'delays, or use strategy delayed-resend or direct-resend.',
    metric: source.metricApproximateNumberOfMessagesNotVisible({ period: PERIOD }),
    threshold: IN_FLIGHT_SHARE * IN_FLIGHT_MAX,
  };
}
