// A handler that does what `data.script` says: one action for each attempt or crash, `ok` after them.
// The same in Rust: tests/src/bin/scripted-processor.rs.

import { appendFileSync } from 'node:fs';

import { PermanentError, Snooze, createHandler } from '../../libraries/node/dist/esm/index.js';

export const handler = createHandler(async (message) => {
  const { metadata, data } = JSON.parse(message.body);
  const done = message.retryAttempt + (metadata.redrive_count ?? 0);
  const scripted = data.script[done] ?? 'ok';
  // A snooze spends no attempt: without this it would never end.
  const action = scripted === 'snooze' && metadata.snooze_count ? 'ok' : scripted;
  const last = metadata.retry_history?.at(-1)?.error_type ?? '-';
  const call = [message.messageId, message.retryAttempt, metadata.snooze_count ?? 0, action, last];
  appendFileSync(process.env.SCRIPT_JOURNAL, `${call.join(' ')}\n`);
  await ACTIONS[action](data.text);
});

const ACTIONS = {
  ok() {},
  panic(text) {
    throw new RangeError(text);
  },
  hang() {
    return new Promise(() => {});
  },
  block() {
    for (;;);
  },
  transient(text) {
    throw Object.assign(new Error(text), { name: 'Scripted.Transient' });
  },
  permanent(text) {
    throw new PermanentError(text, { type: 'Scripted.Permanent' });
  },
  snooze() {
    throw new Snooze(1, 'later', { type: 'Scripted.Snooze' });
  },
};
