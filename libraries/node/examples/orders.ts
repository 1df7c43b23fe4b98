// The same with redeliver: retries over hours, with a reason, and an outage costs none of them.

import { PermanentError, Unavailable, createHandler } from '@redeliver/handler';

interface Order {
  readonly id: string;
}

export const handler = createHandler<Order>(async (message) => {
  const answer = await charge(message.data, message.idempotencyKey, message.signal);
  if (answer === 'unknown') throw new PermanentError('no such order', { type: 'Order.Unknown' });
  if (answer === 'down') throw new Unavailable('the payment service is down');
});

async function charge(order: Order, _key: string, _signal: AbortSignal): Promise<string> {
  return order.id;
}
