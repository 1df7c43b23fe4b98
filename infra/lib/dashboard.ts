import { Stack } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import { isUnconditional } from './alarm.ts';
import type { Functions } from './functions.ts';
import { ofLambda, own, ownBy, PERIOD } from './metrics.ts';
import type { Plan } from './plan.ts';
import type { Queues } from './queues.ts';

const HALF = { width: 12, height: 7 };
const { AVERAGE, MAXIMUM, SUM, percentile } = cloudwatch.Stats;

/** Creates the dashboard: from top to bottom, what comes in, what comes back, what is given up, and how late it all is. */
export function createDashboard(
  scope: Construct,
  plan: Plan,
  queues: Queues,
  functions: Functions,
  alarms: readonly cloudwatch.Alarm[],
): cloudwatch.Dashboard {
  // Dashboards of all regions of an account share one list of names.
  const dashboardName = `${plan.names.prefix}-${Stack.of(scope).region}`;
  const dashboard = new cloudwatch.Dashboard(scope, 'Dashboard', { dashboardName });
  // Its text cannot leave out what the deployment leaves out.
  const shown = alarms.filter(isUnconditional);
  dashboard.addWidgets(new cloudwatch.AlarmStatusWidget({ title: 'Alarms', alarms: shown, width: 24, height: 4 }));
  dashboard.addWidgets(atAGlance(queues, functions));
  dashboard.addWidgets(flowIn(queues, functions), failures(queues, functions));
  dashboard.addWidgets(retriesByAttempt(functions), delays(plan, functions));
  dashboard.addWidgets(deadLettersByErrorType(functions), waiting(plan, queues));
  dashboard.addWidgets(messageAges(functions), queueAges(queues));
  dashboard.addWidgets(target(functions), health(functions));
  return dashboard;
}

/** Who schedules retries. */
function scheduler({ messageProcessor, failedMessageProcessor }: Functions): lambda.Function {
  return failedMessageProcessor ?? messageProcessor;
}

function atAGlance(queues: Queues, functions: Functions): cloudwatch.IWidget {
  return new cloudwatch.SingleValueWidget({
    title: 'In the time shown',
    width: 24,
    height: 4,
    setPeriodToTimeRange: true,
    metrics: [
      own('Processed', functions.messageProcessor, SUM, 'processed'),
      ...(functions.failedMessageProcessor ? [own('HandedOff', functions.messageProcessor, SUM, 'failed')] : []),
      own('RetriesScheduled', scheduler(functions), SUM, 'retries'),
      own('DeadLettered', functions.finalDlqAnnotator, SUM, 'given up'),
      queues.finalDlq.metricApproximateNumberOfMessagesVisible({ label: 'in the final DLQ (most)', statistic: MAXIMUM }),
    ],
  });
}

function flowIn({ source, intermediateDlq }: Queues, functions: Functions): cloudwatch.IWidget {
  const sent = source.metricNumberOfMessagesSent({ period: PERIOD, statistic: SUM });
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Flow in: messages per 5 minutes',
    left: [
      intermediateDlq
        ? new cloudwatch.MathExpression({
            expression: 'FILL(sent, 0) - FILL(retries, 0)',
            label: 'from producers',
            period: PERIOD,
            usingMetrics: { sent, retries: own('RetriesScheduled', scheduler(functions)) },
          })
        : sent.with({ label: 'from producers' }),
      own('RetriesScheduled', scheduler(functions), SUM, 'retries'),
      own('Processed', functions.messageProcessor, SUM, 'processed'),
    ],
  });
}

/** With strategy `visibility` every failure is a retry or a dead letter, and what can run out is the room for hidden messages. */
function failures({ source }: Queues, { messageProcessor, failedMessageProcessor }: Functions): cloudwatch.IWidget {
  if (!failedMessageProcessor) {
    return new cloudwatch.GraphWidget({
      ...HALF,
      title: 'Received and not deleted: hidden until their retry, or worked on (at most 120,000)',
      left: [source.metricApproximateNumberOfMessagesNotVisible({ period: PERIOD, statistic: MAXIMUM, label: 'source' })],
      leftYAxis: { min: 0 },
    });
  }
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Failures by kind',
    stacked: true,
    left: [
      ownBy('FailureKind', 'HandedOff', messageProcessor),
      own('ArrivedByRedrive', failedMessageProcessor, SUM, 'moved by SQS (crash, timeout, throttle)'),
    ],
  });
}

function retriesByAttempt(functions: Functions): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Retries by attempt',
    stacked: true,
    left: [ownBy('RetryAttempt', 'RetriesScheduled', scheduler(functions))],
  });
}

function delays({ policy }: Plan, functions: Functions): cloudwatch.IWidget {
  const { failedMessageProcessor } = functions;
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Delays before retries, in seconds',
    left: [
      own('RetryDelaySeconds', scheduler(functions), AVERAGE, 'average'),
      own('RetryDelaySeconds', scheduler(functions), percentile(90), '90 % are below'),
      own('RetryDelaySeconds', scheduler(functions), MAXIMUM, 'longest'),
    ],
    ...(failedMessageProcessor && {
      right: [
        ...(policy.long_delays ? [own('Hops', failedMessageProcessor, SUM, 'hops (right)')] : []),
        ...(policy.max_redelivery_per_second === undefined
          ? []
          : [own('PacedRetries', failedMessageProcessor, SUM, 'paced retries (right)')]),
      ],
    }),
    leftYAxis: { min: 0 },
  });
}

function deadLettersByErrorType({ finalDlqAnnotator }: Functions): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Dead letters by error type',
    stacked: true,
    left: [ownBy('ErrorType', 'DeadLettered', finalDlqAnnotator)],
  });
}

function waiting({ policy }: Plan, { source, intermediateDlq, annotation, finalDlq }: Queues): cloudwatch.IWidget {
  const visible = { period: PERIOD, statistic: MAXIMUM };
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Messages in the queues',
    left: [
      source.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'source' }),
      source.metricApproximateNumberOfMessagesDelayed({ ...visible, label: 'source, delayed' }),
      ...(intermediateDlq
        ? [intermediateDlq.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'intermediate DLQ' })]
        : []),
      ...(intermediateDlq && policy.long_delays
        ? [intermediateDlq.metricApproximateNumberOfMessagesDelayed({ ...visible, label: 'intermediate DLQ, hopping' })]
        : []),
      annotation.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'annotation' }),
      finalDlq.metricApproximateNumberOfMessagesVisible({ ...visible, label: 'final DLQ' }),
    ],
    leftYAxis: { min: 0 },
  });
}

function messageAges({ messageProcessor, failedMessageProcessor, finalDlqAnnotator }: Functions): cloudwatch.IWidget {
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Oldest message since its first send, in seconds',
    left: [
      own('MessageAgeSeconds', messageProcessor, MAXIMUM, 'when processed or failed'),
      ...(failedMessageProcessor
        ? [own('MessageAgeSeconds', failedMessageProcessor, MAXIMUM, 'when its retry was scheduled')]
        : []),
      own('MessageAgeSeconds', finalDlqAnnotator, MAXIMUM, 'when given up'),
    ],
    leftYAxis: { min: 0 },
  });
}

function queueAges({ source, intermediateDlq, annotation, finalDlq }: Queues): cloudwatch.IWidget {
  const oldest = { period: PERIOD, statistic: MAXIMUM };
  return new cloudwatch.GraphWidget({
    ...HALF,
    title: 'Oldest message in each queue, in seconds',
    left: [
      source.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'source' }),
      ...(intermediateDlq
        ? [intermediateDlq.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'intermediate DLQ' })]
        : []),
      annotation.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'annotation' }),
    ],
    // Dead letters wait for days: on the same axis they would flatten the others.
    right: [finalDlq.metricApproximateAgeOfOldestMessage({ ...oldest, label: 'final DLQ (right)' })],
    leftYAxis: { min: 0 },
    rightYAxis: { min: 0 },
  });
}

function target({ messageProcessor }: Functions): cloudwatch.IWidget {
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

function health(functions: Functions): cloudwatch.IWidget {
  const { messageProcessor, failedMessageProcessor, finalDlqAnnotator } = functions;
  const all = [messageProcessor, ...(failedMessageProcessor ? [failedMessageProcessor] : []), finalDlqAnnotator];
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
