import { type Duration, Stack, Validations } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { SqsEventSource, type SqsEventSourceProps } from 'aws-cdk-lib/aws-lambda-event-sources';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { type Program, codeOf } from './bundles';
import type { Commons } from './commons';
import { refuseTooLarge } from './environment';
import { createLogGroup } from './log-group';
import type { CommonProps, VpcPlacement } from './props';
import { INNER_TIMEOUT } from './queues';
import { allowNetworkInterfaces } from './vpc';

/** What they hold at most: a batch of 10 MiB a few times over; more memory is also more processor. */
const MEMORY_MIB = 256;
/** Of the inner functions: ten messages in a few calls to SQS take well under a second. */
const INNER_CONCURRENCY = 10;
const INNER_BATCH = 10;

/** Creates the final-dlq-annotator, subscribed to the annotation queue. */
export function createAnnotator(
  scope: Construct,
  plan: Commons,
  functionName: string,
  key: kms.IKey | undefined,
  { annotation, finalDlq }: { readonly annotation: sqs.IQueue; readonly finalDlq: sqs.IQueue },
): lambda.Function {
  const annotator = createFunction(scope, 'FinalDlqAnnotator', plan, {
    functionName,
    description: 'Puts each message that was given up into the final DLQ, with the reason.',
    program: 'final-dlq-annotator',
    timeout: INNER_TIMEOUT,
    reservedConcurrency: plan.innerReservedConcurrency,
    environment: { FINAL_DLQ_URL: finalDlq.queueUrl },
  });
  allowSend(annotator, key, finalDlq);
  annotator.addEventSource(innerEventSource(annotation));
  return annotator;
}

/** What Lambda refuses to run is received again, but spends one of the queue's receives. */
export function innerConcurrencyProblems({ innerReservedConcurrency: reserved }: Pick<CommonProps, 'innerReservedConcurrency'>): string[] {
  return reserved === undefined || (Number.isInteger(reserved) && reserved >= INNER_CONCURRENCY)
    ? []
    : [`innerReservedConcurrency is ${reserved}; use a whole number of at least ${INNER_CONCURRENCY}: as many are invoked at the same time.`];
}

/** What is special about a function. */
export interface FunctionPlan {
  readonly functionName: string;
  readonly description: string;
  readonly program: Program;
  readonly schemas?: Readonly<Record<string, string>>;
  readonly timeout: Duration;
  /** Default: 256 MiB. */
  readonly memorySize?: number | undefined;
  readonly reservedConcurrency?: number | undefined;
  readonly environment: Record<string, string>;
  readonly vpc?: VpcPlacement | undefined;
}

/** Creates a function with a role and a log group of its own. */
export function createFunction(scope: Construct, id: string, plan: Commons, wanted: FunctionPlan): lambda.Function {
  const logGroup = createLogGroup(scope, `${id}Logs`, plan);
  const role = new iam.Role(scope, `${id}Role`, {
    assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com'),
    description: `Of the function ${wanted.functionName}.`,
  });
  logGroup.grantWrite(role);
  const wide = [
    ...(plan.tracing ? ["X-Ray's actions"] : []),
    ...(wanted.vpc ? ['those that attach a function to a VPC, which the function itself is denied,'] : []),
  ];
  if (wide.length > 0) {
    Validations.of(role).acknowledge({
      id: 'AwsSolutions-IAM5[Resource::*]',
      reason: `No narrower resource is known to ${wide.join(' and ')}.`,
    });
  }
  if (wanted.vpc) {
    allowNetworkInterfaces(role, Stack.of(scope).formatArn({
      service: 'lambda',
      resource: `function:${wanted.functionName}`,
    }));
  }
  const environment = { ...wanted.environment, ...logEnvironment(plan) };
  const made = new lambda.Function(scope, id, {
    functionName: wanted.functionName,
    description: wanted.description,
    runtime: lambda.Runtime.PROVIDED_AL2023,
    architecture: plan.architecture,
    // Lambda does not look at it: people do, and the template finds the function's zip by it.
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
    // Lambda takes a message that comes through the same function about 16 times for a loop by mistake, and drops it.
    // This loop is meant, and it ends: attempts are counted, and stop at the policy's limit.
    recursiveLoop: lambda.RecursiveLoop.ALLOW,
    ...(wanted.vpc && {
      vpc: wanted.vpc.vpc,
      ...(wanted.vpc.subnets && { vpcSubnets: wanted.vpc.subnets }),
      ...(wanted.vpc.securityGroups && { securityGroups: wanted.vpc.securityGroups }),
    }),
  });
  refuseTooLarge(made, { functionName: wanted.functionName, environment });
  return made;
}

/** What the functions' logs tell. */
export function logEnvironment({ logDetail, logLevel }: Commons): Record<string, string> {
  return { ...(logDetail && { LOG_DETAIL: logDetail }), ...(logLevel && { LOG_LEVEL: logLevel }) };
}

/** Not grantSendMessages, which allows more than sending, and key actions by wildcard. */
export function allowSend(sender: lambda.Function, key: kms.IKey | undefined, ...queues: sqs.IQueue[]): void {
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
export function eventSource(
  queue: sqs.IQueue,
  props: Pick<SqsEventSourceProps, 'batchSize' | 'maxConcurrency' | 'maxBatchingWindow' | 'provisionedPollerConfig'>,
): SqsEventSource {
  return new SqsEventSource(queue, { ...props, reportBatchItemFailures: true });
}

/** Of a function that only sends on what it gets. It never waits for more: a retry would be late by that, or an alarm. */
export function innerEventSource(queue: sqs.IQueue): SqsEventSource {
  return eventSource(queue, { batchSize: INNER_BATCH, maxConcurrency: INNER_CONCURRENCY });
}
