// Beside Powertools: a message that comes twice is charged once. The key is the message's own, so all its copies have it.

import { IdempotencyConfig, makeIdempotent } from '@aws-lambda-powertools/idempotency';
import type { BasePersistenceLayer } from '@aws-lambda-powertools/idempotency/persistence';
import { createHandler, type Message } from '@redeliver/handler';

export interface Order {
  readonly id: string;
}

/** In Lambda the store is `new DynamoDBPersistenceLayer({ tableName: … })`. */
export function idempotent(charge: (order: Order) => Promise<void>, persistenceStore: BasePersistenceLayer) {
  // Longer than a message can come back: with the default policy its retries take at most 75 minutes, and an outage a day.
  const config = new IdempotencyConfig({ expiresAfterSeconds: 14 * 24 * 3600 });
  // Powertools looks at the first argument. The key alone: what else a message has differs from copy to copy.
  const once = makeIdempotent(async (_key: string, message: Message<Order>) => charge(message.data), { persistenceStore, config });
  return createHandler<Order>(async (message, context) => {
    // So that a copy does not wait for a call that the function's end has cut off.
    config.registerLambdaContext(context as never);
    await once(message.idempotencyKey, message);
  });
}
