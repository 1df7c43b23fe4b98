import { ArnFormat, Stack } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as logs from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';

import type { Commons } from './commons';

/** Creates the log group of a function. */
export function createLogGroup(scope: Construct, id: string, plan: Commons): logs.LogGroup {
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

/** "Encrypt log data in CloudWatch Logs using AWS KMS". An imported key's policy is its owner's business. */
function allowLogs(logGroup: logs.LogGroup, key: kms.IKey): void {
  const stack = Stack.of(logGroup);
  // Not the group itself, which refers to the key: that would be a cycle.
  const groups = stack.formatArn({ service: 'logs', resource: 'log-group', resourceName: '*', arnFormat: ArnFormat.COLON_RESOURCE_NAME });
  const statement = new iam.PolicyStatement({
    principals: [new iam.ServicePrincipal(`logs.${stack.region}.amazonaws.com`)],
    actions: ['kms:Encrypt*', 'kms:Decrypt*', 'kms:ReEncrypt*', 'kms:GenerateDataKey*', 'kms:Describe*'],
    resources: ['*'],
    conditions: { ArnLike: { 'kms:EncryptionContext:aws:logs:arn': groups } },
  });
  key.addToResourcePolicy(statement, true);
}
