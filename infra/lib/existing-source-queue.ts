import { CustomResource, Duration, Stack, Validations } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { Construct } from 'constructs';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { createLogGroup } from './log-group';
import type { Plan } from './plan';
import { MESSAGE_BYTES_MAX } from './queues';
import type { Loop } from './strategy/definition';

/** As long as the function may take, and no longer: a late retry must not undo what came after it. */
const LONGEST = Duration.minutes(3);

/**
 * Gives a source queue that the stack does not own what a new one would have, before a message is taken from it: at first,
 * when what is wanted changes, and with each new build of the message-processor. It goes with the stack, except what was raised.
 *
 * Whatever must be refused is refused by a check that is new with each change, so that a rollback deletes it. An update that
 * refuses would refuse its rollback, too, and leave the stack stuck.
 */
export function setAttributes(
  scope: Construct,
  plan: Plan,
  { source, sourceDlq, messageProcessor }: Loop,
): void {
  const stack = Stack.of(scope);
  // For each queue anew: when another takes its place, the old function with its old rights takes the redrive off it.
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
      serviceTimeout: LONGEST,
      properties: { Step: name, ...properties },
    });
  const check = step(`Check${fingerprint(stack.resolve(properties))}`, 'check');
  const set = step('Set', 'set');
  check.node.addDependency(setter); // its settings for asynchronous invocations, too
  set.node.addDependency(check);
  messageProcessor.node.addDependency(set);
}

/** What is another with each build; nothing of a user's function whose code is in the template. */
function buildOf(messageProcessor: lambda.Function): string | undefined {
  const { code } = messageProcessor.node.defaultChild as lambda.CfnFunction;
  const { s3Key, imageUri } = code as lambda.CfnFunction.CodeProperty;
  return s3Key ?? imageUri;
}

function fingerprint(resolved: unknown): string {
  return createHash('sha256').update(JSON.stringify(resolved)).digest('hex').slice(0, 8);
}

function createSetter(scope: Construct, plan: Plan, queueArn: string): lambda.Function {
  const logGroup = createLogGroup(scope, 'SetterLogs', plan);
  const role = new iam.Role(scope, 'SetterRole', {
    assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com'),
    description: 'Of the function that sets the attributes of the existing source queue at deployment.',
  });
  logGroup.grantWrite(role);
  role.addToPolicy(
    new iam.PolicyStatement({ actions: ['sqs:GetQueueAttributes', 'sqs:SetQueueAttributes'], resources: [queueArn] }),
  );
  const setter = new lambda.Function(scope, 'Setter', {
    description: 'Sets the attributes of the existing source queue at deployment.',
    // Comes with boto3, so the code is this one file.
    runtime: lambda.Runtime.PYTHON_3_14,
    architecture: plan.architecture,
    handler: 'index.handler',
    code: lambda.Code.fromInline(readFileSync(join(__dirname, 'existing-source-queue.py'), 'utf8')),
    role,
    logGroup,
    loggingFormat: lambda.LoggingFormat.JSON,
    timeout: LONGEST,
    maxEventAge: LONGEST,
    retryAttempts: 0,
  });
  Validations.of(setter).acknowledge({
    id: 'AwsSolutions-L1',
    reason: 'A few lines that run at deployments; they need nothing that Python 3.14 lacks.',
  });
  return setter;
}
