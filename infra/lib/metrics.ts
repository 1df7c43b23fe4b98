import { Duration } from 'aws-cdk-lib';
import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';

/**
 * The namespace of the functions' own metrics, which crates/aws/src/telemetry/log_line.rs writes in embedded metric
 * format.
 */
const NAMESPACE = 'Redeliver';

/** The period of all alarms and graphs. */
export const PERIOD = Duration.minutes(5);

export type RedeliverMetric =
  | 'ArchiveRefused'
  | 'ArrivedByRedrive'
  | 'CircuitOpen'
  | 'DeadLettered'
  | 'HandedOff'
  | 'Held'
  | 'Hops'
  | 'LongestHoldSeconds'
  | 'MessageAgeSeconds'
  | 'NotConfirmed'
  | 'NoticeRefused'
  | 'Probes'
  | 'Processed'
  | 'ReceiveCount'
  | 'RetriesScheduled'
  | 'RetryDelaySeconds'
  | 'TargetSeconds';

/** Returns a metric that a function writes itself. */
export function redeliverMetric(
  metricName: RedeliverMetric,
  writer: lambda.Function,
  statistic: string = cloudwatch.Stats.SUM,
  label?: string,
): cloudwatch.Metric {
  return new cloudwatch.Metric({
    namespace: NAMESPACE,
    metricName,
    // A reference, so that a deployment without the function also removes the metric.
    dimensionsMap: { Function: writer.functionName },
    statistic,
    period: PERIOD,
    ...(label !== undefined && { label }),
  });
}

/** Returns the metric for dead letters of one error type. */
export function deadLetterMetric(errorType: string, annotator: lambda.Function): cloudwatch.Metric {
  return redeliverMetric('DeadLettered', annotator).with({ dimensionsMap: { Function: annotator.functionName, ErrorType: errorType } });
}

/** Returns the sum of a metric over all functions that write it. */
export function redeliverMetricSum(metricName: RedeliverMetric, writers: readonly lambda.Function[], label?: string): cloudwatch.IMetric {
  const [only, ...others] = writers;
  if (only !== undefined && others.length === 0) {
    return redeliverMetric(metricName, only, cloudwatch.Stats.SUM, label);
  }
  // Metric ids must be unique within a graph.
  const parts = writers.map((writer, index) => [`${metricName.charAt(0).toLowerCase()}${metricName.slice(1)}${index}`, redeliverMetric(metricName, writer)] as const);
  return new cloudwatch.MathExpression({
    expression: parts.map(([id]) => `FILL(${id}, 0)`).join(' + '),
    usingMetrics: Object.fromEntries(parts),
    period: PERIOD,
    ...(label !== undefined && { label }),
  });
}

/** Returns a metric that a function writes itself, with one line per value of another dimension. */
export function redeliverMetricByDimension(
  dimension: 'ErrorType' | 'FailureKind' | 'RetryAttempt',
  metricName: RedeliverMetric,
  writer: lambda.Function,
): cloudwatch.MathExpression {
  const search = `{${NAMESPACE},Function,${dimension}} MetricName="${metricName}" Function="${writer.functionName}"`;
  return new cloudwatch.MathExpression({
    expression: `SEARCH('${search}', 'Sum', ${PERIOD.toSeconds()})`,
    label: `\${PROP('Dim.${dimension}')}`,
    period: PERIOD,
  });
}

/** Returns a metric that Lambda writes, such as `Errors` or `Throttles`. */
export function lambdaMetric(
  metricName: string,
  target: lambda.IFunction,
  statistic: string = cloudwatch.Stats.SUM,
): cloudwatch.Metric {
  return target.metric(metricName, { statistic, period: PERIOD });
}
