import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';

import { own } from '../metrics';
import type { StrategyDefinition } from './definition';
import { delayedResend } from './delayed-resend';
import { createResending, type Resend } from './resend';

const { SUM } = cloudwatch.Stats;

/**
 * The message-processor sends a message that failed again itself. What SQS moved, and what comes back more than 900 s later,
 * still goes by the intermediate DLQ, so that whatever is known of delayed re-sends is true here, too.
 */
export const directResend: StrategyDefinition = {
  ...delayedResend,
  create: (scope, props, plan) => createResending(scope, props, plan, DIRECT),
};

const DIRECT: Resend = {
  description: 'Validates each message and calls the target; sends failures again after a delay, or gives them up.',
  environment: (source) => ({ STRATEGY: 'direct-resend', SOURCE_QUEUE_URL: source.queueUrl }),
  senders: ({ messageProcessor, failedMessageProcessor }) => [messageProcessor, failedMessageProcessor],
  graphs: ({ messageProcessor, failedMessageProcessor }) => ({
    // Every failure is a retry or a dead letter.
    failed: [],
    // What goes by the intermediate DLQ costs twice as much.
    failures: {
      title: 'Retries by function, and what SQS moved',
      left: [
        own('RetriesScheduled', messageProcessor, SUM, 'by the message-processor'),
        own('RetriesScheduled', failedMessageProcessor, SUM, 'by the failed-message-processor'),
        own('ArrivedByRedrive', failedMessageProcessor, SUM, 'moved by SQS (crash, timeout, throttle)'),
      ],
    },
  }),
};
