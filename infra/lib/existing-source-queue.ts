import { CfnOutput, CustomResource, Duration, Stack, Validations } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

import type { Plan } from './plan.ts';
import type { ExistingSourceQueue } from './props.ts';
import type { Queues } from './queues.ts';

/**
 * What a new source queue would have: says it in an output, as a command, and lets the deployment fail where the queue
 * is connected without having it.
 */
export function checkExistingSourceQueue(
  scope: Construct,
  plan: Plan,
  { source, intermediateDlq, annotation }: Queues,
  messageProcessor: lambda.Function,
  { connected = true, encryptionKey }: ExistingSourceQueue,
): void {
  const required = {
    RedrivePolicy: Stack.of(scope).toJsonString({
      deadLetterTargetArn: (intermediateDlq ?? annotation).queueArn,
      maxReceiveCount: plan.maxReceiveCount,
    }),
    VisibilityTimeout: String(plan.sourceVisibilityTimeout.toSeconds()),
    MaximumMessageSize: '1048576',
  };
  const retention = String(plan.sourceRetention.toSeconds());
  new CfnOutput(scope, 'SourceQueueMustHave', {
    // Not the retention: whoever shortens it deletes what is older.
    description:
      'Gives the existing source queue the attributes that the stack cannot set. Its MessageRetentionPeriod must be at ' +
      `least ${retention}, too, and less than 1209600; note the old attributes first.`,
    value:
      `aws sqs set-queue-attributes --queue-url ${source.queueUrl} ` +
      `--attributes '${Stack.of(scope).toJsonString(required)}'`,
  });
  if (connected) {
    // The mapping comes after the check: no message is taken from a queue that would lose it.
    const attributes = Stack.of(scope).toJsonString({ ...required, MessageRetentionPeriod: retention });
    const check = createCheckFunction(scope, plan, source.queueArn);
    messageProcessor.node.addDependency(
      new CustomResource(scope, `SourceQueueIsRight${fingerprint(plan, source.queueArn, encryptionKey !== undefined)}`, {
        resourceType: 'Custom::RedeliverSourceQueue',
        serviceToken: check.functionArn,
        serviceTimeout: Duration.minutes(2),
        properties: { QueueUrl: source.queueUrl, Attributes: attributes, HasKey: String(encryptionKey !== undefined) },
      }),
    );
  }
}

/**
 * Part of the check's id, so that a change makes a new one and never an update: a rollback would check the queue
 * against what is no longer true, fail, and leave the stack stuck. The rollback of a new one is a deletion.
 */
function fingerprint(plan: Plan, queueArn: string, hasKey: boolean): string {
  const { strategy, maxReceiveCount, sourceVisibilityTimeout, sourceRetention } = plan;
  const told = [queueArn, hasKey, strategy, maxReceiveCount, sourceVisibilityTimeout.toSeconds(), sourceRetention.toSeconds()];
  return createHash('sha256').update(JSON.stringify(told)).digest('hex').slice(0, 8);
}

function createCheckFunction(scope: Construct, plan: Plan, queueArn: string): lambda.Function {
  const logGroup = new logs.LogGroup(scope, 'SourceQueueCheckLogs', {
    retention: plan.logRetention,
    removalPolicy: plan.removalPolicy,
  });
  const role = new iam.Role(scope, 'SourceQueueCheckRole', {
    assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com'),
    description: 'Of the function that checks the existing source queue at deployment.',
  });
  logGroup.grantWrite(role);
  role.addToPolicy(new iam.PolicyStatement({ actions: ['sqs:GetQueueAttributes'], resources: [queueArn] }));
  const check = new lambda.Function(scope, 'SourceQueueCheck', {
    description: 'Checks the attributes of the existing source queue at deployment.',
    // Comes with boto3, so the code is this one file.
    runtime: lambda.Runtime.PYTHON_3_14,
    architecture: plan.architecture,
    handler: 'index.handler',
    code: lambda.Code.fromInline(readFileSync(new URL('existing-source-queue.py', import.meta.url), 'utf8')),
    role,
    logGroup,
    loggingFormat: lambda.LoggingFormat.JSON,
    timeout: Duration.minutes(1),
  });
  Validations.of(check).acknowledge({
    id: 'AwsSolutions-L1',
    reason: 'A few lines that run at deployments; they need nothing that Python 3.14 lacks.',
  });
  return check;
}
