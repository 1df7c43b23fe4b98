import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { fakeBundles, temporaryDirectory } from './stack-support';

const DEPLOYED = join(__dirname, 'snapshot/redeliver.template.json');

/**
 * Returns the relevant lines of the pinned CDK's diff between a stack with the defaults and a stack with this context.
 */
function diff(...context: string[]): string[] {
  const given = ['target=https://orders.example.com/hook', `bundles=${fakeBundles()}`, ...context].flatMap((value) => ['--context', value]);
  const run = spawnSync(
    'node',
    ['node_modules/aws-cdk/bin/cdk', 'diff', '--template', DEPLOYED, '--output', temporaryDirectory(), '--fail=false', '--ci=false', '--no-color', ...given],
    { cwd: join(__dirname, '..'), env: { ...process.env, CDK_DISABLE_VERSION_CHECK: 'true' }, encoding: 'utf8' },
  );
  assert.equal(run.status, 0, run.stderr);
  // The snapshot has no paths, which also counts as a change.
  return run.stderr.split('\n').filter((line) => /^Stack |^\[-\] AWS::SQS::Queue |^\[~\] AWS::SQS::Queue .* replace$| Number of stacks/.test(line));
}

describe('`cargo xtask cdk deploy` detects replaced queues by these words of `cdk diff` (xtask/src/stack/left_behind.rs)', () => {
  const ids = {
    FinalDlq: 'RedeliverFinalDlq5A80AE7B',
    AnnotationQueue: 'RedeliverAnnotationQueueCC57CBF7',
    IntermediateDlq: 'RedeliverIntermediateDlqBAA24CD0',
    SourceQueue: 'RedeliverSourceQueue377AD49C',
  };
  test('a changed name replaces a queue', () => {
    const [stack, ...lines] = diff('prefix=other');
    assert.match(stack ?? '', /^Stack Redeliver \(other-prod\)/);
    const replaced = Object.entries(ids).map(([queue, id]) => `[~] AWS::SQS::Queue Redeliver/${queue} ${id} replace`);
    assert.deepEqual(lines, [...replaced, '✨  Number of stacks with differences: 1']);
  });

  test('a changed strategy removes a queue', () => {
    const [, ...lines] = diff('strategy=visibility');
    assert.deepEqual(lines, [`[-] AWS::SQS::Queue ${ids.IntermediateDlq} orphan`, '✨  Number of stacks with differences: 1']);
  });

  test('a FIFO queue replaces the source queue, which SQS cannot turn into one', () => {
    const [, ...lines] = diff('strategy=ordered');
    assert.deepEqual(lines.sort(), [
      `[-] AWS::SQS::Queue ${ids.IntermediateDlq} orphan`,
      `[~] AWS::SQS::Queue Redeliver/SourceQueue ${ids.SourceQueue} replace`,
      '✨  Number of stacks with differences: 1',
    ]);
  });

  test('direct-resend keeps the queues of delayed-resend', () => {
    const [, ...lines] = diff('strategy=direct-resend');
    assert.deepEqual(lines, ['✨  Number of stacks with differences: 1']);
  });

  test('long delays change no queue', () => {
    const [, ...lines] = diff('longDelays=true');
    assert.deepEqual(lines, ['✨  Number of stacks with differences: 1']);
  });
});
