import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { type Alarm, WAITING_SECONDS_MAX, waitsTooLong } from '../alarm';
import { createAnnotator } from '../function';
import type { Given } from '../given';
import { createMessageProcessor } from '../message-processor';
import { PERIOD } from '../metrics';
import type { Plan } from '../plan';
import { LONG_DELAY_SECONDS_MAX, longestDelaySeconds, maxAttempts, worstCaseDelaySeconds } from '../policy';
import { createDeadLetterQueues, denyOtherSenders } from '../queues';
import { allowSource, createSourceQueue } from '../source-queue';
import type { Loop, StrategyDefinition } from './definition';

/**
 * Receives that the retries leave over: for those that the function does not see, and those after which it could not give
 * the message up. Only then SQS moves it, without a reason.
 */
const SPARE_RECEIVES = 10;
/** The largest `maxReceiveCount` of SQS. */
const RECEIVES_MAX = 1000;
/** "Amazon SQS message quotas": so many messages of a queue can be received and not deleted; it gives out no more then. */
const IN_FLIGHT_MAX = 120_000;
const IN_FLIGHT_SHARE = 0.8;
/** SQS leaves messages out of a queue's age once they were received more often ("Available CloudWatch metrics for Amazon SQS"). */
const RECEIVES_IN_AGE = 3;

/** A message that failed stays on the source queue, hidden until its retry. */
export const visibility: StrategyDefinition = {
  maxReceiveCount: (_, policy) => maxAttempts(policy) + SPARE_RECEIVES,
  // Each receive is an attempt, so that to hold a message is not free.
  defaultPolicy: { circuit_breaker: false },
  sourceDlqTitle: 'annotation queue',
  // A message has one clock for all its retries: SQS deletes what outlasts the retention.
  mayOutlastRetention: () => false,
  leastRetention: { seconds: 60, why: 'SQS keeps no message for less' },
  meantAgeSeconds: () => 0,
  heldCosts: 'Each receive of a held message spends an attempt all the same: if it lasts, pause until the target is back.',
  unansweredCosts: 'an attempt',
  propProblems,
  // The receives follow from the policy, and are looked at with it.
  rangeProblems: () => [],
  planProblems,
  create,
};

function propProblems({ maxReceiveCount }: Given): string[] {
  if (maxReceiveCount === undefined) {
    return [];
  }
  return [
    'maxReceiveCount is for the strategies delayed-resend and direct-resend; remove it: with visibility each retry is a receive, and SQS moves a ' +
      `message after max_attempts + ${SPARE_RECEIVES} of them.`,
  ];
}

/** What SQS can do of a policy by hiding a message ("Amazon SQS message quotas"). */
function planProblems({ policy, maxReceiveCount, sourceVisibilityTimeout }: Plan): string[] {
  const problems: string[] = [];
  // The annotation queue's count is higher still: a moved message brings its receives along.
  if (maxReceiveCount + SPARE_RECEIVES > RECEIVES_MAX) {
    problems.push(
      `policy/max_attempts is ${maxAttempts(policy)}; use at most ${RECEIVES_MAX - 2 * SPARE_RECEIVES} with strategy visibility: SQS moves a ` +
        `message after max_attempts + ${SPARE_RECEIVES} receives, the annotation queue keeps it for ${SPARE_RECEIVES} more, and SQS counts to ${RECEIVES_MAX}.`,
    );
  }
  if (policy.max_redelivery_per_second !== undefined) {
    problems.push('policy/max_redelivery_per_second is for the strategies delayed-resend and direct-resend; remove it: with visibility nothing is sent again.');
  }
  if (policy.max_redrives !== undefined) {
    problems.push('policy/max_redrives is for the strategies delayed-resend and direct-resend: remove it.');
  }
  const visibility = sourceVisibilityTimeout.toSeconds();
  const longest = longestDelaySeconds(policy);
  if (longest > LONG_DELAY_SECONDS_MAX - visibility) {
    problems.push(
      `policy has a delay of ${longest} s; use at most ${LONG_DELAY_SECONDS_MAX - visibility} s with strategy visibility: SQS hides a message for ` +
        `${LONG_DELAY_SECONDS_MAX} s (12 hours) from its receive, of which the visibility timeout (${visibility} s) may have passed.`,
    );
  }
  return problems;
}

function create(scope: Construct, props: Given, plan: Plan): Loop {
  const { encryptionKey: key } = props;
  const allow = allowSource(scope, props, plan);
  const dead = createDeadLetterQueues(scope, plan, plan.names, key, { allow, maxReceiveCount: plan.maxReceiveCount });
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
  const finalDlqAnnotator = createAnnotator(scope, plan, plan.names.finalDlqAnnotator, key, dead);
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
      // Its first retries are part of the age that SQS tells.
      waitsTooLong('source-queue', source, 'message-processor', WAITING_SECONDS_MAX + worstCaseDelaySeconds(plan.policy, RECEIVES_IN_AGE)),
      waitsTooLong('annotation-queue', dead.annotation, 'final-dlq-annotator'),
      inFlight(source),
    ],
    graphs: {
      // Every failure is a retry or a dead letter.
      failed: [],
      fromProducers: source.metricNumberOfMessagesSent({ period: PERIOD, statistic: cloudwatch.Stats.SUM, label: 'from producers' }),
      // What can run out is the room for hidden messages.
      failures: {
        title: 'Received and not deleted: hidden until their retry, or worked on (at most 120,000)',
        left: [source.metricApproximateNumberOfMessagesNotVisible({ period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM, label: 'source' })],
        leftYAxis: { min: 0 },
      },
      besideDelays: [],
    },
  };
}

function inFlight(source: sqs.IQueue): Alarm {
  return {
    name: 'source-queue-in-flight',
    description:
      `Of the ${IN_FLIGHT_MAX} messages that SQS hides for a queue at most, ${IN_FLIGHT_SHARE * 100} % are hidden: those that wait for their ` +
      'retry are among them. At the limit no message is given out, new ones neither. Look at the target; shorten the ' +
      'delays, or use strategy delayed-resend or direct-resend.',
    metric: source.metricApproximateNumberOfMessagesNotVisible({ period: PERIOD }),
    threshold: IN_FLIGHT_SHARE * IN_FLIGHT_MAX,
  };
}
