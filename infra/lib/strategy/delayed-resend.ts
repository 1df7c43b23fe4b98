import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { type Alarm, waitsTooLong } from '../alarm.ts';
import { dataSchemaEnvironment } from '../bundles.ts';
import { allowSend, createAnnotator, createFunction, innerEventSource } from '../function.ts';
import { createMessageProcessor } from '../message-processor.ts';
import { own, ownBy, PERIOD } from '../metrics.ts';
import { type Plan, RETENTION_SHARE } from '../plan.ts';
import { DELAY_SECONDS_MAX, worstCaseHoldSeconds, worstCaseRedriveSeconds, worstCaseSpanSeconds } from '../policy.ts';
import type { RedeliverProps } from '../props.ts';
import { createDeadLetterQueues, denyOtherSenders, INNER_MAX_RECEIVE_COUNT, INNER_TIMEOUT, innerDlq, innerQueue } from '../queues.ts';
import { wholeNumberProblems } from '../range.ts';
import { allowSource, createSourceQueue } from '../source-queue.ts';
import type { Loop, LoopGraphs, StrategyDefinition } from './definition.ts';

const { MAXIMUM, SUM } = cloudwatch.Stats;
const BACKLOG_MAX = 1000;

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
  create,
};

/** The queues and functions that it has. */
interface Made {
  readonly source: sqs.IQueue;
  readonly intermediateDlq: sqs.Queue;
  readonly annotation: sqs.Queue;
  readonly messageProcessor: lambda.Function;
  readonly failedMessageProcessor: lambda.Function;
}

function create(scope: Construct, props: RedeliverProps, plan: Plan): Loop {
  const { encryptionKey: key } = props;
  const { names, policy } = plan;
  const allow = allowSource(scope, props, plan);
  const dead = createDeadLetterQueues(scope, plan, names, key, innerDlq(scope, names.intermediateDlq));
  const intermediateDlq = new sqs.Queue(scope, 'IntermediateDlq', {
    ...innerQueue(plan, key),
    queueName: names.intermediateDlq,
    deadLetterQueue: { queue: dead.annotation, maxReceiveCount: INNER_MAX_RECEIVE_COUNT },
    redriveAllowPolicy: allow,
  });
  const source = createSourceQueue(scope, props, plan, intermediateDlq);

  const messageProcessor = createMessageProcessor(scope, props, plan, {
    description: 'Validates each message and calls the target; hands failures off to the intermediate DLQ.',
    source,
    sendsTo: [intermediateDlq, dead.annotation],
    rights: [],
    environment: {
      INTERMEDIATE_DLQ_URL: intermediateDlq.queueUrl,
      // All of it: its lists say what is a blip and what is an outage.
      RETRY_POLICY: JSON.stringify(policy),
      ANNOTATION_QUEUE_URL: dead.annotation.queueUrl,
    },
  });
  const queues = { source, intermediateDlq, annotation: dead.annotation };
  const failedMessageProcessor = createFailedMessageProcessor(scope, props, plan, queues);
  const finalDlqAnnotator = createAnnotator(scope, plan, names.finalDlqAnnotator, key, dead);
  const processors = [messageProcessor, failedMessageProcessor];
  denyOtherSenders(intermediateDlq, policy.long_delays ? processors : [messageProcessor]);
  denyOtherSenders(dead.annotation, processors);
  denyOtherSenders(dead.finalDlq, [finalDlqAnnotator]);

  const made = { ...queues, messageProcessor, failedMessageProcessor };
  return {
    ...made,
    ...dead,
    sourceDlq: intermediateDlq,
    stages: [
      { queue: intermediateDlq, title: 'intermediate DLQ', reader: failedMessageProcessor, readerName: 'failed-message-processor' },
    ],
    finalDlqAnnotator,
    scheduler: failedMessageProcessor,
    alarms: [...waiting(made), ...arrivals(plan, made), ...pace(plan, made)],
    graphs: graphs(plan, made),
  };
}

function meantAgeSeconds({ policy, timeout, sourceVisibilityTimeout, maxReceiveCount }: Plan): number {
  const call = timeout.toSeconds();
  // What nobody answers for is given out again after the visibility timeout, and moved at the last receive.
  const unanswered = maxReceiveCount * sourceVisibilityTimeout.toSeconds();
  const way = worstCaseSpanSeconds(policy, call) + worstCaseHoldSeconds(policy, call) + worstCaseRedriveSeconds(policy, unanswered);
  return Math.min(way, policy.max_age_seconds ?? Infinity);
}

function createFailedMessageProcessor(
  scope: Construct,
  { dataSchema, encryptionKey: key }: RedeliverProps,
  plan: Plan,
  { source, intermediateDlq, annotation }: Pick<Made, 'source' | 'intermediateDlq' | 'annotation'>,
): lambda.Function {
  const { policy } = plan;
  const failedMessageProcessor = createFunction(scope, 'FailedMessageProcessor', plan, {
    functionName: plan.names.failedMessageProcessor,
    description: 'Sends failed messages again after a delay, or gives them up.',
    program: 'failed-message-processor',
    dataSchema,
    timeout: INNER_TIMEOUT,
    environment: {
      SOURCE_QUEUE_URL: source.queueUrl,
      INTERMEDIATE_DLQ_URL: intermediateDlq.queueUrl,
      ANNOTATION_QUEUE_URL: annotation.queueUrl,
      RETRY_POLICY: JSON.stringify(policy),
      ...dataSchemaEnvironment(dataSchema),
    },
  });
  allowSend(failedMessageProcessor, source.encryptionMasterKey, source);
  // To its own queue: a message with a long delay hops there.
  allowSend(failedMessageProcessor, key, annotation, ...(policy.long_delays ? [intermediateDlq] : []));
  if (policy.max_redelivery_per_second !== undefined) {
    // How many messages wait.
    failedMessageProcessor.addToRolePolicy(
      new iam.PolicyStatement({ actions: ['sqs:GetQueueAttributes'], resources: [source.queueArn] }),
    );
  }
  failedMessageProcessor.addEventSource(innerEventSource(intermediateDlq));
  return failedMessageProcessor;
}

function waiting({ source, intermediateDlq, annotation }: Made): Alarm[] {
  return [
    waitsTooLong('source-queue', source, 'message-processor'),
    // A hop is a new message with a new age.
    waitsTooLong('intermediate-dlq', intermediateDlq, 'failed-message-processor'),
    waitsTooLong('annotation-queue', annotation, 'final-dlq-annotator'),
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

function arrivals({ maxReceiveCount }: Plan, { failedMessageProcessor }: Made): Alarm[] {
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

function pace({ policy: { max_redelivery_per_second: rate } }: Plan, { failedMessageProcessor }: Made): Alarm[] {
  if (rate === undefined) {
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

function graphs({ policy, hasCircuitBreaker }: Plan, { source, messageProcessor, failedMessageProcessor }: Made): LoopGraphs {
  const sent = source.metricNumberOfMessagesSent({ period: PERIOD, statistic: SUM });
  return {
    failed: [own('HandedOff', messageProcessor, SUM, 'failed')],
    fromProducers: new cloudwatch.MathExpression({
      // What was held is sent again, too, and nobody counts that as a retry.
      expression: `FILL(sent, 0) - FILL(retries, 0)${hasCircuitBreaker ? ' - FILL(held, 0)' : ''}`,
      label: 'from producers',
      period: PERIOD,
      usingMetrics: {
        sent,
        retries: own('RetriesScheduled', failedMessageProcessor),
        ...(hasCircuitBreaker && { held: own('Held', messageProcessor) }),
      },
    }),
    failures: {
      title: 'Failures by kind',
      stacked: true,
      left: [
        ownBy('FailureKind', 'HandedOff', messageProcessor),
        own('ArrivedByRedrive', failedMessageProcessor, SUM, 'moved by SQS (crash, timeout, throttle)'),
      ],
    },
    besideDelays: [
      ...(policy.long_delays ? [own('Hops', failedMessageProcessor, SUM, 'hops (right)')] : []),
      ...(policy.max_redelivery_per_second === undefined
        ? []
        : [own('PacedRetries', failedMessageProcessor, SUM, 'paced retries (right)')]),
    ],
  };
}
