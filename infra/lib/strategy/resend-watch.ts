import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';

import { type Alarm, waitsTooLong } from '../alarm';
import { own, ownSum, PERIOD } from '../metrics';
import type { Plan } from '../plan';
import { DELAY_SECONDS_MAX } from '../policy';
import type { LoopGraphs } from './definition';
import type { Resending } from './resend';

const { MAXIMUM, SUM } = cloudwatch.Stats;
const BACKLOG_MAX = 1000;

/** What of a loop that sends again people must hear of. */
export function resendAlarms(plan: Plan, made: Resending): Alarm[] {
  return [...waiting(made), ...arrivals(plan, made), ...pace(plan, made)];
}

/** What the dashboard shows of it, except its failures. */
export function resendGraphs(
  { policy, hasCircuitBreaker }: Plan,
  { source, messageProcessor, schedulers }: Resending,
): Pick<LoopGraphs, 'fromProducers' | 'besideDelays'> {
  const sent = source.metricNumberOfMessagesSent({ period: PERIOD, statistic: SUM });
  return {
    fromProducers: new cloudwatch.MathExpression({
      // What was held is sent again, too, and nobody counts that as a retry.
      expression: `FILL(sent, 0) - FILL(retries, 0)${hasCircuitBreaker ? ' - FILL(held, 0)' : ''}`,
      label: 'from producers',
      period: PERIOD,
      usingMetrics: {
        sent,
        retries: ownSum('RetriesScheduled', schedulers, 'retries'),
        ...(hasCircuitBreaker && { held: own('Held', messageProcessor) }),
      },
    }),
    besideDelays: [
      ...(policy.long_delays ? [ownSum('Hops', schedulers, 'hops (right)')] : []),
      ...(policy.max_redelivery_per_second === undefined ? [] : [ownSum('PacedRetries', schedulers, 'paced retries (right)')]),
    ],
  };
}

function waiting({ source, intermediateDlq, annotation }: Resending): Alarm[] {
  return [
    waitsTooLong('source-queue', source, 'message-processor'),
    // A hop is a new message with a new age.
    waitsTooLong('intermediate-dlq', intermediateDlq, 'failed-message-processor'),
    waitsTooLong('annotation-queue', annotation, 'final-dlq-annotator'),
    {
      name: 'intermediate-dlq-backlog',
      description:
        `More than ${BACKLOG_MAX} failed messages wait for their retry to be scheduled, for a quarter of an hour. ` +
        'Look at the target first (with direct-resend at crashes and throttles of the message-processor), then at the failed-message-processor.',
      metric: intermediateDlq.metricApproximateNumberOfMessagesVisible({ period: PERIOD }),
      threshold: BACKLOG_MAX,
      periods: 3,
    },
  ];
}

function arrivals({ maxReceiveCount }: Plan, { failedMessageProcessor }: Resending): Alarm[] {
  return [
    {
      name: 'moved-by-redrive',
      description:
        'SQS moved messages to the intermediate DLQ, not the message-processor: it crashed, timed out, was throttled, ' +
        'or could not send. Each spent one of max_redrives, and no attempt. Look at its errors and duration.',
      metric: own('ArrivedByRedrive', failedMessageProcessor),
      threshold: 0,
    },
    {
      name: 'intermediate-dlq-keeps-failing',
      description:
        'A message failed at least three times in the intermediate DLQ itself: it can be neither sent again nor given up. Look ' +
        "at the failed-message-processor's log for not_confirmed.",
      metric: own('ReceiveCount', failedMessageProcessor, MAXIMUM),
      // A redrive does not reset the count: a moved message comes with the source queue's receives.
      threshold: maxReceiveCount + 3,
    },
  ];
}

function pace({ policy: { max_redelivery_per_second: rate } }: Plan, { schedulers }: Resending): Alarm[] {
  if (rate === undefined) {
    return [];
  }
  return [
    {
      name: 'redelivery-rate-not-held',
      description:
        `So many messages wait for their retry that delays of ${DELAY_SECONDS_MAX} s cannot hold ${rate} a second, for a quarter of an ` +
        'hour: the target gets more. Look at the target, or lower maxConcurrency.',
      metric: ownSum('RedeliveryRateNotHeld', schedulers),
      threshold: 0,
      periods: 3,
    },
    {
      name: 'waiting-messages-not-counted',
      description:
        'How many messages wait on the source queue cannot be read, so nothing is paced: look for not_counted in the log of each ' +
        "function that sends again, and at the queue's policy.",
      metric: ownSum('NotCounted', schedulers),
      threshold: 0,
      periods: 3,
    },
  ];
}
