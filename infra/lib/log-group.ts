import { ArnFormat, Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';

import type { CommonSettings } from './common-settings';

/** Application log levels at which Lambda drops the metric lines, whose level is INFO ("Log-level filtering"). */
const LEVELS_ABOVE_INFO = ['WARN', 'ERROR', 'FATAL'];

/**
 * Returns the problem if the log level is above INFO, at which there would be no metrics and their alarms could not
 * fire.
 */
export function logLevelProblems(name: string, resource: lambda.CfnFunction, advice: string): string[] {
  const level: unknown = Stack.of(resource).resolve(resource.loggingConfig)?.applicationLogLevel;
  return LEVELS_ABOVE_INFO.includes(String(level))
    ? [`${name} has the application log level ${String(level)}, with which Lambda drops redeliver's metrics and all alarms on them are silent; ${advice}.`]
    : [];
}

/** Creates the log group of a function. */
export function createLogGroup(scope: Construct, id: string, plan: CommonSettings): logs.LogGroup {
  const { logEncryptionKey: encryptionKey } = plan;
  const logGroup = new logs.LogGroup(scope, id, {
    retention: plan.logRetention,
    removalPolicy: plan.removalPolicy,
    ...(encryptionKey && { encryptionKey }),
  });
  if (encryptionKey) {
    allowLogs(logGroup, encryptionKey);
  }
  return logGroup;
}

/**
 * Lets CloudWatch Logs use a key ("Encrypt log data in CloudWatch Logs using AWS KMS"). The owner of an imported key
 * must allow it.
 */
function allowLogs(logGroup: logs.LogGroup, key: kms.IKey): void {
  const stack = Stack.of(logGroup);
  // Naming the group itself would create a cycle, since the group refers to the key.
  const groups = stack.formatArn({ service: 'logs', resource: 'log-group', resourceName: '*', arnFormat: ArnFormat.COLON_RESOURCE_NAME });
  const statement = new iam.PolicyStatement({
    // CloudWatch Logs is one of the few services whose principal has the partition's suffix.
    principals: [new iam.ServicePrincipal(`logs.${stack.region}.${stack.urlSuffix}`)],
    actions: ['kms:Encrypt*', 'kms:Decrypt*', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:Describe*'],
    resources: ['*'],
    conditions: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': groups } },
  });
  key.addToResourcePolicy(statement, true);
}
