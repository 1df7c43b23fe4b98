// A Lambda target in Node.js, invoked with the message once per attempt.

/** Permanent: list it in the policy's `non_retryable`. */
class InvalidOrder extends Error {
  // Lambda identifies an error by its `name`, which a subclass must set itself.
  name = 'InvalidOrder';
}

export const handler = async ({ metadata, data }) => {
  const attempt = metadata.retry_attempt ?? 0;
  if (data.cents <= 0) throw new InvalidOrder(`order ${data.order} costs nothing`);
  await charge(data, metadata.message_id);
  console.log(`charged ${metadata.message_id} in attempt ${attempt}`);
};

/** Any other exception is retried by the policy. */
const charge = async (order, idempotencyKey) => {};
