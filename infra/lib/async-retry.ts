import { Stack } from 'aws-cdk-lib';
import type * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import { addAlarms, type Alarm, deadLetterAlarms, readerAlarms, waitsTooLongAlarm } from './alarm';
import { annotatorAlarms, createAnnotator } from './annotator';
import { type AsyncPlan, asyncPlanOf } from './async-plan';
import { allowSend, createFunction, innerEventSource } from './function';
import { lambdaMetric } from './metrics';
import { addQueueUrls, addRoleArns } from './outputs';
import type { AsyncRetryProps } from './props';
import {
  createDeadLetterQueues,
  denyOtherSenders,
  INNER_MAX_RECEIVE_COUNT,
  INNER_TIMEOUT,
  innerQueueProps,
  redriveFromInnerQueue,
} from './queues';
import { allowLoop } from './region';
import type { UserFunction } from './user-function';

/**
 * Delayed, jittered retries for failed asynchronous invocations of Lambda functions. Failures are sent to a retry
 * queue, whose reader waits out the backoff and then invokes the function again. Invocations that are given up end up
 * in the final DLQ, with the reason. Creates three queues, two functions, and alarms.
 *
 * @throws an error named RedeliverPropsError if any props are invalid. Its message has one sentence per problem that
 * says what to change.
 */
export class AsyncRetry extends Construct {
  /** Failed invocations that are waiting for their retry. */
  readonly retryQueue: sqs.Queue;
  /** Invocations that were given up and are waiting for annotation. */
  readonly annotationQueue: sqs.Queue;
  /** Invocations that were given up, with the reason. Read them here. */
  readonly finalDlq: sqs.Queue;
  /** The function that invokes the functions again. */
  readonly asyncRetryHandler: lambda.Function;
  /** The function that adds the reason to invocations that were given up. */
  readonly finalDlqAnnotator: lambda.Function;
  /** All alarms. */
  readonly alarms: cloudwatch.Alarm[];

  constructor(scope: Construct, id: string, props: AsyncRetryProps) {
    super(scope, id);
    const plan = asyncPlanOf(props, this);

    const dead = createDeadLetterQueues(this, plan, plan.names, redriveFromInnerQueue(this, plan.names.retryQueue));
    this.retryQueue = new sqs.Queue(this, 'RetryQueue', {
      ...innerQueueProps(plan),
      queueName: plan.names.retryQueue,
      deadLetterQueue: { queue: dead.annotation, maxReceiveCount: INNER_MAX_RECEIVE_COUNT },
      redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
    });
    this.annotationQueue = dead.annotation;
    this.finalDlq = dead.finalDlq;
    this.asyncRetryHandler = createHandler(this, plan, this.retryQueue, dead.annotation);
    this.finalDlqAnnotator = createAnnotator(this, plan, plan.names.finalDlqAnnotator, dead);
    plan.functions.forEach((retried) => setFailureDestination(retried, this.retryQueue, plan.encryptionKey));

    // Lambda sends a destination record using the role of the function that failed.
    denyOtherSenders(this.retryQueue, [this.asyncRetryHandler, ...plan.functions.map((retried) => retried.function)]);
    denyOtherSenders(dead.annotation, [this.asyncRetryHandler]);
    denyOtherSenders(dead.finalDlq, [this.finalDlqAnnotator]);
    this.alarms = addAlarms(this, plan.names.prefix, props, [
      ...deadLetterAlarms(dead),
      ...annotatorAlarms(plan, this.finalDlqAnnotator),
      // Long delays do not raise the age of the oldest message, since each hop is a new message.
      waitsTooLongAlarm('retry-queue', this.retryQueue, 'async-retry-handler'),
      waitsTooLongAlarm('annotation-queue', dead.annotation, 'final-dlq-annotator'),
      ...readerAlarms('async-retry-handler', this.asyncRetryHandler),
      ...readerAlarms('final-dlq-annotator', this.finalDlqAnnotator),
      ...plan.functions.map(failureNotSentAlarm),
    ]);
  }

  /**
   * Adds the queues' URLs to the stack's outputs, for `redeliver … --stack`, and the ARNs of the functions' roles. Can
   * be called once per stack.
   */
  public addOutputs(): void {
    addQueueUrls(this, {
      source: { queue: this.retryQueue, description: 'Failed invocations, until their retry.' },
      intermediateDlq: undefined,
      annotation: this.annotationQueue,
      finalDlq: this.finalDlq,
    });
    addRoleArns(this, { AsyncRetryHandler: this.asyncRetryHandler, FinalDlqAnnotator: this.finalDlqAnnotator });
  }
}

function createHandler(
  scope: Construct,
  plan: AsyncPlan,
  retryQueue: sqs.Queue,
  annotation: sqs.Queue,
): lambda.Function {
  const arns = plan.functions.map((retried) => retried.function.functionArn);
  const handler = createFunction(scope, 'AsyncRetryHandler', plan, {
    functionName: plan.names.asyncRetryHandler,
    description: 'Retries failed asynchronous invocations of functions after a delay, or gives them up.',
    program: 'async-retry-handler',
    timeout: INNER_TIMEOUT,
    reservedConcurrency: plan.innerReservedConcurrency,
    environment: {
      RETRY_QUEUE_URL: retryQueue.queueUrl,
      ANNOTATION_QUEUE_URL: annotation.queueUrl,
      FUNCTION_ARNS: arns.join(','),
      ...(plan.policy && { RETRY_POLICY: JSON.stringify(plan.policy) }),
    },
  });
  // The handler also sends to its own queue, where failed invocations wait.
  allowSend(handler, plan.encryptionKey, retryQueue, annotation);
  handler.addToRolePolicy(
    // A destination record contains the function's qualified ARN, and only $LATEST has our destination.
    new iam.PolicyStatement({
      actions: ['lambda:InvokeFunction'],
      resources: arns.flatMap((arn) => [arn, `${arn}:$LATEST`]),
    }),
  );
  handler.addEventSource(innerEventSource(retryQueue, plan));
  return handler;
}

/**
 * Makes the retry queue the on-failure destination, and turns off Lambda's own two retries, which would otherwise run
 * first, unnoticed.
 */
function setFailureDestination({ function: target, resource }: UserFunction, retryQueue: sqs.Queue, key: kms.IKey | undefined): void {
  allowSend(target, key, retryQueue);
  // SqsDestination would grant more than the permission to send.
  target.configureAsyncInvoke({ retryAttempts: 0, onFailure: { bind: () => ({ destination: retryQueue.queueArn }) } });
  allowLoop(resource);
}

function failureNotSentAlarm({ function: target }: UserFunction): Alarm {
  const name = target.node.path.slice(Stack.of(target).node.path.length + 1).replace(/\//g, '-');
  return {
    name: `${name}-failure-not-sent`,
    severity: 'page',
    isEssential: true,
    description:
      `Lambda could not send a failed invocation of ${name} to the retry queue, so it is lost: check that the function's role ` +
      'may send there, and that the payload is not too large.',
    metric: lambdaMetric('DestinationDeliveryFailures', target),
    threshold: 0,
  };
}
