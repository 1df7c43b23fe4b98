// The settings: all that is wrong with them in one error, and nothing of it a value.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createHandler } from '../src/index.ts';
import { readSettings } from '../src/settings.ts';

const QUEUE = { INTERMEDIATE_DLQ_URL: 'https://sqs.eu-central-1.amazonaws.com/0/intermediate' };

function wrong(environment: Record<string, string>): string[] {
  try {
    readSettings(environment);
    return [];
  } catch (error) {
    const [head, ...lines] = (error as Error).message.split('\n');
    assert.equal(head, 'the function cannot start; its environment variables are not right:');
    return lines;
  }
}

test('one queue is all that must be said', () => {
  const { idSources, maxConcurrency, logging, policy } = readSettings({ ...QUEUE, MAX_CONCURRENCY: '', STRATEGY: 'delayed-resend' });
  assert.deepEqual([idSources, maxConcurrency, logging], [undefined, 10, { detail: 'batches', level: 'INFO' }]);
  assert.equal(policy.circuitBreaker?.minimumCalls, 10);
});

test('one error says all that is wrong', () => {
  const lines = wrong({
    STRATEGY: 'visibility', MAX_CONCURRENCY: '0', ENVELOPE: 'maybe', LOG_DETAIL: 'all', LOG_LEVEL: 'loud', MESSAGE_ID_POINTER: '/id',
    RETRY_POLICY: '{"immediate":{"max_attempts":11},"circuit_breaker":{"x":1}}',
  });
  assert.deepEqual(lines.map((line) => line.split(' ')[1]), [
    'STRATEGY', 'INTERMEDIATE_DLQ_URL', 'LOG_LEVEL', 'MAX_CONCURRENCY', 'RETRY_POLICY', 'ENVELOPE', 'MESSAGE_ID_POINTER', 'LOG_DETAIL',
  ]);
  assert.equal(lines[4], '- RETRY_POLICY is refused: /circuit_breaker/x is unknown; /immediate/delay_ms is missing; /immediate/max_attempts is not a whole number from 1 to 10');
});

test('each setting has its words', () => {
  const of = (more: Record<string, string>) => wrong({ ...QUEUE, ...more })[0];
  assert.match(of({ INTERMEDIATE_DLQ_URL: 'https://sqs.x/0/q.fifo' }) ?? '', /is a FIFO queue's URL/);
  assert.match(of({ INTERMEDIATE_DLQ_URL: 'arn:aws:sqs' }) ?? '', /is not a queue's URL/);
  assert.match(of({ MAX_CONCURRENCY: '1.5' }) ?? '', /is not a whole number from 1 to 10000/);
  assert.match(of({ RETRY_POLICY: 'policy.json' }) ?? '', /is not JSON; it takes the policy itself, not a file's name/);
  assert.match(of({ MESSAGE_ID_ATTRIBUTE: 'Id' }) ?? '', /is for messages without an envelope: set ENVELOPE=optional, or remove it/);
  const plain = { ENVELOPE: 'optional' };
  for (const name of ['Failure', 'Redeliver', 'order id', '']) {
    assert.equal(of({ ...plain, MESSAGE_ID_ATTRIBUTE: name }) === undefined, name === '', name);
  }
  for (const pointer of ['id', '#/id', '$.id', '/a~', '/a~2', '/~/b']) {
    assert.match(of({ ...plain, MESSAGE_ID_POINTER: pointer }) ?? '', /is not a JSON Pointer/, pointer);
  }
  assert.deepEqual(readSettings({ ...QUEUE, ...plain, MESSAGE_ID_POINTER: '/~01/a~1b/' }).idSources?.pointer, ['~1', 'a/b', '']);
});

test('a level of another logger is one of ours', () => {
  for (const [level, ours] of [['debug', 'INFO'], ['INFO', 'INFO'], ['Warn', 'WARN'], ['ERROR', 'WARN'], ['silent', 'WARN']] as const) {
    assert.equal(readSettings({ ...QUEUE, LOG_LEVEL: level }).logging.level, ours);
  }
});

test('in Lambda the settings are read at once, elsewhere with the first event', async () => {
  const before = process.env.AWS_LAMBDA_FUNCTION_NAME;
  try {
    process.env.AWS_LAMBDA_FUNCTION_NAME = 'orders';
    assert.throws(() => createHandler(() => {}), /INTERMEDIATE_DLQ_URL is missing/);
    delete process.env.AWS_LAMBDA_FUNCTION_NAME;
    const handler = createHandler(() => {});
    await assert.rejects(handler({ Records: [] }, { getRemainingTimeInMillis: () => 1000 }), /INTERMEDIATE_DLQ_URL is missing/);
  } finally {
    if (before !== undefined) {
      process.env.AWS_LAMBDA_FUNCTION_NAME = before;
    }
  }
});
