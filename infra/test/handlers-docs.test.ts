import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

// @ts-expect-error: plain JavaScript.
import { handler } from '../../examples/targets/orders.mjs';

const file = (path: string): string => readFileSync(join(__dirname, `../../${path}`), 'utf8');
const page = file('docs/handlers.md');

/** The page's only code block in a language. */
function block(language: string): string {
  const blocks = [...page.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, code = '']) => code);
  assert.equal(blocks.length, 1, `docs/handlers.md has ${blocks.length} blocks of ${language}`);
  return blocks[0] ?? '';
}

const event = (cents: number) => ({ metadata: { message_id: '0191f3a2-7b1c-7d3e-8f00-000000000001' }, data: { order: 'A-1', cents } });

test('the target in docs/handlers.md is that in examples/targets, and the Rust handler is the one that is compiled', () => {
  assert.equal(block('python'), file('examples/targets/orders.py'));
  assert.ok(page.includes('(../examples/targets/orders.mjs)'));
  const compiled = file('crates/message-processor/examples/custom_handler.rs');
  const handlerOf = (code: string): string => code.slice(code.indexOf('#[derive(Deserialize)]'), code.indexOf('#[tokio::main')).replace(/#\[expect.*\n/, '');
  assert.equal(handlerOf(block('rust')), handlerOf(compiled));
});

// Node.js reports an error's `name`, Python its class; the final record and `non_retryable` use that name.
test('the target in Node.js takes a message, and names what is permanent', async () => {
  await handler(event(1250));
  await assert.rejects(handler(event(0)), { name: 'InvalidOrder', message: 'order A-1 costs nothing' });
});

test('the target in Python takes a message, and names what is permanent', () => {
  const program = 'import json, sys, orders\norders.handler(json.loads(sys.argv[1]), None)';
  const called = (cents: number) =>
    spawnSync('python3', ['-B', '-c', program, JSON.stringify(event(cents))], {
      cwd: join(__dirname, '../../examples/targets'),
      encoding: 'utf8',
    });
  assert.equal(called(1250).stdout, 'charged 0191f3a2-7b1c-7d3e-8f00-000000000001 in attempt 0\n');
  assert.match(called(0).stderr, /\norders\.InvalidOrder: order A-1 costs nothing\n$/);
});
