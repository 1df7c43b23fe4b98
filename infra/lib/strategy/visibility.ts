import type { Construct } from 'constructs';

import { WAITING_SECONDS_MAX, waitsTooLongAlarm } from '../alarm';
import { createAnnotator } from '../annotator';
import { createMessageProcessor } from '../message-processor';
import type { NormalizedProps } from '../normalized-props';
import type { Plan } from '../plan';
import { maxAttempts, worstCaseDelaySeconds } from '../policy';
import { createDeadLetterQueues, denyOtherSenders } from '../queues';
import { allowSource, createSourceQueue } from '../source-queue';
import { innerRetentionLimit, type Loop, type StrategyDefinition } from './definition';
import { hidingProcessorSettings, inFlightAlarm, onQueueGraphs, onQueueProblems, RECEIVES_MAX } from './on-queue';
import { blockProblems } from './policy-problems';

/**
 * Receives in addition to the retries, for throttles and for invocations that could not give up on the message.
 * After these receives, SQS moves the message without recording a reason.
 */
const SPARE_RECEIVES = 10;
/**
 * SQS omits messages with more receives from the age of the oldest message ("Available CloudWatch metrics for Amazon
 * SQS").
 */
const RECEIVES_IN_AGE = 3;

/** Keeps failed messages on the source queue, hidden until their retry. */
export const visibility: StrategyDefinition = {
  isFifo: false,
  maxReceiveCount: (_, policy) => maxAttempts(policy) + SPARE_RECEIVES,
  // Off, since each receive counts as an attempt, even that of a held message.
  defaultPolicy: { circuit_breaker: false },
  // All retries share one retention period, after which SQS deletes the message.
  mayOutlastRetention: () => false,
  minRetention: { seconds: 60, why: 'the minimum of SQS' },
  maxRetention: innerRetentionLimit('annotation queue'),
  expectedAgeSecondsMax: () => 0,
  holdAdvice: 'Each receive of a held message still spends an attempt: if the outage lasts, pause until the target is back.',
  unansweredCost: 'an attempt',
  reservedVariables: [],
  propProblems,
  // maxReceiveCount follows from the policy; planProblems checks it.
  rangeProblems: () => [],
  planProblems,
  create,
};

function propProblems({ policy = {}, maxReceiveCount }: NormalizedProps): string[] {
  return [
    ...blockProblems(policy),
    ...(maxReceiveCount === undefined
      ? []
      : [
          'maxReceiveCount only applies to the strategies delayed-resend and direct-resend; remove it: ' +
            'with visibility each retry is a receive, and SQS moves a message after ' +
            `max_attempts + ${SPARE_RECEIVES} of them.`,
        ]),
  ];
}

function planProblems(plan: Plan): string[] {
  const { policy, maxReceiveCount } = plan;
  // The annotation queue's maxReceiveCount is even higher, since a moved message keeps its receive count.
  const isCountable = maxReceiveCount + SPARE_RECEIVES <= RECEIVES_MAX;
  return [
    ...(isCountable
      ? []
      : [
          `policy/max_attempts is ${maxAttempts(policy)}; use at most ${RECEIVES_MAX - 2 * SPARE_RECEIVES} with strategy visibility: SQS moves a ` +
            `message after max_attempts + ${SPARE_RECEIVES} receives, the annotation queue keeps it for ${SPARE_RECEIVES} more, and SQS counts to ${RECEIVES_MAX}.`,
        ]),
    ...onQueueProblems(plan),
  ];
}

function create(scope: Construct, props: NormalizedProps, plan: Plan): Loop {
  const allow = allowSource(scope, props, plan);
  const dead = createDeadLetterQueues(scope, plan, plan.names, { allow, maxReceiveCount: plan.maxReceiveCount });
  const source = createSourceQueue(scope, props, plan, dead.annotation);

  const messageProcessor = createMessageProcessor(scope, props, plan, {
    description: 'Validates each message and calls the target; hides failures on the source queue until their retry.',
    ...hidingProcessorSettings(plan, source, dead.annotation),
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
      // The age reported by SQS includes the delays of the first retries.
      waitsTooLongAlarm('source-queue', source, 'message-processor', WAITING_SECONDS_MAX + worstCaseDelaySeconds(plan.policy, RECEIVES_IN_AGE)),
      waitsTooLongAlarm('annotation-queue', dead.annotation, 'final-dlq-annotator'),
      inFlightAlarm(source, 'Check the target; shorten the delays, or use strategy delayed-resend or direct-resend.'),
    ],
    graphs: onQueueGraphs(source),
  };
}
