import { Stack } from 'aws-cdk-lib';
import type * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import { createAlarms } from './alarms.ts';
import { createDashboard } from './dashboard.ts';
import { setAttributes } from './existing-source-queue.ts';
import { createFunctions } from './functions.ts';
import { planOf } from './plan.ts';
import type { RedeliverProps } from './props.ts';
import { createQueues, denyOtherSenders } from './queues.ts';
import { ofThisStack } from './source-queue.ts';

/**
 * Delayed, jittered retries for the messages of an SQS queue, with every dead letter explained: four queues, three
 * functions, alarms and a dashboard. With strategy `visibility` three queues and two functions.
 *
 * @throws RedeliverPropsError if a prop is wrong, with a sentence for each that says what to change.
 */
export class Redeliver extends Construct {
  /** Where producers send to. */
  readonly sourceQueue: sqs.IQueue;
  /** What failed and waits for its next retry to be scheduled; with strategy `visibility` there is none. */
  readonly intermediateDlq: sqs.Queue | undefined;
  /** What was given up and waits for its annotation. */
  readonly annotationQueue: sqs.Queue;
  /** What was given up, with the reason: for people. */
  readonly finalDlq: sqs.Queue;
  /** Calls the target. */
  readonly messageProcessor: lambda.Function;
  /** Schedules retries; with strategy `visibility` there is none. */
  readonly failedMessageProcessor: lambda.Function | undefined;
  /** Annotates what was given up. */
  readonly finalDlqAnnotator: lambda.Function;
  /** All alarms. */
  readonly alarms: readonly cloudwatch.Alarm[];

  constructor(scope: Construct, id: string, props: RedeliverProps) {
    super(scope, id);
    const plan = planOf(props, Stack.of(this));

    const queues = createQueues(this, plan, props.encryptionKey, props.existingSourceQueue);
    const functions = createFunctions(this, props, plan, queues);
    const { messageProcessor, failedMessageProcessor, finalDlqAnnotator } = functions;
    const processors = failedMessageProcessor ? [messageProcessor, failedMessageProcessor] : [messageProcessor];
    if (queues.intermediateDlq) {
      denyOtherSenders(queues.intermediateDlq, plan.policy.long_delays ? processors : [messageProcessor]);
    }
    denyOtherSenders(queues.annotation, processors);
    denyOtherSenders(queues.finalDlq, [finalDlqAnnotator]);
    if (props.existingSourceQueue && !ofThisStack(props.existingSourceQueue, Stack.of(this))) {
      setAttributes(this, plan, queues, messageProcessor);
    }
    const alarms = createAlarms(this, props, plan, queues, functions);
    createDashboard(this, plan, queues, functions, alarms);

    this.sourceQueue = queues.source;
    this.intermediateDlq = queues.intermediateDlq;
    this.annotationQueue = queues.annotation;
    this.finalDlq = queues.finalDlq;
    this.messageProcessor = messageProcessor;
    this.failedMessageProcessor = failedMessageProcessor;
    this.finalDlqAnnotator = finalDlqAnnotator;
    this.alarms = alarms;
  }
}
