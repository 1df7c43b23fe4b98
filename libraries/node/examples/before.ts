// A function as it often is: every failure comes back at once, three times, and dies without a word.

interface Order {
  readonly id: string;
}

export const handler = async (event: { Records: { messageId: string; body: string }[] }) => {
  const batchItemFailures: { itemIdentifier: string }[] = [];
  for (const record of event.Records) {
    try {
      await charge(JSON.parse(record.body) as Order);
    } catch (error) {
      console.error(error);
      batchItemFailures.push({ itemIdentifier: record.messageId });
    }
  }
  return { batchItemFailures };
};

async function charge(_: Order): Promise<void> {}
