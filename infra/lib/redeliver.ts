import { Stack } from 'aws-cdk-lib';
import type * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';

import { createAlarms } from './alarms';
import { createDashboard } from './dashboard';
import { warnOfThroughput } from './existing-queue-checks';
import { setQueueAttributes } from './existing-source-queue';
import { saveQueries } from './log-queries';
import { normalizeProps } from './normalized-props';
import { addQueueUrls, addRoleArns } from './outputs';
import { planOf } from './planning';
import type { RedeliverProps } from './props';
import { warnOfSecretInUrl } from './secret-parameter';
import { queueOfThisStack, registerSource } from './source-queue';
import { STRATEGIES } from './strategy/index';

/**
 * Delayed, jittered retries for the messages of an SQS queue, with a reason on every dead letter. Four queues, three
 * functions, alarms and a dashboard. Strategy `visibility` needs three queues and two functions, `ordered` four queues
 * (with `onGiveUp` five) and two functions. With `Target.ownFunction`, your function replaces the message-processor.
 *
 * @throws an error named RedeliverPropsError if props are invalid, with a sentence for each that says what to change.
 */
export class Redeliver extends Construct {
  /** Producers send messages here. */
  readonly sourceQueue: sqs.IQueue;
  /** Failed messages whose retry is not scheduled yet; `undefined` with strategies `visibility` and `ordered`. */
  readonly intermediateDlq?: sqs.Queue;
  /** Messages that SQS moved after 1000 receives; only with strategy `ordered`. */
  readonly sourceDlq?: sqs.Queue;
  /** A notice for each blocked group; only with strategy `ordered` and the policy's `onGiveUp` `BLOCK`. */
  readonly blockedQueue?: sqs.Queue;
  /** Messages that were given up and await annotation. */
  readonly annotationQueue: sqs.Queue;
  /** Messages that were given up, with the reason, for you to read. */
  readonly finalDlq: sqs.Queue;
  /** Calls the target, or is your function with `Target.ownFunction`. */
  readonly messageProcessor: lambda.Function;
  /** Schedules retries; `undefined` with strategies `visibility` and `ordered`. */
  readonly failedMessageProcessor?: lambda.Function;
  /** Adds the reason to messages that were given up. */
  readonly finalDlqAnnotator: lambda.Function;
  /** All alarms. */
  readonly alarms: cloudwatch.Alarm[];
  /** The functions whose roles are ours. */
  private readonly withRoles: Readonly<Record<string, lambda.Function | undefined>>;

  constructor(scope: Construct, id: string, props: RedeliverProps) {
    super(scope, id);
    const given = normalizeProps(props);
    const plan = planOf(given, this);
    const loop = STRATEGIES[plan.strategy].create(this, given, plan);
    const isElsewhere = given.existingSourceQueue && !queueOfThisStack(given.existingSourceQueue, Stack.of(this));
    const setter = isElsewhere ? setQueueAttributes(this, plan, loop) : undefined;
    const alarms = createAlarms(this, given, plan, loop);
    if (props.dashboard !== false) {
      createDashboard(this, plan, loop, alarms);
    }
    saveQueries(this, plan, loop);
    registerSource(this, loop.source);
    warnOfSecretInUrl(this, given.target);
    warnOfThroughput(this, given.existingSourceQueue);

    this.sourceQueue = loop.source;
    this.intermediateDlq = loop.intermediateDlq;
    this.sourceDlq = loop.annotatedDlq;
    this.blockedQueue = loop.blockedQueue;
    this.annotationQueue = loop.annotation;
    this.finalDlq = loop.finalDlq;
    this.messageProcessor = loop.messageProcessor;
    this.failedMessageProcessor = loop.failedMessageProcessor;
    this.finalDlqAnnotator = loop.finalDlqAnnotator;
    this.alarms = alarms;
    this.withRoles = {
      MessageProcessor: plan.userFunction ? undefined : loop.messageProcessor,
      FailedMessageProcessor: loop.failedMessageProcessor,
      FinalDlqAnnotator: loop.finalDlqAnnotator,
      SourceQueueSetter: setter,
    };
  }

  /**
   * Adds the queues' URLs to the stack's outputs, for `redeliver … --stack`, and the ARNs of the functions' roles. At most
   * once per stack.
   */
  public addOutputs(): void {
    addQueueUrls(this, {
      source: { queue: this.sourceQueue, description: 'Send messages here.' },
      intermediateDlq: this.intermediateDlq,
      sourceDlq: this.sourceDlq,
      blockedQueue: this.blockedQueue,
      annotation: this.annotationQueue,
      finalDlq: this.finalDlq,
    });
    addRoleArns(this, this.withRoles);
  }
}
