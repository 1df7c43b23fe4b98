import { CfnOutput, CustomResource, Duration, Stack, Validations } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import type { Construct } from 'constructs';
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
  { source, intermediateDlq }: Queues,
  messageProcessor: lambda.Function,
  { connected = true }: ExistingSourceQueue,
): void {
  const attributes = Stack.of(scope).toJsonString({
    RedrivePolicy: Stack.of(scope).toJsonString({
      deadLetterTargetArn: intermediateDlq.queueArn,
      maxReceiveCount: plan.maxReceiveCount,
    }),
    VisibilityTimeout: String(plan.sourceVisibilityTimeout.toSeconds()),
    MessageRetentionPeriod: String(plan.sourceRetention.toSeconds()),
    MaximumMessageSize: '1048576',
  });
  new CfnOutput(scope, 'SourceQueueMustHave', {
    description: 'Gives the existing source queue the attributes that the stack cannot set.',
    value: `aws sqs set-queue-attributes --queue-url ${source.queueUrl} --attributes '${attributes}'`,
  });
  if (connected) {
    // The mapping comes after the check: no message is taken from a queue that would lose it.
    messageProcessor.node.addDependency(createCheck(scope, plan, source.queueUrl, source.queueArn, attributes));
  }
}

function createCheck(
  scope: Construct,
  plan: Plan,
  queueUrl: string,
  queueArn: string,
  attributes: string,
): CustomResource {
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
  return new CustomResource(scope, 'SourceQueueIsRight', {
    resourceType: 'Custom::RedeliverSourceQueue',
    serviceToken: check.functionArn,
    serviceTimeout: Duration.minutes(2),
    properties: { QueueUrl: queueUrl, Attributes: attributes },
  });
}
