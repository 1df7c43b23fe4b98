// A user's function in Node.js without libraries: it does what a message asks, and reports it to a queue.

/** Listed in the policy's `non_retryable`. */
class UnknownOrder extends Error {
  name = 'Order.Unknown';
}

export async function handler({ Records: [{ body, messageAttributes }] }) {
  const { metadata, data: order } = envelopeOf(JSON.parse(body), messageAttributes);
  const attempt = metadata.retry_attempt ?? 0;
  if (order.is_unknown) {
    throw new UnknownOrder(`no order ${order.order}`);
  }
  if (attempt < order.succeeds_at) {
    throw new Error('not yet');
  }
  await tell(JSON.stringify({ order: order.order, attempt, key: metadata.message_id ?? order.order }));
}

/** A message without an envelope carries its retry state in an attribute. */
function envelopeOf(body, { Redeliver }) {
  if (body.metadata) {
    return body;
  }
  const { retry_attempt } = JSON.parse(Redeliver?.stringValue ?? '{}');
  return { metadata: { retry_attempt }, data: body };
}

/** Sends without AWS's SDK, which only Lambda's own runtime has; the emulator accepts unsigned requests. */
async function tell(MessageBody) {
  const QueueUrl = process.env.DONE_QUEUE_URL;
  // The emulator reads the region from the credential.
  const authorization = `AWS4-HMAC-SHA256 Credential=test/20260101/${process.env.AWS_REGION}/sqs/aws4_request`;
  const headers = { authorization, 'content-type': 'application/x-amz-json-1.0', 'x-amz-target': 'AmazonSQS.SendMessage' };
  const response = await fetch(new URL('/', QueueUrl), { method: 'POST', headers, body: JSON.stringify({ QueueUrl, MessageBody }) });
  if (!response.ok) {
    throw new Error(`${response.status}: ${await response.text()}`);
  }
}
