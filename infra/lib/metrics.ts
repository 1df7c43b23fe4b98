import { Duration } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';

/** The functions' own metrics, in CloudWatch's embedded metric format; crates/aws/src/telemetry/line.rs writes them. */
const NAMESPACE = 'Redeliver';

/** Of all alarms and graphs. */
export const PERIOD = Duration.minutes(5);

export type OwnMetric =
  | 'ArrivedByRedrive'
  | 'CircuitOpen'
  | 'DeadLettered'
  | 'HandedOff'
  | 'Held'
  | 'Hops'
  | 'MessageAgeSeconds'
  | 'NotConfirmed'
  | 'NotCounted'
  | 'PacedRetries'
  | 'Probes'
  | 'Processed'
  | 'ReceiveCount'
  | 'RedeliveryRateNotHeld'
  | 'RetriesScheduled'
  | 'RetryDelaySeconds'
  | 'TargetSeconds';

/** A metric that a function writes itself. */
export function own(
  metricName: OwnMetric,
  writer: lambda.Function,
  statistic: string = cloudwatch.Stats.SUM,
  label?: string,
): cloudwatch.Metric {
  return new cloudwatch.Metric({
    namespace: NAMESPACE,
    metricName,
    // The function's name as a reference, so that nothing is watched that is not there.
    dimensionsMap: { Function: writer.functionName },
    statistic,
    period: PERIOD,
    ...(label !== undefined && { label }),
  });
}

/** The same of all functions that write it. */
export function ownSum(metricName: OwnMetric, writers: readonly lambda.Function[], label?: string): cloudwatch.IMetric {
  const [only, ...others] = writers;
  if (only !== undefined && others.length === 0) {
    return own(metricName, only, cloudwatch.Stats.SUM, label);
  }
  // In a graph each id is of one metric.
  const parts = writers.map((writer, index) => [`${metricName.charAt(0).toLowerCase()}${metricName.slice(1)}${index}`, own(metricName, writer)] as const);
  return new cloudwatch.MathExpression({
    expression: parts.map(([id]) => `FILL(${id}, 0)`).join(' + '),
    usingMetrics: Object.fromEntries(parts),
    period: PERIOD,
    ...(label !== undefined && { label }),
  });
}

/** A metric that a function writes itself, one line for each value of a further dimension. */
export function ownBy(
  dimension: 'ErrorType' | 'FailureKind' | 'RetryAttempt',
  metricName: OwnMetric,
  writer: lambda.Function,
): cloudwatch.MathExpression {
  const what = `{${NAMESPACE},Function,${dimension}} MetricName="${metricName}" Function="${writer.functionName}"`;
  return new cloudwatch.MathExpression({
    expression: `SEARCH('${what}', 'Sum', ${PERIOD.toSeconds()})`,
    label: `\${PROP('Dim.${dimension}')}`,
    period: PERIOD,
  });
}

/** Received too often, errors, throttles: a metric that Lambda writes. */
export function ofLambda(
  metricName: string,
  target: lambda.IFunction,
  statistic: string = cloudwatch.Stats.SUM,
): cloudwatch.Metric {
  return target.metric(metricName, { statistic, period: PERIOD });
}
