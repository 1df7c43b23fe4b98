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
 * Delayed, jittered retries for the messages of an SQS queue, with a reason on every dead letter. Creates four queues,
 * three functions, alarms and a dashboard; with strategy `visibility` three queues and two functions, with `ordered`
 * four queues (five with `onGiveUp` `BLOCK`) and two functions. With `Target.ownFunction`, your function replaces the
 * message-processor.
 *
 * @throws an error named RedeliverPropsError if any props are invalid. Its message has one sentence per problem that
 * says what to change.
 */
export class Redeliver extends Construct {
  /** The queue that producers send messages to. */
  readonly sourceQueue: sqs.IQueue;
  /** Failed messages whose retry is not scheduled yet; `undefined` with strategies `visibility` and `ordered`. */
  readonly intermediateDlq?: sqs.Queue;
  /** Messages that SQS moved after 1000 receives; only with strategy `ordered`. */
  readonly sourceDlq?: sqs.Queue;
  /** A notice for each blocked group; only with strategy `ordered` and `OnGiveUp.BLOCK` in the policy. */
  readonly blockedQueue?: sqs.Queue;
  /** Messages that were given up and are waiting for annotation. */
  readonly annotationQueue: sqs.Queue;
  /** Messages that were given up, with the reason. Read them here. */
  readonly finalDlq: sqs.Queue;
  /** The function that calls the target; with `Target.ownFunction`, your function. */
  readonly messageProcessor: lambda.Function;
  /** The function that schedules retries; `undefined` with strategies `visibility` and `ordered`. */
  readonly failedMessageProcessor?: lambda.Function;
  /** The function that adds the reason to messages that were given up. */
  readonly finalDlqAnnotator: lambda.Function;
  /** All alarms. */
  readonly alarms: cloudwatch.Alarm[];
  /** The functions whose roles this construct creates, by the prefix of their outputs. */
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
   * Adds the queues' URLs to the stack's outputs, for `redeliver … --stack`, and the ARNs of the functions' roles. Can
   * be called once per stack.
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
