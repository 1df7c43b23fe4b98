import { charge } from './charge.mjs';
import { reason } from './reason.mjs';

export const handler = async ({ Records }) => {
  const batchItemFailures = [];
  for (const { messageId, body } of Records) {
    try {
      await charge(JSON.parse(body));
    } catch (error) {
      batchItemFailures.push({ itemIdentifier: messageId, error: reason(error) });
    }
  }
  return { batchItemFailures };
};
