import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as sqs from 'aws-cdk-lib/aws-sqs';

import type { Alarm } from '../alarm';
import type { ProcessorSettings } from '../message-processor';
import { PERIOD } from '../metrics';
import type { Plan } from '../plan';
import { LONG_DELAY_SECONDS_MAX, longestDelaySeconds } from '../policy';
import type { LoopGraphs } from './definition';
import { redriveProblems } from './policy-problems';

/** The largest `maxReceiveCount` that SQS allows. */
export const RECEIVES_MAX = 1000;
/**
 * The maximum number of messages in flight per queue. At this limit, SQS delivers no more messages ("Amazon SQS message
 * quotas", "Amazon SQS FIFO queue quotas").
 */
const IN_FLIGHT_MAX = 120_000;
/** The share of an SQS quota at which an alarm fires. */
export const QUOTA_SHARE = 0.8;

/** Checks a policy against the limits of strategies that keep a failed message on its queue. */
export function onQueueProblems({ strategy, fullPolicy: policy, sourceVisibilityTimeout }: Plan): string[] {
  const problems = redriveProblems(policy);
  const visibility = sourceVisibilityTimeout.toSeconds();
  const longest = longestDelaySeconds(policy);
  if (longest > LONG_DELAY_SECONDS_MAX - visibility) {
    problems.push(
      `policy has a delay of ${longest} s; use at most ${LONG_DELAY_SECONDS_MAX - visibility} s with strategy ${strategy}: SQS hides a message for ` +
        `at most ${LONG_DELAY_SECONDS_MAX} s (12 hours) from its receive, of which the visibility timeout (${visibility} s) may have passed.`,
    );
  }
  return problems;
}

/** Returns the settings of a message-processor that hides failed messages on its queue. */
export function hidingProcessorSettings(plan: Plan, source: sqs.IQueue, annotation: sqs.Queue): Omit<ProcessorSettings, 'description'> {
  return {
    source,
    sendsTo: [annotation],
    rights: [new iam.PolicyStatement({ actions: ['sqs:ChangeMessageVisibility'], resources: [source.queueArn] })],
    environment: {
      STRATEGY: plan.strategy,
      SOURCE_QUEUE_URL: source.queueUrl,
      VISIBILITY_TIMEOUT_SECONDS: String(plan.sourceVisibilityTimeout.toSeconds()),
      RETENTION_SECONDS: String(plan.sourceRetention.toSeconds()),
      RETRY_POLICY: JSON.stringify(plan.policy),
      ANNOTATION_QUEUE_URL: annotation.queueUrl,
    },
  };
}

/** Returns the alarm on the number of messages in flight. `advice` is the recommended action, as a sentence. */
export function inFlightAlarm(source: sqs.IQueue, advice: string): Alarm {
  return {
    name: 'source-queue-in-flight',
    severity: 'page',
    isEssential: true,
    description:
      `More than ${QUOTA_SHARE * 100} % of the ${IN_FLIGHT_MAX} messages that SQS can hide for a queue are hidden, including those that ` +
      `wait for their retry. At the limit, SQS delivers no messages, not even new ones. ${advice}`,
    metric: source.metricApproximateNumberOfMessagesNotVisible({ period: PERIOD }),
    threshold: QUOTA_SHARE * IN_FLIGHT_MAX,
  };
}

export function onQueueGraphs(source: sqs.IQueue): LoopGraphs {
  return {
    // Every failure already counts as a retry or a dead letter.
    failed: [],
    fromProducers: source.metricNumberOfMessagesSent({ period: PERIOD, statistic: cloudwatch.Stats.SUM, label: 'from producers' }),
    // The scarce resource is SQS's quota for hidden messages.
    failures: {
      title: 'Received and not deleted: hidden until their retry, or worked on (at most 120,000)',
      left: [source.metricApproximateNumberOfMessagesNotVisible({ period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM, label: 'source' })],
      leftYAxis: { min: 0 },
    },
    hops: [],
  };
}
