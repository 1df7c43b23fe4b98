import { Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import { isUnconditional } from './alarm';
import { ofLambda, own, ownBy, ownSum, PERIOD } from './metrics';
import type { Plan } from './plan';
import type { Loop } from './strategy/definition';

const HALF = { width: 12, height: 7 };
const WHOLE = { width: 24, height: 5 };
const { AVERAGE, MAXIMUM, SUM, percentile } = cloudwatch.Stats;

/** Creates the dashboard: from top to bottom, what comes in, what comes back, what is given up, and how late it all is. */
export function createDashboard(
  scope: Construct,
  plan: Plan,
  loop: Loop,
  alarms: readonly cloudwatch.Alarm[],
): cloudwatch.Dashboard {
  // Dashboards of all regions of an account share one list of names.
  const dashboardName = `${plan.names.prefix}-${Stack.of(scope).region}`;
  const dashboard = new cloudwatch.Dashboard(scope, 'Dashboard', { dashboardName });
  // Its text cannot leave out what the deployment leaves out.
  const shown = alarms.filter(isUnconditional);
  if (shown.length > 0) {
    dashboard.addWidgets(new cloudwatch.AlarmStatusWidget({ title: 'Alarms', alarms: shown, width: 24, height: 4 }));
  }
  dashboard.addWidgets(atAGlance(loop));
  dashboard.addWidgets(flowIn(loop), new cloudwatch.GraphWidget({ ...HALF, ...loop.graphs.failures }));
  if (plan.hasCircuitBreaker) {
    dashboard.addWidgets(outages(loop));
  }
  dashboard.addWidgets(retriesByAttempt(loop), delays(loop));
  dashboard.addWidgets(deadLettersByErrorType(loop), waiting(plan, loop));
  dashboard.addWidgets(messageAges(loop), queueAges(loop));
  dashboard.addWidgets(target(loop), health(loop));
  return dashboard;
}

function atAGlance({ messageProcessor, finalDlqAnnotator, finalDlq, schedulers, graphs }: Loop): cloudwatch.IWidget {
  return new cloudwatch.SingleValueWidget({
    title: 'In the time shown',
    width: 24,
    height: 4,
    setPeriodToTimeRange: true,
    metrics: [
      own('Processed', messageProcessor, SUM, 'processed'),
      ...graphs.failed,
      ownSum('RetriesScheduled', schedulers, 'retries'),
      own('DeadLettered', finalDlqAnnotator, SUM, 'given up'),
      finalDlq.metricApproximateNumberOfMessagesVisible({ label: 'in the final DLQ (most)', statistic: MAXIMUM }),
    ],
  });
}

function flowIn({ messageProcessor, schedulers, graphs }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Flow in: messages per 5 minutes',
    left: [
      graphs.fromProducers,
      ownSum('RetriesScheduled', schedulers, 'retries'),
      own('Processed', messageProcessor, SUM, 'processed'),
    ],
  });
}

function outages({ messageProcessor }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...WHOLE,
    title: 'Outages of the target',
    left: [
      own('CircuitOpen', messageProcessor, SUM, 'times that it was found to be down'),
      own('Probes', messageProcessor, SUM, 'calls that asked whether it is back'),
    ],
    right: [own('Held', messageProcessor, SUM, 'messages held (right)')],
    leftYAxis: { min: 0 },
    rightYAxis: { min: 0 },
  });
}

function retriesByAttempt({ schedulers }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Retries by attempt',
    stacked: true,
    left: schedulers.map((scheduler) => ownBy('RetryAttempt', 'RetriesScheduled', scheduler)),
  });
}

function delays({ schedulers, graphs }: Loop): cloudwatch.IWidget {
  // Percentiles of two functions cannot be brought together: each has lines of its own.
  const told = (what: string, { node }: lambda.Function): string => (schedulers.length === 1 ? what : `${what}: ${node.id}`);
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Delays before retries, in seconds',
    left: schedulers.flatMap((scheduler) => [
      own('RetryDelaySeconds', scheduler, AVERAGE, told('average', scheduler)),
      own('RetryDelaySeconds', scheduler, percentile(90), told('90 % are below', scheduler)),
      own('RetryDelaySeconds', scheduler, MAXIMUM, told('longest', scheduler)),
    ]),
    right: [...graphs.besideDelays],
    leftYAxis: { min: 0 },
  });
}

function deadLettersByErrorType({ finalDlqAnnotator }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Dead letters by error type',
    stacked: true,
    left: [ownBy('ErrorType', 'DeadLettered', finalDlqAnnotator)],
  });
}

function waiting({ policy }: Plan, { source, stages, annotation, finalDlq }: Loop): cloudwatch.IWidget {
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
      annotation.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'annotation' }),
      finalDlq.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'final DLQ' }),
    ],
    leftYAxis: { min: 0 },
  });
}

function messageAges({ messageProcessor, stages, finalDlqAnnotator }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Oldest message since its first send, in seconds',
    left: [
      own('MessageAgeSeconds', messageProcessor, MAXIMUM, 'when processed or failed'),
      ...stages.map(({ reader }) => own('MessageAgeSeconds', reader, MAXIMUM, 'when its retry was scheduled')),
      own('MessageAgeSeconds', finalDlqAnnotator, MAXIMUM, 'when given up'),
    ],
    leftYAxis: { min: 0 },
  });
}

function queueAges({ source, stages, annotation, finalDlq }: Loop): cloudwatch.IWidget {
  const oldest = { period: PERIOD, statistic: MAXIMUM };
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Oldest message in each queue, in seconds',
    left: [
      source.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'source' }),
      ...stages.map(({ queue, title }) => queue.metricApproximateAgeOfOldestMessage({ ...oldest, label: title })),
      annotation.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'annotation' }),
    ],
    // Dead letters wait for days: on the same axis they would flatten the others.
    right: [finalDlq.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'final DLQ (right)' })],
    leftYAxis: { min: 0 },
    rightYAxis: { min: 0 },
  });
}

function target({ messageProcessor }: Loop): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Successful calls to the target, in seconds',
    left: [
      own('TargetSeconds', messageProcessor, percentile(50), 'half are below'),
      own('TargetSeconds', messageProcessor, percentile(99), '99 % are below'),
      own('TargetSeconds', messageProcessor, MAXIMUM, 'longest'),
    ],
    leftYAxis: { min: 0 },
  });
}

function health({ messageProcessor, stages, finalDlqAnnotator }: Loop): cloudwatch.IWidget {
  const all = [messageProcessor, ...stages.map(({ reader }) => reader), finalDlqAnnotator];
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Functions: errors, throttles, sends not confirmed',
    left: all.flatMap((each) => [
      ofLambda('Errors', each).with({ label: `errors: ${each.node.id}` }),
      ofLambda('Throttles', each).with({ label: `throttles: ${each.node.id}` }),
      own('NotConfirmed', each, SUM, `not confirmed: ${each.node.id}`),
    ]),
    leftYAxis: { min: 0 },
  });
}
