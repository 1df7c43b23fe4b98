import { Duration, Validations } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { type Alarm, heldTooLongAlarm, WAITING_SECONDS_MAX, waitsTooLongAlarm } from '../alarm';
import { createAnnotator } from '../annotator';
import { eventSource, INNER_BATCH } from '../function';
import { createMessageProcessor } from '../message-processor';
import { PERIOD } from '../metrics';
import type { NormalizedProps } from '../normalized-props';
import { deliverySeconds, INNER_RETENTION, type Plan } from '../plan';
import { LONG_DELAY_SECONDS_MAX, maxAttempts, worstCaseSpanSeconds } from '../policy';
import { createDeadLetterQueues, denyOtherSenders, FIFO_PROPS, INNER_MAX_RECEIVE_COUNT, innerQueueProps } from '../queues';
import { allowSource, createSourceQueue } from '../source-queue';
import { isFifoTopic, watchSubscriptions } from '../topic-subscriptions';
import type { Loop, StrategyDefinition } from './definition';
import { hidingProcessorSettings, inFlightAlarm, onQueueGraphs, onQueueProblems, QUOTA_SHARE, RECEIVES_MAX } from './on-queue';

/** Receives that are not retries: the first receive, and those due to crashes, throttles and holds. */
const SPARE_RECEIVES = 20;
/**
 * The number of messages in which SQS looks for groups with deliverable messages ("Avoid large message backlogs with
 * the same message group ID in Amazon SQS").
 */
const LOOK_AHEAD = 120_000;
/** Concurrent invocations for the source queue's DLQ, which is usually empty: the minimum that a mapping accepts. */
const SOURCE_DLQ_CONCURRENCY = 2;

/** The variable that determines how attempts are counted: only in batches of one is every receive also a call. */
const BATCH_SIZE = 'BATCH_SIZE';

/**
 * Keeps failed messages on a FIFO source queue, hidden until their retry. The rest of their group waits behind them.
 */
export const ordered: StrategyDefinition = {
  isFifo: true,
  maxReceiveCount: () => RECEIVES_MAX,
  // Limited by age, since not every receive is a call.
  defaultPolicy: { max_attempts: 980, max_age_seconds: 86_400, backoff: { kind: 'exponential', initial_delay_seconds: 5 } },
  // All retries share one retention period, after which SQS deletes the message.
  mayOutlastRetention: () => false,
  minRetention: { seconds: 60, why: 'the minimum of SQS' },
  // A message's age restarts when SQS moves it from a FIFO queue ("Setting-up dead-letter queue retention in Amazon
  // SQS").
  maxRetention: { seconds: INNER_RETENTION.toSeconds(), why: ', the range of SQS' },
  expectedAgeSecondsMax: () => 0,
  holdAdvice:
    'A held message is not given up, and the rest of its group waits behind it; all are processed within 15 minutes of its return, group by ' +
    'group: leave them alone.',
  unansweredCost: 'an attempt',
  reservedVariables: [BATCH_SIZE],
  propProblems,
  rangeProblems: () => [],
  planProblems,
  create,
};

function propProblems({ maxReceiveCount, maxBatchingWindow, producers = [] }: NormalizedProps): string[] {
  return [
    ...(maxReceiveCount === undefined
      ? []
      : [
          'maxReceiveCount only applies to the strategies delayed-resend and direct-resend; remove it: with ordered each retry is a receive, and SQS moves a ' +
            `message after ${RECEIVES_MAX} of them.`,
        ]),
    // See "Lambda parameters for Amazon SQS event source mappings".
    ...(maxBatchingWindow === undefined ? [] : ['maxBatchingWindow cannot be used with strategy ordered; remove it: Lambda has no batching window for FIFO queues.']),
    ...producers.flatMap(({ _given: given }, index) => {
      const { kind } = given;
      const why = given.kind === 'topic' && isFifoTopic(given.topicArn) ? undefined : CANNOT_SEND[kind];
      return why === undefined ? [] : [`producers[${index}] (Producer.${kind}) cannot be used with strategy ordered: ${why}; remove it, or use another strategy.`];
    }),
  ];
}

/**
 * The reasons why producers of each kind cannot send to a FIFO queue without content-based deduplication. For topics,
 * this applies to standard topics only.
 */
const CANNOT_SEND: Readonly<Record<string, string>> = {
  // See "AWS::S3::Bucket QueueConfiguration".
  bucket: 'S3 sends no event notifications to FIFO queues',
  // See "Target", Amazon EventBridge API Reference.
  rule: 'a rule sends only to FIFO queues with content-based deduplication',
  // See "Amazon SNS FIFO topics".
  topic: 'a standard topic cannot deliver to a FIFO queue, only a FIFO topic can',
};

function planProblems(plan: Plan): string[] {
  const { fullPolicy, innerConcurrency, innerReservedConcurrency: reserved } = plan;
  const [attempts, most] = [maxAttempts(fullPolicy), RECEIVES_MAX - SPARE_RECEIVES];
  const needed = innerConcurrency + SOURCE_DLQ_CONCURRENCY;
  return [
    ...(attempts <= most
      ? []
      : [
          `policy/max_attempts is ${attempts}; use at most ${most} with strategy ordered: each retry is a receive, ${SPARE_RECEIVES} are to spare, and SQS counts ` +
            `to ${RECEIVES_MAX}.`,
        ]),
    ...(fullPolicy.on_give_up === 'block' && plan.batchSize > 1
      ? [`policy/on_give_up is block, but batchSize is ${plan.batchSize}; leave batchSize out: only in batches of one does SQS count the attempts of a message.`]
      : []),
    ...onQueueProblems(plan),
    // A value below innerConcurrency is rejected for any strategy.
    ...(reserved !== undefined && reserved >= innerConcurrency && reserved < needed
      ? [
          `innerReservedConcurrency is ${reserved}; use at least innerConcurrency + ${SOURCE_DLQ_CONCURRENCY} = ${needed} with strategy ordered, where the ` +
            'final-dlq-annotator also reads the DLQ of the source queue.',
        ]
      : []),
  ];
}

function create(scope: Construct, props: NormalizedProps, plan: Plan): Loop {
  const queues = createQueues(scope, props, plan);
  const { source, sourceDlq, blockedQueue, annotation, finalDlq } = queues;
  const messageProcessor = createProcessor(scope, props, plan, queues);
  const finalDlqAnnotator = createAnnotator(scope, plan, plan.names.finalDlqAnnotator, queues);
  const settings = { batchSize: INNER_BATCH, maxConcurrency: SOURCE_DLQ_CONCURRENCY };
  finalDlqAnnotator.addEventSource(eventSource(sourceDlq, settings));
  watchSubscriptions(scope, source);
  denyOtherSenders(sourceDlq, []);
  denyOtherSenders(annotation, [messageProcessor]);
  denyOtherSenders(finalDlq, [finalDlqAnnotator]);
  if (blockedQueue) {
    denyOtherSenders(blockedQueue, [messageProcessor]);
  }
  return {
    ...queues,
    annotatedDlq: sourceDlq,
    stages: [],
    messageProcessor,
    finalDlqAnnotator,
    schedulers: [messageProcessor],
    alarms: [...orderedAlarms(plan, queues), ...(plan.hasCircuitBreaker ? [heldTooLongAlarm(messageProcessor)] : [])],
    graphs: onQueueGraphs(source),
  };
}

/** The queues of this strategy. */
type OrderedQueues = Pick<Loop, 'source' | 'sourceDlq' | 'blockedQueue' | 'annotation' | 'finalDlq'>;

function createQueues(scope: Construct, props: NormalizedProps, plan: Plan): OrderedQueues {
  // The DLQ of a FIFO queue must be a FIFO queue, so SQS cannot move messages to the annotation queue.
  const allow = { redrivePermission: sqs.RedrivePermission.DENY_ALL };
  const dead = createDeadLetterQueues(scope, plan, plan.names, { allow, maxReceiveCount: INNER_MAX_RECEIVE_COUNT });
  const sourceDlq = new sqs.Queue(scope, 'SourceDlq', {
    ...innerQueueProps(plan),
    ...FIFO_PROPS,
    queueName: plan.names.sourceDlq,
    redriveAllowPolicy: allowSource(scope, props, plan),
  });
  if (props.existingSourceQueue) {
    const reason = 'It is the DLQ of the source queue, whose redrive policy may not be in this template.';
    Validations.of(sourceDlq).acknowledge({ id: 'AwsSolutions-SQS3', reason });
  }
  const source = createSourceQueue(scope, props, plan, sourceDlq);
  const blockedQueue = plan.fullPolicy.on_give_up === 'block' ? createBlockedQueue(scope, plan) : undefined;
  return { ...dead, source, sourceDlq, blockedQueue };
}

/**
 * Creates the queue with a notice for each blocked group. A notice is kept for as long as the group's message is
 * hidden.
 */
function createBlockedQueue(scope: Construct, plan: Plan): sqs.Queue {
  const queue = new sqs.Queue(scope, 'BlockedQueue', {
    ...innerQueueProps(plan),
    queueName: plan.names.blockedQueue,
    retentionPeriod: Duration.seconds(LONG_DELAY_SECONDS_MAX),
    redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
  });
  Validations.of(queue).acknowledge({ id: 'AwsSolutions-SQS3', reason: 'Only people read it, and its messages are copies.' });
  return queue;
}

function createProcessor(scope: Construct, props: NormalizedProps, plan: Plan, queues: OrderedQueues): lambda.Function {
  const { source, blockedQueue, annotation } = queues;
  const processor = hidingProcessorSettings(plan, source, annotation);
  return createMessageProcessor(scope, props, plan, {
    ...processor,
    description:
      'Validates each message and calls the target; hides failures on the FIFO queue until their retry, and their ' +
      'groups with them.',
    sendsTo: [...processor.sendsTo, ...(blockedQueue ? [blockedQueue] : [])],
    environment: {
      ...processor.environment,
      [BATCH_SIZE]: String(plan.batchSize),
      ...(blockedQueue && { BLOCKED_QUEUE_URL: blockedQueue.queueUrl }),
    },
  });
}

const IN_FLIGHT_ADVICE =
  'The rest of their groups waits behind them. Check the target; shorten the delays, or ask AWS Support for a ' +
  'higher quota.';

function orderedAlarms(plan: Plan, { source, sourceDlq, blockedQueue, annotation }: OrderedQueues): Alarm[] {
  return [
    groupWaitsTooLongAlarm(plan, source),
    waitsTooLongAlarm('source-dlq', sourceDlq, 'final-dlq-annotator'),
    waitsTooLongAlarm('annotation-queue', annotation, 'final-dlq-annotator'),
    inFlightAlarm(source, IN_FLIGHT_ADVICE),
    backlogAlarm(source),
    movedBySqsAlarm(sourceDlq),
    ...(blockedQueue ? [blockedGroupsAlarm(blockedQueue)] : []),
  ];
}

function groupWaitsTooLongAlarm(plan: Plan, source: sqs.IQueue): Alarm {
  const span = Math.ceil(worstCaseSpanSeconds(plan.fullPolicy, deliverySeconds(plan)));
  return {
    ...waitsTooLongAlarm('source-queue', source, 'message-processor', WAITING_SECONDS_MAX + span),
    description:
      `A message has waited for an hour more than the retries of a message may take (${span} s). This age includes its own retries and those of the ` +
      'messages before it in its group. Check if the target is down, or the message-processor does not run, fails or is too slow; if not, several ' +
      'messages of one group fail in turn.',
  };
}

/**
 * Returns the alarm on the source queue's backlog. Messages that wait behind the first message of their group count as
 * visible.
 */
function backlogAlarm(source: sqs.IQueue): Alarm {
  return {
    name: 'source-queue-backlog',
    severity: 'page',
    isEssential: true,
    description:
      `More than ${QUOTA_SHARE * 100} % of the first ${LOOK_AHEAD} messages, in which SQS looks for message groups that can be delivered, wait. Beyond them, groups ` +
      'that have not failed wait, too. Check the target, and for a group with many messages behind a failing one, fix the cause, or give that message up ' +
      'earlier (maxAttempts, maxAge, nonRetryable). If nothing fails, raise maxConcurrency, or have more and smaller groups.',
    metric: source.metricApproximateNumberOfMessagesVisible({ period: PERIOD }),
    threshold: QUOTA_SHARE * LOOK_AHEAD,
  };
}

function movedBySqsAlarm(sourceDlq: sqs.IQueue): Alarm {
  return {
    name: 'source-dlq-arrivals',
    severity: 'ticket',
    description:
      `SQS moved messages to the source queue's DLQ after ${RECEIVES_MAX} receives: the message-processor could neither process them nor give them up, and ` +
      'their groups continued without them. Check its errors, timeouts, throttles and not_confirmed. The final-dlq-annotator moves them to the final DLQ.',
    // SQS does not count a move as a send ("Available CloudWatch metrics for Amazon SQS"), and the annotator may empty
    // the queue between two samples of its size. But it receives every message, so receives are counted.
    metric: sourceDlq.metricNumberOfMessagesReceived({ period: PERIOD, statistic: cloudwatch.Stats.SUM }),
    threshold: 0,
  };
}

function blockedGroupsAlarm(blockedQueue: sqs.Queue): Alarm {
  return {
    name: 'blocked-groups',
    severity: 'page',
    isEssential: true,
    description:
      'Message groups wait behind a message that was given up and await your decision (onGiveUp). `redeliver ' +
      'unblock` lists them with the reason, retries the message (--retry) or removes it (--backup).',
    metric: blockedQueue.metricApproximateNumberOfMessagesVisible({ period: PERIOD }),
    threshold: 0,
  };
}
