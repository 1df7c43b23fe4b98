import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';

import { type Alarm, heldTooLongAlarm, waitsTooLongAlarm } from '../alarm';
import { PERIOD, redeliverMetric, redeliverMetricSum } from '../metrics';
import type { Plan } from '../plan';
import type { DeadLetterQueues } from '../queues';
import type { LoopGraphs } from './definition';

const { MAXIMUM, MINIMUM, SUM } = cloudwatch.Stats;
/**
 * The messages per second that each concurrent invocation of the failed-message-processor handles: ten in about 100 ms.
 */
const MESSAGES_PER_INVOCATION = 100;

/** The queues and functions of a strategy that re-sends. */
export interface ResendResources extends ResendQueues {
  readonly messageProcessor: lambda.Function;
  readonly failedMessageProcessor: lambda.Function;
  readonly schedulers: readonly lambda.Function[];
}

/** The queues of a strategy that re-sends. */
export interface ResendQueues extends DeadLetterQueues {
  readonly source: sqs.IQueue;
  readonly intermediateDlq: sqs.Queue;
}

/** Returns the alarms of strategies that re-send. */
export function resendAlarms(plan: Plan, made: ResendResources): Alarm[] {
  return [...queueAlarms(plan, made), ...arrivalAlarms(plan, made), ...(plan.hasCircuitBreaker ? [heldTooLongAlarm(made.messageProcessor)] : [])];
}

/** Returns the dashboard graphs of strategies that re-send, except the graph of failures. */
export function resendGraphs(
  { policy, hasCircuitBreaker }: Plan,
  { source, messageProcessor, schedulers }: ResendResources,
): Pick<LoopGraphs, 'fromProducers' | 'hops'> {
  const sent = source.metricNumberOfMessagesSent({ period: PERIOD, statistic: SUM });
  return {
    fromProducers: new cloudwatch.MathExpression({
      // Held messages are also re-sent, but do not count as retries.
      expression: `FILL(sent, 0) - FILL(retries, 0)${hasCircuitBreaker ? ' - FILL(held, 0)' : ''}`,
      label: 'from producers',
      period: PERIOD,
      usingMetrics: {
        sent,
        retries: redeliverMetricSum('RetriesScheduled', schedulers, 'retries'),
        ...(hasCircuitBreaker && { held: redeliverMetric('Held', messageProcessor) }),
      },
    }),
    hops: policy.long_delays ? [redeliverMetricSum('Hops', schedulers, 'hops (right)')] : [],
  };
}

/** Returns the alarms on messages that wait too long in one of the queues. */
export function waitingAlarms({ source, intermediateDlq, annotation }: ResendQueues): Alarm[] {
  return [
    waitsTooLongAlarm('source-queue', source, 'message-processor'),
    // Long delays do not raise the age of the oldest message, since each hop is a new message.
    waitsTooLongAlarm('intermediate-dlq', intermediateDlq, 'failed-message-processor'),
    waitsTooLongAlarm('annotation-queue', annotation, 'final-dlq-annotator'),
  ];
}

function queueAlarms({ innerConcurrency }: Plan, made: ResendResources): Alarm[] {
  return [
    ...waitingAlarms(made),
    {
      name: 'intermediate-dlq-backlog',
      severity: 'ticket',
      description:
        'For a quarter of an hour, more failed messages have waited than the failed-message-processor handles in a second: it does not ' +
        'keep up, and retries are late. If it neither fails nor is throttled, raise innerConcurrency.',
      // The minimum is used since a burst that is gone by the next sample is not a bottleneck. The age of the oldest
      // message is not used, since it omits messages that were received three times ("Available CloudWatch metrics for
      // Amazon SQS").
      metric: made.intermediateDlq.metricApproximateNumberOfMessagesVisible({ period: PERIOD, statistic: MINIMUM }),
      threshold: MESSAGES_PER_INVOCATION * innerConcurrency,
      periods: 3,
    },
  ];
}

function arrivalAlarms({ maxReceiveCount }: Plan, { failedMessageProcessor }: ResendResources): Alarm[] {
  return [
    {
      name: 'moved-by-redrive',
      severity: 'ticket',
      description:
        'SQS moved messages to the intermediate DLQ, not the message-processor: it crashed, timed out, was throttled, ' +
        'or could not send. Each move spent one of max_redrives, and no attempt. Check its errors and duration.',
      metric: redeliverMetric('ArrivedByRedrive', failedMessageProcessor),
      threshold: 0,
    },
    {
      name: 'intermediate-dlq-keeps-failing',
      severity: 'ticket',
      description:
        'A message failed at least three times in the intermediate DLQ itself: it can be neither sent again nor given up on. Check ' +
        "the failed-message-processor's log for not_confirmed.",
      metric: redeliverMetric('ReceiveCount', failedMessageProcessor, MAXIMUM),
      // A redrive does not reset the count, which therefore includes the source queue's receives.
      threshold: maxReceiveCount + 3,
    },
  ];
}
