import { Annotations, type CfnCondition } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { allowAlarms } from './alarm-topic';
import { AlarmPreset } from './choices';
import { lambdaMetric, PERIOD, redeliverMetric } from './metrics';
import { nearest } from './nearest';
import { INNER_RETENTION, RETENTION_SHARE } from './plan';
import type { AlarmSetting, CommonProps } from './props';
import { refuse } from './props-error';
import type { DeadLetterQueues } from './queues';

/** An alarm, named after the problem it reports. */
export interface Alarm {
  /** The end of the alarm's name: the problem. */
  readonly name: string;
  /** `page`: without action, messages are late or will be lost. `ticket`: the problem can wait until working hours. */
  readonly severity: 'page' | 'ticket';
  /** True if messages could wait, expire or be lost unnoticed without this alarm. */
  readonly isEssential?: true;
  /** The meaning of the alarm, and the remedy. */
  readonly description: string;
  readonly metric: cloudwatch.IMetric;
  /** The alarm fires above this value. */
  readonly threshold: number;
  /** Consecutive periods of five minutes above the threshold before the alarm fires. Default: 1. */
  readonly periods?: number;
  /**
   * If set, the alarm fires after one period above the threshold, and recovers after this many consecutive periods
   * below it. Default: `periods`.
   */
  readonly recoveryPeriods?: number;
  /** The condition under which the alarm is created, evaluated at deployment. Default: always created. */
  readonly condition?: CfnCondition;
}

/** Four times the longest `DelaySeconds`. A message that waits longer is not being processed. */
export const WAITING_SECONDS_MAX = 3600;

/** Creates the alarms that the settings do not disable. */
export function addAlarms(
  scope: Construct,
  prefix: string,
  props: Pick<CommonProps, 'pageTopic' | 'ticketTopic' | 'okActions' | 'alarmPreset' | 'alarmSettings'>,
  all: readonly Alarm[],
): cloudwatch.Alarm[] {
  const { ticketTopic, pageTopic = ticketTopic, okActions = true, alarmPreset, alarmSettings = {} } = props;
  const topics = { page: pageTopic, ticket: ticketTopic };
  refuse(settingProblems(alarmSettings, all.map(({ name }) => name)));
  const wanted = all.filter(({ name, isEssential = false }) => alarmSettings[name]?.enabled ?? (isEssential || alarmPreset !== AlarmPreset.ESSENTIAL));
  new Set(Object.values(topics)).forEach((topic) => topic && allowAlarms(scope, topic));
  warnAboutSilentAlarms(scope, wanted.filter(({ severity }) => !topics[severity]).length, wanted.length);
  return wanted.map(({ name, severity, description, metric, periods, recoveryPeriods, condition, ...usual }) => {
    const set = alarmSettings[name]?.threshold;
    const threshold = set ?? usual.threshold;
    const alarm = new cloudwatch.Alarm(scope, `Alarm-${name}`, {
      alarmName: `${prefix}-${name}`,
      alarmDescription: set === undefined ? description : `${description} (Set to go off above ${set}, not above ${usual.threshold}.)`,
      metric,
      threshold,
      comparisonOperator: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
      evaluationPeriods: recoveryPeriods ?? periods ?? 1,
      ...(recoveryPeriods !== undefined && { datapointsToAlarm: 1 }),
      // Queues and functions without traffic have no metrics.
      treatMissingData: cloudwatch.TreatMissingData.NOT_BREACHING,
    });
    if (condition) {
      resourceOf(alarm).cfnOptions.condition = condition;
    }
    const topic = topics[severity];
    if (topic) {
      const action = new SnsAction(topic);
      alarm.addAlarmAction(action);
      if (okActions) {
        alarm.addOkAction(action);
      }
    }
    return alarm;
  });
}

function warnAboutSilentAlarms(scope: Construct, silent: number, all: number): void {
  if (silent > 0) {
    Annotations.of(scope).addWarningV2(
      '@redeliver/cdk:alarmsNotifyNobody',
      `${silent} of ${all} alarms have no action: set ticketTopic (the app's alarmTopicArn), or acknowledge this if something else watches them.`,
    );
  }
}

/** Returns problems with the settings: unknown alarms and invalid thresholds. */
function settingProblems(settings: Readonly<Record<string, AlarmSetting>>, names: readonly string[]): string[] {
  return Object.entries(settings).flatMap(([name, { threshold }]) => {
    if (!names.includes(name)) {
      const near = nearest(name, names);
      return [`alarmSettings.${name} is not an alarm of this construct; ${near ? `did you mean ${near}?` : `the alarms are ${names.join(', ')}.`}`];
    }
    return threshold === undefined || threshold >= 0 ? [] : [`alarmSettings.${name}.threshold is ${threshold}; use 0 or more.`];
  });
}

/** Returns true if the alarm exists wherever the stack is deployed. */
export function isUnconditional(alarm: cloudwatch.Alarm): boolean {
  return resourceOf(alarm).cfnOptions.condition === undefined;
}

/** Returns the alarms on dead letters, whose causes need attention. */
export function deadLetterAlarms({ finalDlq }: DeadLetterQueues): Alarm[] {
  return [
    {
      name: 'final-dlq-not-empty',
      severity: 'ticket',
      isEssential: true,
      description: 'Messages were given up. Read why in their ErrorType and ErrorDetails, fix the cause, send them back.',
      metric: finalDlq.metricApproximateNumberOfMessagesVisible({ period: PERIOD }),
      threshold: 0,
    },
    {
      // An alarm acts only when its state changes: while a dead letter remains, the alarm above does not report further
      // ones. This metric counts the annotator's sends, but not messages moved by SQS ("Available CloudWatch metrics
      // for Amazon SQS"). SQS moves a message after the annotator has failed on it at least ten times, which takes at
      // least half an hour; the annotator's own alarms report those failures.
      name: 'final-dlq-arrivals',
      severity: 'ticket',
      description:
        'Messages were given up just now, even if older ones are still in the queue. Read why in their ErrorType and ' +
        'ErrorDetails.',
      metric: finalDlq.metricNumberOfMessagesSent({ period: PERIOD }),
      threshold: 0,
    },
    {
      name: 'final-dlq-about-to-expire',
      severity: 'page',
      isEssential: true,
      description:
        'SQS deletes dead letters for good 14 days after they were sent. Send them back or save them now. (SQS does not ' +
        'count those that were read three times.)',
      metric: oldestMessageAge(finalDlq),
      threshold: RETENTION_SHARE * INNER_RETENTION.toSeconds(),
    },
  ];
}

/**
 * Returns the alarm on a message that has been held for a long time. With `visibility`, the time for which a message
 * has been held is not recorded.
 */
export function heldTooLongAlarm(messageProcessor: lambda.Function): Alarm {
  return {
    name: 'held-too-long',
    severity: 'page',
    isEssential: true,
    description:
      'A message has been held for more than an hour. Is the target down, or does it refuse this message alone? See `redeliver status`. ' +
      'After hold_seconds_max (a day by default) the message is given up.',
    metric: redeliverMetric('LongestHoldSeconds', messageProcessor, cloudwatch.Stats.MAXIMUM),
    threshold: WAITING_SECONDS_MAX,
    // A held message is received again within 900 s, which is up to three periods.
    recoveryPeriods: 3,
  };
}

/**
 * Returns the alarm on a message that waits too long for its reader. If `seconds` is more than an hour, it includes the
 * delays of the first retries.
 */
export function waitsTooLongAlarm(name: string, queue: sqs.IQueue, reader: string, seconds = WAITING_SECONDS_MAX): Alarm {
  const span = seconds === WAITING_SECONDS_MAX ? 'more than an hour' : 'an hour more than its first retries take';
  return {
    name: `${name}-waits-too-long`,
    severity: 'page',
    isEssential: true,
    description: `A message has waited for ${span}. Check if the ${reader} runs, fails or is too slow.`,
    metric: oldestMessageAge(queue),
    threshold: seconds,
  };
}

/** Returns the alarms on a function that fails, is throttled, or cannot send. */
export function readerAlarms(name: string, target: lambda.Function): Alarm[] {
  return [
    {
      name: `${name}-errors`,
      severity: 'page',
      isEssential: true,
      description: `Invocations of the ${name} failed as a whole: it did not start, crashed or timed out. Read its log.`,
      metric: lambdaMetric('Errors', target),
      threshold: 0,
    },
    {
      name: `${name}-throttles`,
      severity: 'ticket',
      description: `Lambda refused to run the ${name}: raise the account's concurrency, or run less at the same time.`,
      metric: lambdaMetric('Throttles', target),
      threshold: 0,
    },
    {
      // The age of the oldest message does not show this, since SQS omits messages that were received three times.
      name: `${name}-not-confirmed`,
      severity: 'page',
      description:
        `The ${name} runs, but its sends are not confirmed, so its messages come back. Check its log for ` +
        'not_confirmed: usually a missing permission, a deleted queue or key, or no route to AWS.',
      metric: redeliverMetric('NotConfirmed', target),
      threshold: 0,
    },
  ];
}

function oldestMessageAge(queue: sqs.IQueue): cloudwatch.Metric {
  return queue.metricApproximateAgeOfOldestMessage({ period: PERIOD, statistic: cloudwatch.Stats.MAXIMUM });
}

function resourceOf(alarm: cloudwatch.Alarm): cloudwatch.CfnAlarm {
  return alarm.node.defaultChild as cloudwatch.CfnAlarm;
}
