import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { type Alarm, deadLetters, loopStopped, raise, readerFails, WAITING_SECONDS_MAX, waitsTooLong } from './alarm.ts';
import type { Functions } from './functions.ts';
import { own, PERIOD } from './metrics.ts';
import { INNER_RETENTION, type Plan, RETENTION_SHARE } from './plan.ts';
import { DELAY_SECONDS_MAX, worstCaseDelaySeconds, worstCaseSpanSeconds } from './policy.ts';
import type { RedeliverProps } from './props.ts';
import type { Queues } from './queues.ts';
import { targetLoop } from './target-alarm.ts';

const BACKLOG_MAX = 1000;
/** "Amazon SQS message quotas": so many messages of a queue can be received and not deleted; it gives out no more then. */
const IN_FLIGHT_MAX = 120_000;
const IN_FLIGHT_SHARE = 0.8;
/** SQS leaves messages out of a queue's age once they were received more often ("Available CloudWatch metrics for Amazon SQS"). */
const RECEIVES_IN_AGE = 3;

/** Creates the alarms, named after what they mean. */
export function createAlarms(
  scope: Construct,
  props: RedeliverProps,
  plan: Plan,
  queues: Queues,
  functions: Functions,
): cloudwatch.Alarm[] {
  return raise(scope, plan.names.prefix, props.alarmTopic, [
    ...deadLetters(queues),
    ...waiting(plan, queues),
    ...arrivals(plan, functions),
    ...pace(plan, functions),
    ...messageAges(plan, functions),
    ...failures(functions),
    ...(props.target.kind === 'lambda' ? targetLoop(scope, props.target.function) : []),
  ]);
}

function waiting(plan: Plan, { source, intermediateDlq, annotation }: Queues): Alarm[] {
  const read = waitsTooLong('annotation-queue', annotation, 'final-dlq-annotator');
  if (!intermediateDlq) {
    // Its first retries are part of the age that SQS tells.
    const hidden = worstCaseDelaySeconds(plan.policy, RECEIVES_IN_AGE);
    return [
      waitsTooLong('source-queue', source, 'message-processor', WAITING_SECONDS_MAX + hidden),
      read,
      inFlight(source),
    ];
  }
  return [
    waitsTooLong('source-queue', source, 'message-processor'),
    // A hop is a new message with a new age.
    waitsTooLong('intermediate-dlq', intermediateDlq, 'failed-message-processor'),
    read,
    {
      name: 'intermediate-dlq-backlog',
      description:
        `More than ${BACKLOG_MAX} failed messages wait for their retry to be scheduled, for a quarter of an hour. ` +
        'Look at the target first, then at the failed-message-processor.',
      metric: intermediateDlq.metricApproximateNumberOfMessagesVisible({ period: PERIOD }),
      threshold: BACKLOG_MAX,
      periods: 3,
    },
  ];
}

function inFlight(source: sqs.IQueue): Alarm {
  return {
    name: 'source-queue-in-flight',
    description:
      `Of the ${IN_FLIGHT_MAX} messages that SQS hides for a queue at most, ${IN_FLIGHT_SHARE * 100} % are hidden: those that wait for their ` +
      'retry are among them. At the limit no message is given out, new ones neither. Look at the target; shorten the ' +
      'delays, or use strategy delayed-resend.',
    metric: source.metricApproximateNumberOfMessagesNotVisible({ period: PERIOD }),
    threshold: IN_FLIGHT_SHARE * IN_FLIGHT_MAX,
  };
}

function arrivals({ maxReceiveCount }: Plan, { failedMessageProcessor }: Functions): Alarm[] {
  if (!failedMessageProcessor) {
    return [];
  }
  return [
    {
      name: 'moved-by-redrive',
      description:
        'SQS moved messages to the intermediate DLQ, not the message-processor: it crashed, timed out, was throttled, ' +
        'or could not send. Each cost an attempt that the target may not have seen. Look at its errors and duration.',
      metric: own('ArrivedByRedrive', failedMessageProcessor),
      threshold: 0,
    },
    {
      name: 'intermediate-dlq-keeps-failing',
      description:
        'A message failed at least three times in the intermediate DLQ itself: it can be neither sent again nor given up. Look ' +
        "at the failed-message-processor's log for not_confirmed.",
      metric: own('ReceiveCount', failedMessageProcessor, cloudwatch.Stats.MAXIMUM),
      // A redrive does not reset the count: a moved message comes with the source queue's receives.
      threshold: maxReceiveCount + 3,
    },
  ];
}

function pace({ policy }: Plan, { failedMessageProcessor }: Functions): Alarm[] {
  const rate = policy.max_redelivery_per_second;
  if (rate === undefined || !failedMessageProcessor) {
    return [];
  }
  return [
    {
      name: 'redelivery-rate-not-held',
      description:
        `So many messages wait for their retry that delays of ${DELAY_SECONDS_MAX} s cannot hold ${rate} a second, for a quarter of an ` +
        'hour: the target gets more. Look at the target, or lower maxConcurrency.',
      metric: own('RedeliveryRateNotHeld', failedMessageProcessor),
      threshold: 0,
      periods: 3,
    },
    {
      name: 'waiting-messages-not-counted',
      description:
        'The failed-message-processor cannot read how many messages wait on the source queue, so nothing is paced: look at ' +
        "its log for not_counted, and at the queue's policy.",
      metric: own('NotCounted', failedMessageProcessor),
      threshold: 0,
      periods: 3,
    },
  ];
}

/** A queue's own age restarts when SQS moves a message; the functions' is the time since the very first send. */
function messageAges(plan: Plan, functions: Functions): Alarm[] {
  const { messageProcessor, failedMessageProcessor, finalDlqAnnotator } = functions;
  // No queue keeps a message with long delays for that long: each hop is a new one. Where it is older than all its retries
  // can make it, something holds it up.
  const long = plan.policy.long_delays && plan.strategy === 'delayed-resend';
  const retries = long ? worstCaseSpanSeconds(plan.policy, plan.timeout.toSeconds()) + WAITING_SECONDS_MAX : 0;
  const [source, inner] = [plan.sourceRetention, INNER_RETENTION].map((retention) =>
    Math.max(RETENTION_SHARE * retention.toSeconds(), retries),
  ) as [number, number];
  const writers = [
    { name: 'message-processor', writer: messageProcessor, threshold: source },
    ...(failedMessageProcessor
      ? [{ name: 'failed-message-processor', writer: failedMessageProcessor, threshold: source }]
      : []),
    { name: 'final-dlq-annotator', writer: finalDlqAnnotator, threshold: inner },
  ];
  return writers.map(({ name, writer, threshold }) => ({
    name: `${name}-sees-old-messages`,
    description: long
      ? 'A message is older than 80 % of the time that its queue keeps messages, and than all its retries and their ' +
        'delays can make it. Find out what holds it up.'
      : 'A message is older than 80 % of the time that its queue keeps messages. Find out what holds it up, before SQS ' +
        'deletes it.',
    metric: own('MessageAgeSeconds', writer, cloudwatch.Stats.MAXIMUM),
    threshold,
  }));
}

function failures(functions: Functions): Alarm[] {
  const { messageProcessor, failedMessageProcessor, finalDlqAnnotator } = functions;
  return [
    ...readerFails('message-processor', messageProcessor),
    ...(failedMessageProcessor ? readerFails('failed-message-processor', failedMessageProcessor) : []),
    ...readerFails('final-dlq-annotator', finalDlqAnnotator),
    loopStopped('message-processor', messageProcessor),
    ...(failedMessageProcessor ? [loopStopped('failed-message-processor', failedMessageProcessor)] : []),
    loopStopped('final-dlq-annotator', finalDlqAnnotator),
  ];
}
