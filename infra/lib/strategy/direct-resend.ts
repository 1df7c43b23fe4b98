import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';

import { redeliverMetric } from '../metrics';
import type { StrategyDefinition } from './definition';
import { delayedResend } from './delayed-resend';
import { createResendLoop, type Resend } from './resend';

const { SUM } = cloudwatch.Stats;

/**
 * The message-processor re-sends failed messages itself. Messages moved by SQS and retries more than 900 s away still
 * pass through the intermediate DLQ, so the rest is the same as with delayed re-sends.
 */
export const directResend: StrategyDefinition = {
  ...delayedResend,
  create: (scope, props, plan) => createResendLoop(scope, props, plan, DIRECT),
};

const DIRECT: Resend = {
  description: 'Validates each message and calls the target; sends failures again after a delay, or gives them up.',
  schedulers: ({ messageProcessor, failedMessageProcessor }) => [messageProcessor, failedMessageProcessor],
  graphs: ({ messageProcessor, failedMessageProcessor }) => ({
    // Every failure already counts as a retry or a dead letter.
    failed: [],
    // Retries through the intermediate DLQ cost twice as much.
    failures: {
      title: 'Retries by function, and what SQS moved',
      left: [
        redeliverMetric('RetriesScheduled', messageProcessor, SUM, 'by the message-processor'),
        redeliverMetric('RetriesScheduled', failedMessageProcessor, SUM, 'by the failed-message-processor'),
        redeliverMetric('ArrivedByRedrive', failedMessageProcessor, SUM, 'moved by SQS (crash, timeout, throttle)'),
      ],
    },
  }),
};
