import { type Duration, Stack, Validations } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource, type SqsEventSourceProps } from 'aws-cdk-lib/aws-lambda-event-sources';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { type Program, codeOf } from './bundles';
import type { CommonSettings } from './common-settings';
import { refuseLargeEnvironment } from './environment';
import { createRole } from './function-role';
import { createLogGroup, logLevelProblems } from './log-group';
import { wholeNumberProblems } from './range';
import { allowLoop, trace } from './region';
import { allowNetworkInterfaces, placement } from './vpc';

/** Enough for a few copies of a 10 MiB batch; more memory also means more CPU. */
const MEMORY_MIB = 256;
/** The largest batch, including for FIFO queues ("Lambda parameters for Amazon SQS event source mappings"). */
export const INNER_BATCH = 10;

/**
 * Returns problems with the inner functions' concurrency. Throttled messages are received again, but each throttle
 * counts towards the queue's `maxReceiveCount`.
 */
export function innerConcurrencyProblems({ innerConcurrency, innerReservedConcurrency: reserved }: CommonSettings): string[] {
  const range = wholeNumberProblems('innerConcurrency', innerConcurrency, 2, 1000, 'what an SQS event source mapping accepts');
  return range.length > 0 || reserved === undefined || (Number.isInteger(reserved) && reserved >= innerConcurrency)
    ? range
    : [`innerReservedConcurrency is ${reserved}; use a whole number of at least innerConcurrency = ${innerConcurrency}.`];
}

/** Settings that differ between our functions. */
export interface FunctionPlan {
  readonly functionName: string;
  readonly description: string;
  readonly program: Program;
  readonly schemas?: Readonly<Record<string, string>>;
  readonly timeout: Duration;
  /** The memory in MiB. Default: 256. */
  readonly memorySize?: number | undefined;
  readonly reservedConcurrency?: number | undefined;
  readonly environment: Record<string, string>;
}

/** Creates a function with its own role and log group. */
export function createFunction(scope: Construct, id: string, plan: CommonSettings, wanted: FunctionPlan): lambda.Function {
  const logGroup = createLogGroup(scope, `${id}Logs`, plan);
  const role = createRole(scope, `${id}Role`, plan, `The role of the function ${wanted.functionName}.`);
  logGroup.grantWrite(role);
  const wide = [
    ...(plan.tracing ? ["X-Ray's actions"] : []),
    ...(plan.vpc ? ['those that attach a function to a VPC, which the function itself is denied'] : []),
  ];
  if (wide.length > 0) {
    Validations.of(role).acknowledge({
      id: 'AwsSolutions-IAM5[Resource::*]',
      reason: `No narrower resource exists for ${wide.join(' and ')}.`,
    });
  }
  if (plan.vpc) {
    allowNetworkInterfaces(role, Stack.of(scope).formatArn({ service: 'lambda', resource: `function:${wanted.functionName}` }));
  }
  const environment = { ...wanted.environment, ...logEnvironment(plan) };
  const made = new lambda.Function(scope, id, {
    functionName: wanted.functionName,
    description: wanted.description,
    runtime: lambda.Runtime.PROVIDED_AL2023,
    architecture: plan.architecture,
    // Lambda ignores the handler, but the console shows it, and the template derives the zip's name from it.
    handler: typeof wanted.program === 'string' ? wanted.program : 'bootstrap',
    code: codeOf(wanted.program, plan, wanted.schemas ?? {}),
    role,
    memorySize: wanted.memorySize ?? MEMORY_MIB,
    timeout: wanted.timeout,
    ...(wanted.reservedConcurrency !== undefined && { reservedConcurrentExecutions: wanted.reservedConcurrency }),
    environment,
    loggingFormat: lambda.LoggingFormat.JSON,
    logGroup,
    tracing: plan.tracing ? lambda.Tracing.ACTIVE : lambda.Tracing.DISABLED,
    ...placement(plan),
  });
  const resource = made.node.defaultChild as lambda.CfnFunction;
  allowLoop(resource);
  if (plan.tracing) {
    trace(resource);
  }
  // An aspect of the app may set the log level.
  made.node.addValidation({ validate: () => logLevelProblems(wanted.functionName, resource, 'leave it at INFO, and set logLevel') });
  refuseLargeEnvironment(made, { functionName: wanted.functionName, environment });
  return made;
}

/** Returns the environment variables for the functions' logging. */
export function logEnvironment({ logDetail, logLevel }: CommonSettings): Record<string, string> {
  return { ...(logDetail && { LOG_DETAIL: logDetail }), ...(logLevel && { LOG_LEVEL: logLevel }) };
}

/** Allows sending only. `grantSendMessages` would allow more, and key actions by wildcard. */
export function allowSend(sender: iam.IGrantable, key: kms.IKey | undefined, ...queues: sqs.IQueue[]): void {
  iam.Grant.addToPrincipal({ grantee: sender, actions: ['sqs:SendMessage'], resourceArns: queues.map((queue) => queue.queueArn) });
  // A producer needs both ("Amazon SQS key management").
  key?.grant(sender, 'kms:Decrypt', 'kms:GenerateDataKey');
}

/**
 * Creates an event source that limits concurrency itself. Reserved concurrency would throttle, and throttled messages
 * count as received ("Configuring scaling behavior for SQS event source mappings").
 */
export function eventSource(
  queue: sqs.IQueue,
  props: Pick<SqsEventSourceProps, 'batchSize' | 'maxConcurrency' | 'maxBatchingWindow' | 'provisionedPollerConfig'>,
): SqsEventSource {
  return new SqsEventSource(queue, { ...props, reportBatchItemFailures: true });
}

/** Creates the event source of an inner function. It has no batching window, which would delay retries and alarms. */
export function innerEventSource(queue: sqs.IQueue, { innerConcurrency }: CommonSettings): SqsEventSource {
  return eventSource(queue, { batchSize: INNER_BATCH, maxConcurrency: innerConcurrency });
}
