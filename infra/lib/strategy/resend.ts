import { Annotations } from 'aws-cdk-lib';
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
import { resendAlarms, resendGraphs, type ResendResources, type ResendQueues } from './resend-watch';

/** Differences between the strategies that re-send failed messages to the source queue. */
export interface Resend {
  /** The message-processor's description. */
  readonly description: string;
  /** Returns the functions that schedule retries. */
  schedulers(made: Processors): readonly lambda.Function[];
  /** Returns the graphs that only this strategy has. */
  graphs(made: ResendResources): Pick<LoopGraphs, 'failed' | 'failures'>;
}

type Processors = Pick<ResendResources, 'messageProcessor' | 'failedMessageProcessor'>;

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
export function createResendLoop(scope: Construct, props: NormalizedProps, plan: Plan, resend: Resend): Loop {
  const { names, policy } = plan;
  const queues = createResendQueues(scope, props, plan);
  const { source, intermediateDlq, annotation, finalDlq } = queues;
  const messageProcessor = createMessageProcessor(scope, props, plan, {
    description: resend.description,
    source,
    sendsTo: [intermediateDlq, annotation],
    rights: [],
    environment: {
      STRATEGY: plan.strategy,
      SOURCE_QUEUE_URL: source.queueUrl,
      INTERMEDIATE_DLQ_URL: intermediateDlq.queueUrl,
      // The complete policy, since its lists determine which errors count as an outage.
      RETRY_POLICY: JSON.stringify(policy),
      ANNOTATION_QUEUE_URL: annotation.queueUrl,
    },
  });
  const failedMessageProcessor = createFailedMessageProcessor(scope, props, plan, queues);
  const finalDlqAnnotator = createAnnotator(scope, plan, names.finalDlqAnnotator, queues);
  const processors = [messageProcessor, failedMessageProcessor];
  // With each strategy, the message-processor re-sends some messages itself: at least those for which it made no call.
  processors.forEach((sender) => allowSend(sender, source.encryptionMasterKey, source));
  passSenderIds(scope, processors);
  denyOtherSenders(intermediateDlq, policy.long_delays ? processors : [messageProcessor]);
  denyOtherSenders(annotation, processors);
  denyOtherSenders(finalDlq, [finalDlqAnnotator]);

  const made = { ...queues, messageProcessor, failedMessageProcessor, schedulers: resend.schedulers({ messageProcessor, failedMessageProcessor }) };
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
  { source, intermediateDlq, annotation }: Pick<ResendResources, 'source' | 'intermediateDlq' | 'annotation'>,
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
  // It also sends to its own queue, through which messages with long delays hop.
  allowSend(failedMessageProcessor, plan.encryptionKey, annotation, ...(policy.long_delays ? [intermediateDlq] : []));
  failedMessageProcessor.addEventSource(innerEventSource(intermediateDlq, plan));
  return failedMessageProcessor;
}

/**
 * Passes the unique ids of the senders' roles to the functions. SQS adds these ids to each message, and holds from
 * other senders are not trusted. Unless all ids are known, re-sends cannot be distinguished from messages from
 * producers.
 */
function passSenderIds(scope: Construct, processors: readonly lambda.Function[]): void {
  const roles = processors.flatMap(({ role }) => (role instanceof iam.Role ? [role] : []));
  if (roles.length < processors.length) {
    Annotations.of(scope).addInfo(
      'the role of target.function is imported, so its unique id is not known here, and RESEND_SENDER_IDS is not set: ' +
        'new environments detect an outage by their own calls only, not from held messages. Create the role in this app to change that.',
    );
    return;
  }
  const ids = roles.map(({ roleId }) => roleId).join(',');
  processors.forEach((reader) => reader.addEnvironment('RESEND_SENDER_IDS', ids));
}
