// Beside middy: the middlewares are around the batch, the handler inside has one message.

import middy from '@middy/core';
import { createHandler, type LambdaContext, type SqsBatchResponse, type SqsEvent } from '@redeliver/handler';

export function timed(charge: (key: string) => Promise<void>, tell: (milliseconds: number) => void) {
  let began = 0;
  return middy<SqsEvent, SqsBatchResponse, Error, LambdaContext & never>()
    .use({
      before: () => {
        began = Date.now();
      },
      after: () => {
        tell(Date.now() - began);
      },
    })
    .handler(createHandler(async (message) => charge(message.idempotencyKey)));
}
