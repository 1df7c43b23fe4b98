import * as iam from 'aws-cdk-lib/aws-iam';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import { createAnnotator } from '../annotator';
import { allowSend, createFunction, innerEventSource } from '../function';
import { createMessageProcessor } from '../message-processor';
import { messageEnvironment, schemaFiles } from '../messages';
import type { NormalizedProps } from '../normalized-props';
import type { Plan } from '../plan';
import { createDeadLetterQueues, denyOtherSenders, INNER_MAX_RECEIVE_COUNT, INNER_TIMEOUT, innerQueueProps, redriveFromInnerQueue } from '../queues';
import { allowSource, createSourceQueue } from '../source-queue';
import type { Loop, LoopGraphs } from './definition';
import { resendAlarms, resendGraphs, type Resending, type ResendQueues } from './resend-watch';

/** Differences between the strategies that re-send failed messages to the source queue. */
export interface Resend {
  /** The message-processor's description. */
  readonly description: string;
  /** Additional variables of the message-processor. */
  environment(source: sqs.IQueue): Readonly<Record<string, string>>;
  /** The functions that send to the source queue, and so schedule retries. */
  senders(made: Pick<Resending, 'messageProcessor' | 'failedMessageProcessor'>): readonly lambda.Function[];
  /** Graphs that only this strategy has. */
  graphs(made: Resending): Pick<LoopGraphs, 'failed' | 'failures'>;
}

/** Creates four queues, each of which is the DLQ of the one before it. */
export function createResendQueues(scope: Construct, props: NormalizedProps, plan: Plan): ResendQueues {
  const { names } = plan;
  const allow = allowSource(scope, props, plan);
  const dead = createDeadLetterQueues(scope, plan, names, redriveFromInnerQueue(scope, names.intermediateDlq));
  const intermediateDlq = new sqs.Queue(scope, 'IntermediateDlq', {
    ...innerQueueProps(plan),
    queueName: names.intermediateDlq,
    deadLetterQueue: { queue: dead.annotation, maxReceiveCount: INNER_MAX_RECEIVE_COUNT },
    redriveAllowPolicy: allow,
  });
  return { ...dead, intermediateDlq, source: createSourceQueue(scope, props, plan, intermediateDlq) };
}

/** Creates four queues and three functions. */
export function createResending(scope: Construct, props: NormalizedProps, plan: Plan, resend: Resend): Loop {
  const { names, policy } = plan;
  const queues = createResendQueues(scope, props, plan);
  const { source, intermediateDlq, annotation, finalDlq } = queues;
  const messageProcessor = createMessageProcessor(scope, props, plan, {
    description: resend.description,
    source,
    sendsTo: [intermediateDlq, annotation],
    rights: [],
    environment: {
      ...resend.environment(source),
      INTERMEDIATE_DLQ_URL: intermediateDlq.queueUrl,
      // The whole policy, since its lists decide which errors are an outage.
      RETRY_POLICY: JSON.stringify(policy),
      ANNOTATION_QUEUE_URL: annotation.queueUrl,
    },
  });
  const failedMessageProcessor = createFailedMessageProcessor(scope, props, plan, queues);
  const finalDlqAnnotator = createAnnotator(scope, plan, names.finalDlqAnnotator, queues);
  const processors = [messageProcessor, failedMessageProcessor];
  const schedulers = resend.senders({ messageProcessor, failedMessageProcessor });
  schedulers.forEach((sender) => allowResend(sender === messageProcessor ? withdrawnLast(scope, sender) : sender, source));
  passSenderIds(schedulers, processors);
  denyOtherSenders(intermediateDlq, policy.long_delays ? processors : [messageProcessor]);
  denyOtherSenders(annotation, processors);
  denyOtherSenders(finalDlq, [finalDlqAnnotator]);

  const made = { ...queues, messageProcessor, failedMessageProcessor, schedulers };
  return {
    ...made,
    sourceDlq: intermediateDlq,
    stages: [
      { queue: intermediateDlq, title: 'intermediate DLQ', reader: failedMessageProcessor, readerName: 'failed-message-processor' },
    ],
    finalDlqAnnotator,
    alarms: resendAlarms(plan, made),
    graphs: { ...resendGraphs(plan, made), ...resend.graphs(made) },
  };
}

function createFailedMessageProcessor(
  scope: Construct,
  props: NormalizedProps,
  plan: Plan,
  { source, intermediateDlq, annotation }: Pick<Resending, 'source' | 'intermediateDlq' | 'annotation'>,
): lambda.Function {
  const { policy } = plan;
  const failedMessageProcessor = createFunction(scope, 'FailedMessageProcessor', plan, {
    functionName: plan.names.failedMessageProcessor,
    description: 'Sends failed messages again after a delay, or gives them up.',
    program: 'failed-message-processor',
    schemas: schemaFiles(props),
    timeout: INNER_TIMEOUT,
    reservedConcurrency: plan.innerReservedConcurrency,
    environment: {
      SOURCE_QUEUE_URL: source.queueUrl,
      INTERMEDIATE_DLQ_URL: intermediateDlq.queueUrl,
      ANNOTATION_QUEUE_URL: annotation.queueUrl,
      RETRY_POLICY: JSON.stringify(policy),
      ...messageEnvironment(props),
    },
  });
  // Also to its own queue, where a message with a long delay hops.
  allowSend(failedMessageProcessor, plan.encryptionKey, annotation, ...(policy.long_delays ? [intermediateDlq] : []));
  failedMessageProcessor.addEventSource(innerEventSource(intermediateDlq, plan));
  return failedMessageProcessor;
}

/**
 * Passes the unique ids of the senders' roles, which SQS adds to each message: holds from other senders are not
 * trusted.
 */
function passSenderIds(senders: readonly lambda.Function[], readers: readonly lambda.Function[]): void {
  const ids = senders.map(({ role }) => (role as iam.Role).roleId).join(',');
  readers.forEach((reader) => reader.addEnvironment('RESEND_SENDER_IDS', ids));
}

/** Allows sending to the source queue, which may have its own key. */
function allowResend(sender: iam.IGrantable, source: sqs.IQueue): void {
  allowSend(sender, source.encryptionMasterKey, source);
}

/**
 * A policy of its own for rights that the other strategy withdraws. CloudFormation changes a role's policy before the
 * function that uses it, but removes what is no longer in the template after all updates ("Monitor the progress of a
 * stack update"). So the function re-sends until it has its new settings, without spending redrives.
 */
function withdrawnLast(scope: Construct, sender: lambda.Function): iam.Policy {
  const rights = new iam.Policy(scope, 'ResendRights', { roles: [sender.role as iam.Role] });
  // A dependency by reference: DependsOn must not name a resource with a condition, which the policy has in the template
  // with parameters.
  (sender.node.defaultChild as lambda.CfnFunction).addMetadata('Needs', (rights.node.defaultChild as iam.CfnPolicy).ref);
  return rights;
}
