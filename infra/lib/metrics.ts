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
