import { Duration, Stack, Validations } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource } from 'aws-cdk-lib/aws-lambda-event-sources';
import * as logs from 'aws-cdk-lib/aws-logs';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';
import { join } from 'node:path';

import { bundleCode, DATA_SCHEMA_FILE } from './bundles.ts';
import type { Plan } from './plan.ts';
import type { RedeliverProps, VpcPlacement } from './props.ts';
import { INNER_TIMEOUT, type Queues } from './queues.ts';
import { allowNetworkInterfaces } from './vpc.ts';

/** The three functions. */
export interface Functions {
  readonly messageProcessor: lambda.Function;
  readonly failedMessageProcessor: lambda.Function;
  readonly finalDlqAnnotator: lambda.Function;
}

/** What they hold at most: a batch of 10 MiB a few times over; more memory is also more processor. */
const MEMORY_MIB = 256;
/** Of the two inner functions: ten messages in a few calls to SQS take well under a second. */
const INNER_CONCURRENCY = 10;
const INNER_BATCH = 10;

/** Creates the functions with roles of their own and subscribes each to its queue. */
export function createFunctions(scope: Construct, props: RedeliverProps, plan: Plan, queues: Queues): Functions {
  const { names } = plan;
  const { target } = props;
  const inner = { timeout: INNER_TIMEOUT };
  const dataSchema: Record<string, string> = props.dataSchema === undefined ? {} : { DATA_SCHEMA_PATH: DATA_SCHEMA_FILE };

  const messageProcessor = createFunction(scope, 'MessageProcessor', plan, {
    functionName: names.messageProcessor,
    description: 'Validates each message and calls the target; hands failures off to the intermediate DLQ.',
    bundle: target.kind === 'handler' ? target.bundle : join(plan.bundles, 'message-processor'),
    handler: target.kind === 'handler',
    dataSchema: props.dataSchema,
    timeout: plan.timeout,
    vpc: props.vpc,
    environment: {
      INTERMEDIATE_DLQ_URL: queues.intermediateDlq.queueUrl,
      ANNOTATION_QUEUE_URL: queues.annotation.queueUrl,
      MAX_CONCURRENCY: String(plan.maxConcurrentCalls),
      ...dataSchema,
      ...targetEnvironment(props, plan),
    },
  });
  const failedMessageProcessor = createFunction(scope, 'FailedMessageProcessor', plan, {
    ...inner,
    functionName: names.failedMessageProcessor,
    description: 'Sends failed messages again after a delay, or gives them up.',
    bundle: join(plan.bundles, 'failed-message-processor'),
    dataSchema: props.dataSchema,
    environment: {
      SOURCE_QUEUE_URL: queues.source.queueUrl,
      INTERMEDIATE_DLQ_URL: queues.intermediateDlq.queueUrl,
      ANNOTATION_QUEUE_URL: queues.annotation.queueUrl,
      RETRY_POLICY: JSON.stringify(plan.policy),
      ...dataSchema,
    },
  });
  const finalDlqAnnotator = createFunction(scope, 'FinalDlqAnnotator', plan, {
    ...inner,
    functionName: names.finalDlqAnnotator,
    description: 'Puts each message that was given up into the final DLQ, with the reason.',
    bundle: join(plan.bundles, 'final-dlq-annotator'),
    dataSchema: undefined,
    environment: { FINAL_DLQ_URL: queues.finalDlq.queueUrl },
  });

  const { encryptionKey: key, existingSourceQueue: existing } = props;
  allowSend(messageProcessor, key, queues.intermediateDlq, queues.annotation);
  allowSend(failedMessageProcessor, existing ? existing.encryptionKey : key, queues.source);
  allowSend(failedMessageProcessor, key, queues.annotation);
  allowSend(finalDlqAnnotator, key, queues.finalDlq);
  if (target.kind === 'http') {
    target.headersSecret?.grantRead(messageProcessor);
  }
  if (target.kind === 'lambda') {
    // Not grantInvoke, which adds a wildcard for all versions.
    messageProcessor.addToRolePolicy(
      new iam.PolicyStatement({ actions: ['lambda:InvokeFunction'], resources: [target.function.functionArn] }),
    );
  }

  if (existing?.connected ?? true) {
    messageProcessor.addEventSource(eventSource(queues.source, plan.batchSize, plan.maxConcurrency));
  }
  failedMessageProcessor.addEventSource(eventSource(queues.intermediateDlq, INNER_BATCH, INNER_CONCURRENCY));
  finalDlqAnnotator.addEventSource(eventSource(queues.annotation, INNER_BATCH, INNER_CONCURRENCY));
  return { messageProcessor, failedMessageProcessor, finalDlqAnnotator };
}

interface FunctionPlan {
  readonly functionName: string;
  readonly description: string;
  readonly bundle: string;
  /** The bundle is a user's. */
  readonly handler?: boolean;
  readonly dataSchema: string | undefined;
  readonly timeout: Duration;
  readonly environment: Record<string, string>;
  readonly vpc?: VpcPlacement | undefined;
}

function createFunction(scope: Construct, id: string, plan: Plan, wanted: FunctionPlan): lambda.Function {
  const logGroup = new logs.LogGroup(scope, `${id}Logs`, {
    retention: plan.logRetention,
    removalPolicy: plan.removalPolicy,
  });
  const role = new iam.Role(scope, `${id}Role`, {
    assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com'),
    description: `Of the function ${wanted.functionName}.`,
  });
  logGroup.grantWrite(role);
  Validations.of(role).acknowledge({
    id: 'AwsSolutions-IAM5[Resource::*]',
    reason: wanted.vpc
      ? "X-Ray's actions and those that attach a function to a VPC know no narrower resource; the function itself is denied the latter."
      : "X-Ray's actions know no narrower resource.",
  });
  if (wanted.vpc) {
    allowNetworkInterfaces(role, Stack.of(scope).formatArn({
      service: 'lambda',
      resource: `function:${wanted.functionName}`,
    }));
  }
  return new lambda.Function(scope, id, {
    functionName: wanted.functionName,
    description: wanted.description,
    runtime: lambda.Runtime.PROVIDED_AL2023,
    architecture: plan.architecture,
    handler: 'bootstrap',
    code: bundleCode(wanted.bundle, plan.architecture, wanted.dataSchema, !wanted.handler),
    role,
    memorySize: MEMORY_MIB,
    timeout: wanted.timeout,
    environment: wanted.environment,
    loggingFormat: lambda.LoggingFormat.JSON,
    logGroup,
    tracing: lambda.Tracing.ACTIVE,
    // Lambda takes a message that comes through the same function about 16 times for a loop by mistake, and drops it.
    // This loop is meant, and it ends: the failed-message-processor counts attempts and stops at the policy's limit.
    recursiveLoop: lambda.RecursiveLoop.ALLOW,
    ...(wanted.vpc && {
      vpc: wanted.vpc.vpc,
      ...(wanted.vpc.subnets && { vpcSubnets: wanted.vpc.subnets }),
      ...(wanted.vpc.securityGroups && { securityGroups: wanted.vpc.securityGroups }),
    }),
  });
}

function targetEnvironment({ target }: RedeliverProps, { targetTimeout }: Plan): Record<string, string> {
  const timeout: Record<string, string> = targetTimeout ? { TARGET_TIMEOUT_SECONDS: String(targetTimeout.toSeconds()) } : {};
  switch (target.kind) {
    case 'http':
      return {
        TARGET: target.url,
        ...timeout,
        ...(target.headersSecret && { TARGET_HEADERS_SECRET_ARN: target.headersSecret.secretArn }),
        ...(target.allowHttp && { TARGET_ALLOW_HTTP: 'true' }),
      };
    case 'lambda':
      return { TARGET: target.function.functionArn, ...timeout };
    case 'handler':
      return {};
  }
}

/** Not grantSendMessages, which allows more than sending, and key actions by wildcard. */
function allowSend(sender: lambda.Function, key: kms.IKey | undefined, ...queues: sqs.IQueue[]): void {
  sender.addToRolePolicy(
    new iam.PolicyStatement({ actions: ['sqs:SendMessage'], resources: queues.map((queue) => queue.queueArn) }),
  );
  // "Amazon SQS key management": a producer needs both.
  key?.grant(sender, 'kms:Decrypt', 'kms:GenerateDataKey');
}

/**
 * Throttled receives would count as receives, so concurrency is limited here and not by reserving it ("Configuring
 * scaling behavior for SQS event source mappings").
 */
function eventSource(queue: sqs.IQueue, batchSize: number, maxConcurrency: number): SqsEventSource {
  return new SqsEventSource(queue, { batchSize, maxConcurrency, reportBatchItemFailures: true });
}
