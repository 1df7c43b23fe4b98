// Handlers that follow `data.script`: one action for each attempt or crash, then `ok`.
// The same in Python: scripted.py; in Rust: tests/src/bin/scripted-function.rs and scripted-processor.rs.

import { appendFileSync } from 'node:fs';

const note = (line) => appendFileSync(process.env.SCRIPT_JOURNAL, `${line}\n`);

note(`process ${process.pid}`);
process.on('SIGTERM', () => {
  note('SIGTERM');
  process.exit(0);
});

export async function handler(event) {
  if (!event.Records) {
    return other(event);
  }
  const [record] = event.Records;
  const { action, text } = begin(record);
  switch (action) {
    case 'permanent':
      return { redeliver: { outcome: 'permanent', type: 'Scripted.Permanent', details: text } };
    case 'snooze':
      return { redeliver: { outcome: 'snooze', delay_seconds: 1, type: 'Scripted.Snooze', details: 'later' } };
    case 'block':
      for (;;);
    default:
      await end(action, text);
  }
}

/** Handles an event that is not from SQS. */
function other(event) {
  if (event.error) {
    throw Object.assign(new Error(event.error), { name: 'Scripted.Transient' });
  }
  return { event, other_wrapper: process.env.OTHER_WRAPPER ?? null };
}

/** Handles all records concurrently and returns the failed ones with their errors. */
export async function batchHandler({ Records }) {
  const outcomes = await Promise.allSettled(Records.map(work));
  const failed = Records.map(({ messageId }, index) => ({ messageId, reason: outcomes[index].reason }));
  const failures = failed.filter(({ reason }) => reason);
  return {
    batchItemFailures: failures.map(({ messageId, reason: { name, message } }) => ({
      itemIdentifier: messageId,
      error: { type: name, details: message },
    })),
  };
}

async function work(record) {
  const { action, text } = begin(record);
  // Lets the other records start first.
  await null;
  if (action === 'permanent') {
    throw Object.assign(new Error(text), { name: 'Scripted.Permanent' });
  }
  await end(action, text);
}

/** Writes the call to the journal, and returns its action and the message's text. */
function begin({ body, attributes: { ApproximateReceiveCount: receives } }) {
  const { metadata, data } = JSON.parse(body);
  const { message_id, retry_attempt = 0, redrive_count = 0, snooze_count = 0, retry_history = [] } = metadata;
  // With the strategy `visibility`, SQS counts the attempts.
  const scripted = data.script[retry_attempt + redrive_count + Number(receives) - 1] ?? 'ok';
  // A snooze spends no attempt, so a repeated snooze would never end.
  const action = scripted === 'snooze' && snooze_count ? 'ok' : scripted;
  const last = retry_history.at(-1)?.error_type ?? '-';
  note([message_id, retry_attempt, snooze_count, action, last].join(' '));
  return { action, text: data.text };
}

function end(action, text) {
  switch (action) {
    case 'panic':
      throw new RangeError(text);
    case 'transient':
      throw Object.assign(new Error(text), { name: 'Scripted.Transient' });
    case 'hang':
      // The timer keeps Node.js running: it exits when nothing is pending.
      return new Promise(() => setInterval(() => {}, 1000));
    case 'loud':
      for (let line = 0; line < 10_000; line += 1) {
        console.info('x'.repeat(999));
      }
      return undefined;
    case 'exit':
      return process.exit(3);
    case 'signal':
      return process.kill(process.pid, 'SIGKILL');
  }
}
