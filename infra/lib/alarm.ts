import { Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sns from 'aws-cdk-lib/aws-sns';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { ofLambda, PERIOD } from './metrics.ts';
import { INNER_RETENTION, RETENTION_SHARE } from './plan.ts';
import type { DeadLetterQueues } from './queues.ts';

/** An alarm, named after what it means. */
export interface Alarm {
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

/** Four times the longest `DelaySeconds`: a message that waits so long is not being worked on. */
export const WAITING_SECONDS_MAX = 3600;

/** Creates the alarms. */
export function raise(
  scope: Construct,
  prefix: string,
  alarmTopic: sns.ITopic | undefined,
  wanted: readonly Alarm[],
): cloudwatch.Alarm[] {
  if (alarmTopic) {
    allowAlarms(alarmTopic);
  }
  return wanted.map(({ name, description, metric, threshold, periods }) => {
    const alarm = new cloudwatch.Alarm(scope, `Alarm-${name}`, {
      alarmName: `${prefix}-${name}`,
      alarmDescription: description,
      metric,
      threshold,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: periods ?? 1,
      // Queues and functions without traffic have no metrics.
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
    });
    if (alarmTopic) {
      const action = new SnsAction(alarmTopic);
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

/** Something was given up, and nobody looks. */
export function deadLetters({ finalDlq }: DeadLetterQueues): Alarm[] {
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
      threshold: RETENTION_SHARE * INNER_RETENTION.toSeconds(),
    },
  ];
}

/** A message waits for its reader for too long; more than an hour means that its first retries are part of it. */
export function waitsTooLong(name: string, queue: sqs.IQueue, reader: string, seconds = WAITING_SECONDS_MAX): Alarm {
  const span = seconds === WAITING_SECONDS_MAX ? 'more than an hour' : 'an hour more than its first retries take';
  return {
    name: `${name}-waits-too-long`,
    description: `A message has waited for ${span}. Look whether the ${reader} runs, fails or is too slow.`,
    metric: oldest(queue),
    threshold: seconds,
  };
}

/** A function of ours fails as a whole, or is not run. */
export function notRun(name: string, target: lambda.IFunction): Alarm[] {
  return [
    {
      name: `${name}-errors`,
      description: `Invocations of the ${name} failed as a whole: it did not start, crashed or timed out. Read its log.`,
      metric: ofLambda('Errors', target),
      threshold: 0,
    },
    {
      name: `${name}-throttles`,
      description: `Lambda refused to run the ${name}: raise the account's concurrency or lower maxConcurrency.`,
      metric: ofLambda('Throttles', target),
      threshold: 0,
    },
  ];
}

/** Lambda ended the loop. */
export function loopStopped(name: string, target: lambda.IFunction): Alarm {
  return {
    name: `${name}-loop-stopped`,
    description: `Lambda took the retries for an endless loop and dropped invocations: set recursiveLoop ALLOW (${name}).`,
    metric: ofLambda('RecursiveInvocationsDropped', target),
    threshold: 0,
  };
}

function oldest(queue: sqs.IQueue): cloudwatch.Metric {
  return queue.metricApproximateAgeOfOldestMessage({ period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM });
}
