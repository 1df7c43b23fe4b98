import middy from '@middy/core';
import sqsPartialBatchFailure from '@middy/sqs-partial-batch-failure';
import { charge } from './charge.mjs';
import { reason } from './reason.mjs';

const withReasons = ({ after }) => ({
  after: async (request) => {
    const rejected = request.response.filter(({ status }) => status === 'rejected');
    await after(request);
    request.response.batchItemFailures.forEach((failure, n) => (failure.error = reason(rejected[n].reason)));
  },
});

export const handler = middy()
  .use(withReasons(sqsPartialBatchFailure()))
  .handler(({ Records }) => Promise.allSettled(Records.map(async ({ body }) => charge(JSON.parse(body)))));
