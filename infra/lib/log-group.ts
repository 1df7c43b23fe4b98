import { ArnFormat, Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as logs from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';

import type { CommonSettings } from './common-settings';

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
  // Naming the group itself would be a cycle, since it refers to the key.
  const groups = stack.formatArn({ service: 'logs', resource: 'log-group', resourceName: '*', arnFormat: ArnFormat.COLON_RESOURCE_NAME });
  const statement = new iam.PolicyStatement({
    // One of few services whose principal has the partition's suffix.
    principals: [new iam.ServicePrincipal(`logs.${stack.region}.${stack.urlSuffix}`)],
    actions: ['kms:Encrypt*', 'kms:Decrypt*', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:Describe*'],
    resources: ['*'],
    conditions: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': groups } },
  });
  key.addToResourcePolicy(statement, true);
}
