import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

// @ts-expect-error: plain JavaScript.
import { handler } from '../../examples/targets/orders.mjs';

const file = (path: string): string => readFileSync(join(__dirname, `../../${path}`), 'utf8');
const page = file('docs/handlers.md');

const event = (cents: number) => ({ metadata: { message_id: '0191f3a2-7b1c-7d3e-8f00-000000000001' }, data: { order: 'A-1', cents } });

test('docs/handlers.md links to the tested targets and the compiled Rust handler', () => {
  for (const path of ['examples/targets/orders.py', 'examples/targets/orders.mjs', 'crates/message-processor/examples/custom_handler.rs']) {
    assert.ok(page.includes(`(../${path})`), path);
  }
});

// Node.js reports an error's `name`, Python its class. The final record and `non_retryable` use that name.
test('the Node.js target processes a message and names permanent errors', async () => {
  await handler(event(1250));
  await assert.rejects(handler(event(0)), { name: 'InvalidOrder', message: 'order A-1 costs nothing' });
});

test('the Python target processes a message and names permanent errors', () => {
  const program = 'import json, sys, orders\norders.handler(json.loads(sys.argv[1]), None)';
  const called = (cents: number) =>
    spawnSync('python3', ['-B', '-c', program, JSON.stringify(event(cents))], {
      cwd: join(__dirname, '../../examples/targets'),
      encoding: 'utf8',
    });
  assert.equal(called(1250).stdout, 'charged 0191f3a2-7b1c-7d3e-8f00-000000000001 in attempt 0\n');
  assert.match(called(0).stderr, /\norders\.InvalidOrder: order A-1 costs nothing\n$/);
});
