import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';

import { redeliverMetric, redeliverMetricByDimension } from '../metrics';
import { deliverySeconds, type Plan, RETENTION_SHARE } from '../plan';
import { DELAY_SECONDS_MAX, worstCaseHoldSeconds, worstCaseRedriveSeconds, worstCaseSpanSeconds } from '../policy';
import { wholeNumberProblems } from '../range';
import { innerRetentionLimit, type StrategyDefinition } from './definition';
import { blockProblems } from './policy-problems';
import { createResendLoop, type Resend } from './resend';

const { SUM } = cloudwatch.Stats;

/** Hands failed messages off to another function, which re-sends them with a delay. */
export const delayedResend: StrategyDefinition = {
  isFifo: false,
  // The default is 1. AWS recommends at least 5, so that messages do not end up unprocessed in a DLQ that nothing
  // reads. This DLQ has a reader, which schedules the next retry; more receives would be unscheduled retries, one
  // visibility timeout apart. Throttled receives are rare, since the event source mapping has its own maxConcurrency.
  // Each spends one of max_redrives, but no attempt.
  maxReceiveCount: (props) => props.maxReceiveCount ?? 1,
  defaultPolicy: {},
  // Without long delays, the alarm on message age could not distinguish retries that outlast the retention from stuck
  // messages. With long delays, its threshold includes the longest expected age.
  mayOutlastRetention: (policy) => policy.long_delays === true,
  // Regardless of the backoff, a hold, a redrive or a target's Retry-After can delay a re-sent message this long, and
  // the delay counts towards the retention. The rest of the retention is for receiving the message.
  minRetention: {
    seconds: DELAY_SECONDS_MAX / RETENTION_SHARE,
    why: `a re-sent message may be delayed there for ${DELAY_SECONDS_MAX} s`,
  },
  maxRetention: innerRetentionLimit('intermediate DLQ'),
  expectedAgeSecondsMax,
  holdAdvice: 'Held messages spend no attempt, and are processed within 15 minutes of its return: leave them alone.',
  unansweredCost: 'one of max_redrives',
  reservedVariables: [],
  propProblems: ({ policy = {} }) => blockProblems(policy),
  rangeProblems: ({ maxReceiveCount }) =>
    wholeNumberProblems('maxReceiveCount', maxReceiveCount, 1, 10, 'each receive may call the target, and the policy does not count these calls'),
  planProblems: () => [],
  create: (scope, props, plan) => createResendLoop(scope, props, plan, DELAYED),
};

const DELAYED: Resend = {
  description: 'Validates each message and calls the target; hands failures off to the intermediate DLQ.',
  schedulers: ({ failedMessageProcessor }) => [failedMessageProcessor],
  graphs: ({ messageProcessor, failedMessageProcessor }) => ({
    failed: [redeliverMetric('HandedOff', messageProcessor, SUM, 'failed')],
    failures: {
      title: 'Failures by kind',
      stacked: true,
      left: [
        redeliverMetricByDimension('FailureKind', 'HandedOff', messageProcessor),
        redeliverMetric('ArrivedByRedrive', failedMessageProcessor, SUM, 'moved by SQS (crash, timeout, throttle)'),
      ],
    },
  }),
};

function expectedAgeSecondsMax(plan: Plan): number {
  const { policy, sourceVisibilityTimeout, maxReceiveCount } = plan;
  const call = deliverySeconds(plan);
  // A message without a response is received again after the visibility timeout, and moved after the last receive.
  const unanswered = maxReceiveCount * sourceVisibilityTimeout.toSeconds();
  const longest = worstCaseSpanSeconds(policy, call) + worstCaseHoldSeconds(policy, call) + worstCaseRedriveSeconds(policy, unanswered);
  return Math.min(longest, policy.max_age_seconds ?? Infinity);
}
