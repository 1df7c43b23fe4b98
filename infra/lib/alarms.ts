import { type Duration, Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as sns from 'aws-cdk-lib/aws-sns';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { Functions } from './functions.ts';
import { ofLambda, own, PERIOD } from './metrics.ts';
import { type Plan, RETENTION_SHARE } from './plan.ts';
import type { RedeliverProps } from './props.ts';
import type { Queues } from './queues.ts';

interface Alarm {
  /** The end of its name: what is the matter. */
  readonly name: string;
  /** What it means and what to do. */
  readonly description: string;
  readonly metric: cloudwatch.IMetric;
  /** It goes off above this. */
  readonly threshold: number;
  /** For how many periods of five minutes. Default: 1. */
  readonly periods?: number;
}

/** Four times the longest delay: a message that waits so long is not being worked on. */
const WAITING_SECONDS_MAX = 3600;
const BACKLOG_MAX = 1000;

/** Creates the alarms, named after what they mean. */
export function createAlarms(
  scope: Construct,
  props: RedeliverProps,
  plan: Plan,
  queues: Queues,
  functions: Functions,
): cloudwatch.Alarm[] {
  const wanted = [
    ...deadLetters(plan, queues),
    ...waiting(queues),
    ...arrivals(plan, functions),
    ...messageAges(plan, functions),
    ...failures(props, functions),
  ];
  if (props.alarmTopic) {
    allowAlarms(props.alarmTopic);
  }
  return wanted.map(({ name, description, metric, threshold, periods }) => {
    const alarm = new cloudwatch.Alarm(scope, `Alarm-${name}`, {
      alarmName: `${plan.names.prefix}-${name}`,
      alarmDescription: description,
      metric,
      threshold,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: periods ?? 1,
      // Queues and functions without traffic have no metrics.
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
    });
    if (props.alarmTopic) {
      const action = new SnsAction(props.alarmTopic);
      alarm.addAlarmAction(action);
      alarm.addOkAction(action);
    }
    return alarm;
  });
}

/**
 * A topic with a policy of its own (`enforceSSL`) has lost SNS's default one, which lets alarms in. An imported topic's
 * policy is its owner's business.
 */
function allowAlarms(topic: sns.ITopic): void {
  topic.addToResourcePolicy(
    new iam.PolicyStatement({
      sid: 'AlarmsOfThisAccount',
      principals: [new iam.ServicePrincipal('cloudwatch.amazonaws.com')],
      actions: ['sns:Publish'],
      resources: [topic.topicArn],
      conditions: { StringEquals: { 'aws:SourceAccount': Stack.of(topic).account } },
    }),
  );
}

function deadLetters({ innerRetention }: Plan, { finalDlq }: Queues): Alarm[] {
  return [
    {
      name: 'final-dlq-not-empty',
      description: 'Messages were given up. Read why in their ErrorType and ErrorDetails, mend the cause, send them back.',
      metric: finalDlq.metricApproximateNumberOfMessagesVisible({ period: PERIOD }),
      threshold: 0,
    },
    {
      name: 'final-dlq-about-to-expire',
      description:
        'SQS deletes dead letters for good 14 days after they were sent. Send them back or save them now. (SQS does not ' +
        'count those that were read three times.)',
      metric: oldest(finalDlq),
      threshold: RETENTION_SHARE * innerRetention.toSeconds(),
    },
  ];
}

function waiting({ source, intermediateDlq, annotation }: Queues): Alarm[] {
  const queues: [string, sqs.IQueue, string][] = [
    ['source-queue', source, 'message-processor'],
    ['intermediate-dlq', intermediateDlq, 'failed-message-processor'],
    ['annotation-queue', annotation, 'final-dlq-annotator'],
  ];
  return [
    ...queues.map(([name, queue, reader]) => ({
      name: `${name}-waits-too-long`,
      description: `A message has waited for more than an hour. Look whether the ${reader} runs, fails or is too slow.`,
      metric: oldest(queue),
      threshold: WAITING_SECONDS_MAX,
    })),
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

function arrivals({ maxReceiveCount }: Plan, { failedMessageProcessor }: Functions): Alarm[] {
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

/** A queue's own age restarts when SQS moves a message; the functions' is the time since the very first send. */
function messageAges(plan: Plan, functions: Functions): Alarm[] {
  const of = (retention: Duration): number => RETENTION_SHARE * retention.toSeconds();
  const { messageProcessor, failedMessageProcessor, finalDlqAnnotator } = functions;
  const writers = [
    { name: 'message-processor', writer: messageProcessor, threshold: of(plan.sourceRetention) },
    { name: 'failed-message-processor', writer: failedMessageProcessor, threshold: of(plan.sourceRetention) },
    { name: 'final-dlq-annotator', writer: finalDlqAnnotator, threshold: of(plan.innerRetention) },
  ];
  return writers.map(({ name, writer, threshold }) => ({
    name: `${name}-sees-old-messages`,
    description:
      'A message is older than 80 % of the time that its queue keeps messages. Find out what holds it up, before SQS ' +
      'deletes it.',
    metric: own('MessageAgeSeconds', writer, cloudwatch.Stats.MAXIMUM),
    threshold,
  }));
}

function failures({ target }: RedeliverProps, functions: Functions): Alarm[] {
  const ours = [
    { name: 'message-processor', writer: functions.messageProcessor },
    { name: 'failed-message-processor', writer: functions.failedMessageProcessor },
    { name: 'final-dlq-annotator', writer: functions.finalDlqAnnotator },
  ];
  const inTheLoop = target.kind === 'lambda' ? [...ours, { name: 'target', writer: target.function }] : ours;
  return [
    ...ours.flatMap(({ name, writer }) => [
      {
        name: `${name}-errors`,
        description: `Invocations of the ${name} failed as a whole: it did not start, crashed or timed out. Read its log.`,
        metric: ofLambda('Errors', writer),
        threshold: 0,
      },
      {
        name: `${name}-throttles`,
        description: `Lambda refused to run the ${name}: raise the account's concurrency or lower maxConcurrency.`,
        metric: ofLambda('Throttles', writer),
        threshold: 0,
      },
    ]),
    ...inTheLoop.map(({ name, writer }) => ({
      name: `${name}-loop-stopped`,
      description: `Lambda took the retries for an endless loop and dropped invocations: set recursiveLoop ALLOW (${name}).`,
      metric: ofLambda('RecursiveInvocationsDropped', writer),
      threshold: 0,
    })),
  ];
}

function oldest(queue: sqs.IQueue): cloudwatch.Metric {
  return queue.metricApproximateAgeOfOldestMessage({ period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM });
}
