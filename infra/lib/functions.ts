import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { join } from 'node:path';

import { DATA_SCHEMA_FILE } from './bundles.ts';
import { allowSend, createAnnotator, createFunction, eventSource, innerEventSource } from './function.ts';
import type { Plan } from './plan.ts';
import type { RedeliverProps } from './props.ts';
import { INNER_TIMEOUT, type Queues } from './queues.ts';

/** The three functions; with strategy `visibility` two. */
export interface Functions {
  readonly messageProcessor: lambda.Function;
  readonly failedMessageProcessor: lambda.Function | undefined;
  readonly finalDlqAnnotator: lambda.Function;
}

/** Creates the functions with roles of their own and subscribes each to its queue. */
export function createFunctions(scope: Construct, props: RedeliverProps, plan: Plan, queues: Queues): Functions {
  const messageProcessor = createMessageProcessor(scope, props, plan, queues);
  const failedMessageProcessor = createFailedMessageProcessor(scope, props, plan, queues);
  const { encryptionKey: key } = props;
  const finalDlqAnnotator = createAnnotator(scope, plan, plan.names.finalDlqAnnotator, key, queues);
  return { messageProcessor, failedMessageProcessor, finalDlqAnnotator };
}

function createMessageProcessor(scope: Construct, props: RedeliverProps, plan: Plan, queues: Queues): lambda.Function {
  const { target } = props;
  const { source, intermediateDlq, annotation } = queues;
  const messageProcessor = createFunction(scope, 'MessageProcessor', plan, {
    functionName: plan.names.messageProcessor,
    description: intermediateDlq
      ? 'Validates each message and calls the target; hands failures off to the intermediate DLQ.'
      : 'Validates each message and calls the target; hides failures on the source queue until their retry.',
    bundle: target.kind === 'handler' ? target.bundle : join(plan.bundles, 'message-processor'),
    handler: target.kind === 'handler',
    dataSchema: props.dataSchema,
    timeout: plan.timeout,
    reservedConcurrency: plan.reservedConcurrency,
    vpc: props.vpc,
    environment: {
      ...strategyEnvironment(plan, queues),
      ANNOTATION_QUEUE_URL: annotation.queueUrl,
      MAX_CONCURRENCY: String(plan.maxConcurrentCalls),
      ...dataSchemaEnvironment(props),
      ...targetEnvironment(props, plan),
    },
  });
  allowSend(messageProcessor, props.encryptionKey, ...(intermediateDlq ? [intermediateDlq] : []), annotation);
  if (!intermediateDlq) {
    messageProcessor.addToRolePolicy(
      new iam.PolicyStatement({ actions: ['sqs:ChangeMessageVisibility'], resources: [source.queueArn] }),
    );
  }
  if (target.kind === 'http') {
    target.headersSecret?.grantRead(messageProcessor);
  }
  if (target.kind === 'lambda') {
    // Not grantInvoke, which adds a wildcard for all versions.
    messageProcessor.addToRolePolicy(
      new iam.PolicyStatement({ actions: ['lambda:InvokeFunction'], resources: [target.function.functionArn] }),
    );
  }
  messageProcessor.addEventSource(eventSource(source, plan.batchSize, plan.maxConcurrency));
  return messageProcessor;
}

function createFailedMessageProcessor(
  scope: Construct,
  props: RedeliverProps,
  plan: Plan,
  { source, intermediateDlq, annotation }: Queues,
): lambda.Function | undefined {
  if (!intermediateDlq) {
    return undefined;
  }
  const failedMessageProcessor = createFunction(scope, 'FailedMessageProcessor', plan, {
    functionName: plan.names.failedMessageProcessor,
    description: 'Sends failed messages again after a delay, or gives them up.',
    bundle: join(plan.bundles, 'failed-message-processor'),
    dataSchema: props.dataSchema,
    timeout: INNER_TIMEOUT,
    environment: {
      SOURCE_QUEUE_URL: source.queueUrl,
      INTERMEDIATE_DLQ_URL: intermediateDlq.queueUrl,
      ANNOTATION_QUEUE_URL: annotation.queueUrl,
      RETRY_POLICY: JSON.stringify(plan.policy),
      ...dataSchemaEnvironment(props),
    },
  });
  const { encryptionKey: key } = props;
  allowSend(failedMessageProcessor, source.encryptionMasterKey, source);
  // To its own queue: a message with a long delay hops there.
  allowSend(failedMessageProcessor, key, annotation, ...(plan.policy.long_delays ? [intermediateDlq] : []));
  if (plan.policy.max_redelivery_per_second !== undefined) {
    // How many messages wait.
    failedMessageProcessor.addToRolePolicy(
      new iam.PolicyStatement({ actions: ['sqs:GetQueueAttributes'], resources: [source.queueArn] }),
    );
  }
  failedMessageProcessor.addEventSource(innerEventSource(intermediateDlq));
  return failedMessageProcessor;
}

function strategyEnvironment(plan: Plan, { source, intermediateDlq }: Queues): Record<string, string> {
  // All of it: its lists say what is a blip.
  const policy = { RETRY_POLICY: JSON.stringify(plan.policy) };
  if (intermediateDlq) {
    return { INTERMEDIATE_DLQ_URL: intermediateDlq.queueUrl, ...(plan.policy.immediate && policy) };
  }
  return {
    STRATEGY: plan.strategy,
    SOURCE_QUEUE_URL: source.queueUrl,
    VISIBILITY_TIMEOUT_SECONDS: String(plan.sourceVisibilityTimeout.toSeconds()),
    RETENTION_SECONDS: String(plan.sourceRetention.toSeconds()),
    ...policy,
  };
}

function dataSchemaEnvironment({ dataSchema }: RedeliverProps): Record<string, string> {
  return dataSchema === undefined ? {} : { DATA_SCHEMA_PATH: DATA_SCHEMA_FILE };
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
