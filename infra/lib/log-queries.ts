import type * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';

import type { Plan } from './plan';
import { type Loop, readersOf } from './strategy/definition';

/** The most common queries, by name; docs/operate/logs.md has these and more. */
const QUERIES: Readonly<Record<string, string>> = {
  'what died, and why': 'filter event = "dead_lettered" | stats count(*) as dead by error_type | sort dead desc',
  'the story of one message':
    'filter message_id = "ID" or sqs_message_id = "ID" | sort @timestamp | fields @timestamp, event, retry_attempt, error_type',
  'when the target was down':
    'filter event in ["circuit_opened", "probe_failed", "circuit_closed"] | sort @timestamp | fields @timestamp, event, error_type, open_seconds',
};

/**
 * Saves queries for CloudWatch Logs Insights, in a folder with the deployment's name. Saved queries are free; only
 * running them costs money.
 */
export function saveQueries(scope: Construct, { names }: Plan, loop: Loop): void {
  const logGroupNames = readersOf(loop).map(({ reader }) => logGroupNameOf(reader));
  Object.entries(QUERIES).forEach(([name, queryString], index) => {
    new logs.CfnQueryDefinition(scope, `Query${index}`, { name: `${names.prefix}/${name}`, queryString, logGroupNames });
  });
}

/**
 * Returns the name of a function's log group. For a user's function, reading its property `logGroup` would create one.
 */
function logGroupNameOf(reader: lambda.Function): string {
  const { loggingConfig } = reader.node.defaultChild as lambda.CfnFunction;
  return (loggingConfig as lambda.CfnFunction.LoggingConfigProperty | undefined)?.logGroup ?? `/aws/lambda/${reader.functionName}`;
}
