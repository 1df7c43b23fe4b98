import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';

import { own, ownBy } from '../metrics';
import { deliverySeconds, type Plan, RETENTION_SHARE } from '../plan';
import { DELAY_SECONDS_MAX, worstCaseHoldSeconds, worstCaseRedriveSeconds, worstCaseSpanSeconds } from '../policy';
import { wholeNumberProblems } from '../range';
import type { StrategyDefinition } from './definition';
import { createResending, type Resend } from './resend';

const { SUM } = cloudwatch.Stats;

/** A message that failed is handed off, and sent again with a delay. */
export const delayedResend: StrategyDefinition = {
  // 1, against the usual advice of 5 or more: that advice protects messages that were never processed from a DLQ that
  // nobody reads. This DLQ is where the next retry is scheduled. More receives here would be unscheduled retries, one
  // visibility timeout apart; and because the event source mapping is limited by its own maxConcurrency, throttled
  // receives, which would spend a count of 1, are rare. They spend no attempt, but one of the policy's max_redrives.
  maxReceiveCount: (props) => props.maxReceiveCount ?? 1,
  defaultPolicy: {},
  sourceDlqTitle: 'intermediate DLQ',
  // Without long delays nobody could tell such retries from messages that are stuck, and the alarm on the messages' age
  // could not be believed. With them they are meant, and the alarm waits for them.
  mayOutlastRetention: (policy) => policy.long_delays === true,
  // A hold, a redrive or a target's Retry-After: whatever the policy's backoff, a re-send may lie there for so long before
  // anybody can receive it, and SQS's clock runs. The rest is for the receive.
  leastRetention: {
    seconds: DELAY_SECONDS_MAX / RETENTION_SHARE,
    why: `a message that is sent again may wait there for ${DELAY_SECONDS_MAX} s before it can be received`,
  },
  // Each re-send has a clock of its own in the queue, so an outage costs nothing; but the first send is long ago.
  meantAgeSeconds,
  heldCosts: 'Held messages spend no attempt, and are done within 15 minutes of its return: leave them alone.',
  unansweredCosts: 'one of max_redrives',
  propProblems: () => [],
  rangeProblems: ({ maxReceiveCount }) =>
    wholeNumberProblems('maxReceiveCount', maxReceiveCount, 1, 10, 'each receive may call the target, and the policy does not count it'),
  planProblems: () => [],
  create: (scope, props, plan) => createResending(scope, props, plan, DELAYED),
};

const DELAYED: Resend = {
  description: 'Validates each message and calls the target; hands failures off to the intermediate DLQ.',
  environment: () => ({}),
  // A handler of a user's own never has the right to.
  senders: ({ failedMessageProcessor }) => [failedMessageProcessor],
  graphs: ({ messageProcessor, failedMessageProcessor }) => ({
    failed: [own('HandedOff', messageProcessor, SUM, 'failed')],
    failures: {
      title: 'Failures by kind',
      stacked: true,
      left: [
        ownBy('FailureKind', 'HandedOff', messageProcessor),
        own('ArrivedByRedrive', failedMessageProcessor, SUM, 'moved by SQS (crash, timeout, throttle)'),
      ],
    },
  }),
};

function meantAgeSeconds(plan: Plan): number {
  const { policy, sourceVisibilityTimeout, maxReceiveCount } = plan;
  const call = deliverySeconds(plan);
  // What nobody answers for is given out again after the visibility timeout, and moved at the last receive.
  const unanswered = maxReceiveCount * sourceVisibilityTimeout.toSeconds();
  const way = worstCaseSpanSeconds(policy, call) + worstCaseHoldSeconds(policy, call) + worstCaseRedriveSeconds(policy, unanswered);
  return Math.min(way, policy.max_age_seconds ?? Infinity);
}
