import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { watchEventSources } from './event-sources';
import { allowSend, createFunction, logEnvironment } from './function';
import { attach, LAYER_DIRECTORY } from './layer';
import { messageEnvironment, schemaFiles } from './messages';
import type { NormalizedProps } from './normalized-props';
import type { Plan } from './plan';
import { sigV4Rights } from './sigv4';
import type { GivenTarget } from './target';

/** Settings of the message-processor that depend on the strategy. */
export interface ProcessorSettings {
  readonly description: string;
  readonly source: sqs.IQueue;
  readonly sendsTo: readonly sqs.Queue[];
  readonly rights: readonly iam.PolicyStatement[];
  readonly environment: Readonly<Record<string, string>>;
}

/**
 * Creates the message-processor, or attaches redeliver to the user's function, and subscribes it to the source queue.
 */
export function createMessageProcessor(scope: Construct, props: NormalizedProps, plan: Plan, settings: ProcessorSettings): lambda.Function {
  const { target } = props;
  const environment = {
    ...settings.environment,
    // A user's function handles one event at a time.
    ...(!plan.userFunction && { MAX_CONCURRENCY: String(plan.maxConcurrentCalls) }),
    ...messageEnvironment(props, plan.userFunction && LAYER_DIRECTORY),
    ...targetEnvironment(props, plan),
  };
  const messageProcessor = plan.userFunction
    ? attach(scope, plan.userFunction, plan, { schemas: schemaFiles(props), environment: { ...environment, ...logEnvironment(plan) } })
    : createFunction(scope, 'MessageProcessor', plan, {
        functionName: plan.names.messageProcessor,
        description: settings.description,
        program: target.kind === 'handler' ? { bundle: target.bundle } : 'message-processor',
        schemas: schemaFiles(props),
        timeout: plan.timeout,
        memorySize: props.memorySize,
        reservedConcurrency: plan.reservedConcurrency,
        environment,
      });
  allowSend(messageProcessor, plan.encryptionKey, ...settings.sendsTo);
  settings.rights.forEach((right) => messageProcessor.addToRolePolicy(right));
  secretOf(target)?.grantRead(messageProcessor);
  if ((target.kind === 'http' || target.kind === 'httpFromSecret') && target.sigV4) {
    sigV4Rights(target.sigV4).forEach((right) => messageProcessor.addToRolePolicy(right));
  }
  if (target.kind === 'lambda') {
    // grantInvoke would add a wildcard that also allows all versions.
    messageProcessor.addToRolePolicy(
      new iam.PolicyStatement({ actions: ['lambda:InvokeFunction'], resources: [target.function.functionArn] }),
    );
  }
  const { batchSize, maxConcurrency, maxBatchingWindow } = plan;
  const { minimum: minimumPollers, maximum: maximumPollers } = plan.pollers ?? {};
  // Not an event source: if the app adds the same queue later, the check below should report it, not a CDK error about
  // a duplicate id.
  const mapping = messageProcessor.addEventSourceMapping('RedeliverSource', {
    eventSourceArn: settings.source.queueArn,
    reportBatchItemFailures: true,
    batchSize,
    ...(plan.pollers ? { provisionedPollerConfig: { minimumPollers, maximumPollers } } : { maxConcurrency }),
    ...(!plan.isFifo && { maxBatchingWindow }),
  });
  settings.source.grantConsumeMessages(messageProcessor);
  if (plan.userFunction) {
    watchEventSources(plan.userFunction, settings.source.queueArn, mapping.eventSourceMappingId);
  }
  return messageProcessor;
}

function secretOf(target: GivenTarget): secretsmanager.ISecret | undefined {
  switch (target.kind) {
    case 'http':
      return target.headersSecret;
    case 'httpFromSecret':
      return target.secret;
    default:
      return undefined;
  }
}

function targetEnvironment({ target }: NormalizedProps, { targetTimeout }: Plan): Record<string, string> {
  const timeout: Record<string, string> = targetTimeout ? { TARGET_TIMEOUT_SECONDS: String(targetTimeout.toSeconds()) } : {};
  const secret = secretOf(target);
  switch (target.kind) {
    case 'http':
    case 'httpFromSecret':
      return {
        ...(target.kind === 'http' && { TARGET: target.url }),
        ...timeout,
        ...(secret && { TARGET_HEADERS_SECRET_ARN: secret.secretArn }),
        ...(target.sigV4 && { TARGET_SIGV4: target.sigV4._given.service }),
        ...(target.proxy && { TARGET_PROXY: target.proxy }),
        ...(target.errorExcerpt?.length && { TARGET_ERROR_EXCERPT: target.errorExcerpt.join(',') }),
        ...(target.allowHttp && { TARGET_ALLOW_HTTP: 'true' }),
      };
    case 'lambda':
      return {
        TARGET: target.function.functionArn,
        ...timeout,
        ...(target.tenantIsolation && { TARGET_TENANT_ISOLATION: 'true' }),
        ...(target.durable && { TARGET_DURABLE: 'true' }),
      };
    case 'handler':
      return {};
    case 'function':
      return { ...(target.handlerEvent && { HANDLER_EVENT: target.handlerEvent }) };
  }
}
