import { CustomResource, Duration, Stack, Validations } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { createRole } from './function-role';
import { createLogGroup } from './log-group';
import type { Plan } from './plan';
import { MESSAGE_BYTES_MAX } from './queues';
import type { Loop } from './strategy/definition';
import { allowNetworkInterfaces, placement } from './vpc';

/** The timeout of the function and the maximum age of its events: a late retry must not undo a newer change. */
const SETTER_TIMEOUT = Duration.minutes(3);

/**
 * Sets the attributes of a source queue outside the stack before the first message is received from it, and again
 * whenever the attributes or the build of the message-processor change. Deleting the stack removes the redrive policy,
 * but does not lower numbers that were raised.
 *
 * Invalid queues are rejected by a check resource with a new id for each change, which a rollback deletes. If an update
 * rejected them, its rollback would also be rejected and leave the stack stuck.
 *
 * @returns the function that sets the attributes.
 */
export function setQueueAttributes(
  scope: Construct,
  plan: Plan,
  { source, sourceDlq, messageProcessor }: Loop,
): lambda.Function {
  const stack = Stack.of(scope);
  // One group per queue: when another queue replaces this one, the old function still has permission to remove its
  // queue's redrive policy.
  const group = new Construct(scope, `SourceQueueAttributes${fingerprint(stack.resolve(source.queueArn))}`);
  const properties = {
    QueueArn: source.queueArn,
    QueueUrl: source.queueUrl,
    HasKey: String(source.encryptionMasterKey !== undefined),
    RedrivePolicy: stack.toJsonString({
      deadLetterTargetArn: sourceDlq.queueArn,
      maxReceiveCount: plan.maxReceiveCount,
    }),
    VisibilityTimeout: String(plan.sourceVisibilityTimeout.toSeconds()),
    MessageRetentionPeriod: String(plan.sourceRetention.toSeconds()),
    MaximumMessageSize: String(MESSAGE_BYTES_MAX),
    Build: buildOf(messageProcessor),
  };
  const setter = createSetter(group, plan, source.queueArn);
  const step = (id: string, name: string): CustomResource =>
    new CustomResource(group, id, {
      resourceType: 'Custom::RedeliverSourceQueue',
      serviceToken: setter.functionArn,
      serviceTimeout: SETTER_TIMEOUT,
      properties: { Step: name, ...properties },
    });
  const check = step(`Check${fingerprint(stack.resolve(properties))}`, 'check');
  const set = step('Set', 'set');
  check.node.addDependency(setter); // including its settings for asynchronous invocations
  set.node.addDependency(check);
  messageProcessor.node.addDependency(set);
  return setter;
}

/** Returns an identifier of the build, or `undefined` for a user's function with inline code. */
function buildOf(messageProcessor: lambda.Function): string | undefined {
  const { code } = messageProcessor.node.defaultChild as lambda.CfnFunction;
  const { s3Key, imageUri } = code as lambda.CfnFunction.CodeProperty;
  return s3Key ?? imageUri;
}

function fingerprint(resolved: unknown): string {
  return createHash('sha256').update(JSON.stringify(resolved)).digest('hex').slice(0, 8);
}

function createSetter(scope: Construct, plan: Plan, queueArn: string): lambda.Function {
  const stack = Stack.of(scope);
  const logGroup = createLogGroup(scope, 'SetterLogs', plan);
  const role = createRole(scope, 'SetterRole', plan, 'The role of the function that sets the attributes of the existing source queue at deployment.');
  logGroup.grantWrite(role);
  role.addToPolicy(
    new iam.PolicyStatement({ actions: ['sqs:GetQueueAttributes', 'sqs:SetQueueAttributes'], resources: [queueArn] }),
  );
  if (plan.vpc) {
    // The function's name is not known here, and no other function uses the role.
    allowNetworkInterfaces(role, stack.formatArn({ service: 'lambda', resource: 'function:*' }));
  }
  const setter = new lambda.Function(scope, 'Setter', {
    description: 'Sets the attributes of the existing source queue at deployment.',
    // The runtime includes boto3, so a single file is enough.
    runtime: lambda.Runtime.PYTHON_3_14,
    architecture: plan.architecture,
    handler: 'index.handler',
    code: lambda.Code.fromInline(readFileSync(join(__dirname, 'existing-source-queue.py'), 'utf8')),
    role,
    environment: { STACK_ID: stack.stackId, URL_SUFFIX: stack.urlSuffix },
    logGroup,
    loggingFormat: lambda.LoggingFormat.JSON,
    timeout: SETTER_TIMEOUT,
    ...placement(plan),
    maxEventAge: SETTER_TIMEOUT,
    retryAttempts: 0,
  });
  Validations.of(setter).acknowledge({
    id: 'AwsSolutions-L1',
    reason: 'A few lines that run at deployments; Python 3.14 is enough for them.',
  });
  return setter;
}
