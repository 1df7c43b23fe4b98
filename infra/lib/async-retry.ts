import { Stack } from 'aws-cdk-lib';
import type * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import { type Alarm, deadLetters, loopStopped, raise, readerFails, waitsTooLong } from './alarm';
import { type AsyncPlan, asyncPlanOf } from './async-plan';
import { allowSend, createAnnotator, createFunction, innerEventSource } from './function';
import { ofLambda } from './metrics';
import { addQueueUrls } from './outputs';
import type { AsyncRetryProps } from './props';
import {
  createDeadLetterQueues,
  innerDlq,
  denyOtherSenders,
  INNER_MAX_RECEIVE_COUNT,
  INNER_TIMEOUT,
  innerQueue,
} from './queues';
import type { UserFunction } from './user-function';

/**
 * Delayed, jittered retries for failed asynchronous invocations of functions, with every one that is given up explained:
 * their on-failure destination is a retry queue, whose reader lets each wait out its backoff and then invokes the function
 * again. Three queues, two functions, and alarms.
 *
 * @throws an error named RedeliverPropsError if a prop is wrong, with a sentence for each that says what to change.
 */
export class AsyncRetry extends Construct {
  /** Where failed invocations wait for their retry. */
  readonly retryQueue: sqs.Queue;
  /** What was given up and waits for its annotation. */
  readonly annotationQueue: sqs.Queue;
  /** What was given up, with the reason: for people. */
  readonly finalDlq: sqs.Queue;
  /** Invokes again. */
  readonly asyncRetryHandler: lambda.Function;
  /** Annotates what was given up. */
  readonly finalDlqAnnotator: lambda.Function;
  /** All alarms. */
  readonly alarms: cloudwatch.Alarm[];

  constructor(scope: Construct, id: string, props: AsyncRetryProps) {
    super(scope, id);
    const plan = asyncPlanOf(props, this);
    const { encryptionKey: key } = props;

    const dead = createDeadLetterQueues(this, plan, plan.names, key, innerDlq(this, plan.names.retryQueue));
    this.retryQueue = new sqs.Queue(this, 'RetryQueue', {
      ...innerQueue(plan, key),
      queueName: plan.names.retryQueue,
      deadLetterQueue: { queue: dead.annotation, maxReceiveCount: INNER_MAX_RECEIVE_COUNT },
      redriveAllowPolicy: { redrivePermission: sqs.RedrivePermission.DENY_ALL },
    });
    this.annotationQueue = dead.annotation;
    this.finalDlq = dead.finalDlq;
    this.asyncRetryHandler = createHandler(this, plan, key, this.retryQueue, dead.annotation);
    this.finalDlqAnnotator = createAnnotator(this, plan, plan.names.finalDlqAnnotator, key, dead);
    plan.functions.forEach((retried) => sendFailures(retried, this.retryQueue, key));

    // A destination record is sent with the role of the function that failed.
    denyOtherSenders(this.retryQueue, [this.asyncRetryHandler, ...plan.functions.map((retried) => retried.function)]);
    denyOtherSenders(dead.annotation, [this.asyncRetryHandler]);
    denyOtherSenders(dead.finalDlq, [this.finalDlqAnnotator]);
    this.alarms = raise(this, plan.names.prefix, props, [
      ...deadLetters(dead),
      // A hop is a new message with a new age.
      waitsTooLong('retry-queue', this.retryQueue, 'async-retry-handler'),
      waitsTooLong('annotation-queue', dead.annotation, 'final-dlq-annotator'),
      ...readerFails('async-retry-handler', this.asyncRetryHandler),
      ...readerFails('final-dlq-annotator', this.finalDlqAnnotator),
      loopStopped('async-retry-handler', this.asyncRetryHandler),
      loopStopped('final-dlq-annotator', this.finalDlqAnnotator),
      ...plan.functions.flatMap(ofRetried),
    ]);
  }

  /** Adds the queues' URLs to the stack's outputs, for `redeliver … --stack`. Once in a stack. */
  public addOutputs(): void {
    addQueueUrls(this, {
      source: { queue: this.retryQueue, description: 'Failed invocations, until their retry.' },
      intermediateDlq: undefined,
      annotation: this.annotationQueue,
      finalDlq: this.finalDlq,
    });
  }
}

function createHandler(
  scope: Construct,
  plan: AsyncPlan,
  key: kms.IKey | undefined,
  retryQueue: sqs.Queue,
  annotation: sqs.Queue,
): lambda.Function {
  const arns = plan.functions.map((retried) => retried.function.functionArn);
  const handler = createFunction(scope, 'AsyncRetryHandler', plan, {
    functionName: plan.names.asyncRetryHandler,
    description: 'Invokes functions again whose asynchronous invocation failed, after a delay, or gives up.',
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
  // To its own queue: a failed invocation waits there.
  allowSend(handler, key, retryQueue, annotation);
  handler.addToRolePolicy(
    // A destination record names the function with its qualifier, and only $LATEST has our destination.
    new iam.PolicyStatement({
      actions: ['lambda:InvokeFunction'],
      resources: arns.flatMap((arn) => [arn, `${arn}:$LATEST`]),
    }),
  );
  handler.addEventSource(innerEventSource(retryQueue));
  return handler;
}

/** Lambda's own two retries would come first, a minute and two minutes later, and tell nobody. */
function sendFailures({ function: target, resource }: UserFunction, retryQueue: sqs.Queue, key: kms.IKey | undefined): void {
  allowSend(target, key, retryQueue);
  // Not SqsDestination, which allows more than sending.
  target.configureAsyncInvoke({ retryAttempts: 0, onFailure: { bind: () => ({ destination: retryQueue.queueArn }) } });
  // Lambda takes retries for a loop by mistake, and drops them after some 16. This loop ends: the handler counts attempts.
  resource.recursiveLoop = lambda.RecursiveLoop.ALLOW;
}

function ofRetried({ function: target }: UserFunction): Alarm[] {
  const name = target.node.path.slice(Stack.of(target).node.path.length + 1).replace(/\//g, '-');
  return [
    loopStopped(name, target),
    {
      name: `${name}-failure-not-sent`,
      description:
        `Lambda could not put a failed invocation of ${name} into the retry queue, and it is lost: look whether the function's role ` +
        'may send there, and whether the payload is too large.',
      metric: ofLambda('DestinationDeliveryFailures', target),
      threshold: 0,
    },
  ];
}
