import { Stack } from 'aws-cdk-lib';
import type * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import { createAlarms } from './alarms';
import { createDashboard } from './dashboard';
import { setAttributes } from './existing-source-queue';
import { givenOf } from './given';
import { addQueueUrls } from './outputs';
import { planOf } from './planning';
import type { RedeliverProps } from './props';
import { ofThisStack, takeSource } from './source-queue';
import { STRATEGIES } from './strategy/index';

/**
 * Delayed, jittered retries for the messages of an SQS queue, with every dead letter explained: four queues, three
 * functions, alarms and a dashboard. With strategy `visibility` three queues and two functions; with a function of your own
 * as target, that one takes the place of the first of three.
 *
 * @throws an error named RedeliverPropsError if a prop is wrong, with a sentence for each that says what to change.
 */
export class Redeliver extends Construct {
  /** Where producers send to. */
  readonly sourceQueue: sqs.IQueue;
  /** What failed and waits for its next retry to be scheduled; with strategy `visibility` there is none. */
  readonly intermediateDlq?: sqs.Queue;
  /** What was given up and waits for its annotation. */
  readonly annotationQueue: sqs.Queue;
  /** What was given up, with the reason: for people. */
  readonly finalDlq: sqs.Queue;
  /** Calls the target; with `Target.ownFunction` it is that function. */
  readonly messageProcessor: lambda.Function;
  /** Schedules retries; with strategy `visibility` there is none. */
  readonly failedMessageProcessor?: lambda.Function;
  /** Annotates what was given up. */
  readonly finalDlqAnnotator: lambda.Function;
  /** All alarms. */
  readonly alarms: cloudwatch.Alarm[];

  constructor(scope: Construct, id: string, props: RedeliverProps) {
    super(scope, id);
    const given = givenOf(props);
    const plan = planOf(given, Stack.of(this));
    const loop = STRATEGIES[plan.strategy].create(this, given, plan);
    if (given.existingSourceQueue && !ofThisStack(given.existingSourceQueue, Stack.of(this))) {
      setAttributes(this, plan, loop);
    }
    const alarms = createAlarms(this, given, plan, loop);
    createDashboard(this, plan, loop, alarms);
    takeSource(this, loop.source);

    this.sourceQueue = loop.source;
    this.intermediateDlq = loop.intermediateDlq;
    this.annotationQueue = loop.annotation;
    this.finalDlq = loop.finalDlq;
    this.messageProcessor = loop.messageProcessor;
    this.failedMessageProcessor = loop.failedMessageProcessor;
    this.finalDlqAnnotator = loop.finalDlqAnnotator;
    this.alarms = alarms;
  }

  /** Adds the queues' URLs to the stack's outputs, for `redeliver … --stack`. Once in a stack. */
  public addOutputs(): void {
    addQueueUrls(this, {
      source: { queue: this.sourceQueue, description: 'Send messages here.' },
      intermediateDlq: this.intermediateDlq,
      annotation: this.annotationQueue,
      finalDlq: this.finalDlq,
    });
  }
}
