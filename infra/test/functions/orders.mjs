// A function of a user's own, in Node.js: it does what a message says. What is done, it tells a queue.

import { SQSClient, SendMessageCommand } from '@aws-sdk/client-sqs';
import { PermanentError, createHandler } from '@redeliver/handler';

const sqs = new SQSClient({});

export const handler = createHandler(async ({ data, idempotencyKey, retryAttempt }) => {
  if (data.is_unknown) {
    throw new PermanentError(`no order ${data.order}`, { type: 'Order.Unknown' });
  }
  if (retryAttempt < data.succeeds_at) {
    throw new Error('not yet');
  }
  const MessageBody = JSON.stringify({ order: data.order, attempt: retryAttempt, key: idempotencyKey });
  await sqs.send(new SendMessageCommand({ QueueUrl: process.env.DONE_QUEUE_URL, MessageBody }));
});
