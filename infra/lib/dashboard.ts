import { Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import { isUnconditional } from './alarm';
import { lambdaMetric, PERIOD, redeliverMetric, redeliverMetricByDimension, redeliverMetricSum } from './metrics';
import type { Plan } from './plan';
import { type Loop, readersOf } from './strategy/definition';

const HALF = { width: 12, height: 7 };
const WHOLE = { width: 24, height: 5 };
const { AVERAGE, MAXIMUM, SUM, percentile } = cloudwatch.Stats;

/** Creates the dashboard. From top to bottom, it shows incoming messages, retries, dead letters, and delays. */
export function createDashboard(
  scope: Construct,
  plan: Plan,
  loop: Loop,
  alarms: readonly cloudwatch.Alarm[],
): cloudwatch.Dashboard {
  // Dashboard names must be unique in an account, across regions.
  const dashboardName = `${plan.names.prefix}-${Stack.of(scope).region}`;
  const dashboard = new cloudwatch.Dashboard(scope, 'Dashboard', { dashboardName });
  // The widget's content cannot depend on a condition.
  const shown = alarms.filter(isUnconditional);
  if (shown.length > 0) {
    dashboard.addWidgets(new cloudwatch.AlarmStatusWidget({ title: 'Alarms', alarms: shown, width: 24, height: 4 }));
  }
  dashboard.addWidgets(summaryWidget(loop));
  dashboard.addWidgets(incomingMessages(loop), new cloudwatch.GraphWidget({ ...HALF, ...loop.graphs.failures }));
  if (plan.hasCircuitBreaker) {
    dashboard.addWidgets(outagesWidget(loop));
  }
  dashboard.addWidgets(retriesByAttempt(loop), delaysWidget(loop));
  dashboard.addWidgets(deadLettersByErrorType(loop), waitingMessages(plan, loop));
  dashboard.addWidgets(messageAges(plan, loop), queueAges(loop));
  dashboard.addWidgets(targetWidget(loop), healthWidget(loop));
  return dashboard;
}

function summaryWidget({ messageProcessor, finalDlqAnnotator, finalDlq, schedulers, graphs }: Loop): cloudwatch.IWidget {
  return new cloudwatch.SingleValueWidget({
    title: 'In the time shown',
    width: 24,
    height: 4,
    setPeriodToTimeRange: true,
    metrics: [
      redeliverMetric('Processed', messageProcessor, SUM, 'processed'),
      ...graphs.failed,
      redeliverMetricSum('RetriesScheduled', schedulers, 'retries'),
      redeliverMetric('DeadLettered', finalDlqAnnotator, SUM, 'given up'),
      finalDlq.metricApproximateNumberOfMessagesVisible({ label: 'in the final DLQ (most)', statistic: MAXIMUM }),
    ],
  });
}

function incomingMessages({ messageProcessor, schedulers, graphs }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Flow in: messages per 5 minutes',
    left: [
      graphs.fromProducers,
      redeliverMetricSum('RetriesScheduled', schedulers, 'retries'),
      redeliverMetric('Processed', messageProcessor, SUM, 'processed'),
    ],
  });
}

function outagesWidget({ messageProcessor }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...WHOLE,
    title: 'Outages of the target',
    left: [
      redeliverMetric('CircuitOpen', messageProcessor, SUM, 'times that it was found to be down'),
      redeliverMetric('Probes', messageProcessor, SUM, 'calls that probe for recovery'),
    ],
    right: [redeliverMetric('Held', messageProcessor, SUM, 'messages held (right)')],
    leftYAxis: { min: 0 },
    rightYAxis: { min: 0 },
  });
}

function retriesByAttempt({ schedulers }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Retries by attempt',
    stacked: true,
    left: schedulers.map((scheduler) => redeliverMetricByDimension('RetryAttempt', 'RetriesScheduled', scheduler)),
  });
}

function delaysWidget({ schedulers, graphs }: Loop): cloudwatch.IWidget {
  // Percentiles of different functions cannot be combined, so each function has its own lines.
  const label = (statistic: string, { node }: lambda.Function): string => (schedulers.length === 1 ? statistic : `${statistic}: ${node.id}`);
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Delays before retries, in seconds',
    left: schedulers.flatMap((scheduler) => [
      redeliverMetric('RetryDelaySeconds', scheduler, AVERAGE, label('average', scheduler)),
      redeliverMetric('RetryDelaySeconds', scheduler, percentile(90), label('90 % are below', scheduler)),
      redeliverMetric('RetryDelaySeconds', scheduler, MAXIMUM, label('longest', scheduler)),
    ]),
    right: [...graphs.hops],
    leftYAxis: { min: 0 },
  });
}

function deadLettersByErrorType({ finalDlqAnnotator }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Dead letters by error type',
    stacked: true,
    left: [redeliverMetricByDimension('ErrorType', 'DeadLettered', finalDlqAnnotator)],
  });
}

function waitingMessages({ policy }: Plan, { source, stages, annotatedDlq, annotation, finalDlq }: Loop): cloudwatch.IWidget {
  const visible = { period: PERIOD, statistic: MAXIMUM };
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Messages in the queues',
    left: [
      source.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'source' }),
      source.metricApproximateNumberOfMessagesDelayed({ ...visible, label: 'source, delayed' }),
      ...stages.flatMap(({ queue, title }) => [
        queue.metricApproximateNumberOfMessagesVisible({ ...visible, label: title }),
        ...(policy.long_delays ? [queue.metricApproximateNumberOfMessagesDelayed({ ...visible, label: `${title}, hopping` })] : []),
      ]),
      ...(annotatedDlq ? [annotatedDlq.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'source DLQ' })] : []),
      annotation.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'annotation' }),
      finalDlq.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'final DLQ' }),
    ],
    leftYAxis: { min: 0 },
  });
}

function messageAges({ hasCircuitBreaker }: Plan, { messageProcessor, stages, finalDlqAnnotator }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Oldest message since its first send, in seconds',
    left: [
      redeliverMetric('MessageAgeSeconds', messageProcessor, MAXIMUM, 'when processed or failed'),
      ...stages.map(({ reader }) => redeliverMetric('MessageAgeSeconds', reader, MAXIMUM, 'when its retry was scheduled')),
      redeliverMetric('MessageAgeSeconds', finalDlqAnnotator, MAXIMUM, 'when given up'),
      ...(hasCircuitBreaker ? [redeliverMetric('LongestHoldSeconds', messageProcessor, MAXIMUM, 'held in all')] : []),
    ],
    leftYAxis: { min: 0 },
  });
}

function queueAges({ source, stages, annotatedDlq, annotation, finalDlq }: Loop): cloudwatch.IWidget {
  const oldest = { period: PERIOD, statistic: MAXIMUM };
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Oldest message in each queue, in seconds',
    left: [
      source.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'source' }),
      ...stages.map(({ queue, title }) => queue.metricApproximateAgeOfOldestMessage({ ...oldest, label: title })),
      ...(annotatedDlq ? [annotatedDlq.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'source DLQ' })] : []),
      annotation.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'annotation' }),
    ],
    // Dead letters remain for days and would flatten the other lines on the same axis.
    right: [finalDlq.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'final DLQ (right)' })],
    leftYAxis: { min: 0 },
    rightYAxis: { min: 0 },
  });
}

function targetWidget({ messageProcessor }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Successful calls to the target, in seconds',
    left: [
      redeliverMetric('TargetSeconds', messageProcessor, percentile(50), 'half are below'),
      redeliverMetric('TargetSeconds', messageProcessor, percentile(99), '99 % are below'),
      redeliverMetric('TargetSeconds', messageProcessor, MAXIMUM, 'longest'),
    ],
    leftYAxis: { min: 0 },
  });
}

function healthWidget(loop: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Functions: errors, throttles, sends not confirmed',
    left: readersOf(loop).flatMap(({ reader }) => [
      lambdaMetric('Errors', reader).with({ label: `errors: ${reader.node.id}` }),
      lambdaMetric('Throttles', reader).with({ label: `throttles: ${reader.node.id}` }),
      redeliverMetric('NotConfirmed', reader, SUM, `not confirmed: ${reader.node.id}`),
    ]),
    leftYAxis: { min: 0 },
  });
}
