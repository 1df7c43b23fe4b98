import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { fakeBundles, temporaryDirectory } from './stack-support';

const DEPLOYED = join(__dirname, 'snapshot/redeliver.template.json');

/** The diff that the pinned CDK prints between a stack with the defaults and one with these props. */
function diff(...context: string[]): string[] {
  const given = ['target=https://orders.example.com/hook', `bundles=${fakeBundles()}`, ...context].flatMap((value) => ['--context', value]);
  const told = spawnSync(
    'node',
    ['node_modules/aws-cdk/bin/cdk', 'diff', '--template', DEPLOYED, '--output', temporaryDirectory(), '--fail=false', '--ci=false', '--no-color', ...given],
    { cwd: join(__dirname, '..'), env: { ...process.env, CDK_DISABLE_VERSION_CHECK: 'true' }, encoding: 'utf8' },
  );
  assert.equal(told.status, 0, told.stderr);
  // The snapshot has no paths, which also counts as a change.
  return told.stderr.split('\n').filter((line) => /^Stack |^\[-\] AWS::SQS::Queue |^\[~\] AWS::SQS::Queue .* replace$| Number of stacks/.test(line));
}

describe('`cargo xtask cdk deploy` finds queues that would go by these words of `cdk diff` (xtask/src/stack/left_behind.rs)', () => {
  const ids = {
    FinalDlq: 'RedeliverFinalDlq5A80AE7B',
    AnnotationQueue: 'RedeliverAnnotationQueueCC57CBF7',
    IntermediateDlq: 'RedeliverIntermediateDlqBAA24CD0',
    SourceQueue: 'RedeliverSourceQueue377AD49C',
  };
  test('another name replaces a queue', () => {
    const [stack, ...told] = diff('prefix=other');
    assert.match(stack ?? '', /^Stack Redeliver \(other-prod\)/);
    const replaced = Object.entries(ids).map(([queue, id]) => `[~] AWS::SQS::Queue Redeliver/${queue} ${id} replace`);
    assert.deepEqual(told, [...replaced, '✨  Number of stacks with differences: 1']);
  });

  test('another strategy removes one', () => {
    const [, ...told] = diff('strategy=visibility');
    assert.deepEqual(told, [`[-] AWS::SQS::Queue ${ids.IntermediateDlq} orphan`, '✨  Number of stacks with differences: 1']);
  });

  test('a FIFO queue replaces the source queue, which SQS cannot turn into one', () => {
    const [, ...told] = diff('strategy=ordered');
    assert.deepEqual(told.sort(), [
      `[-] AWS::SQS::Queue ${ids.IntermediateDlq} orphan`,
      `[~] AWS::SQS::Queue Redeliver/SourceQueue ${ids.SourceQueue} replace`,
      '✨  Number of stacks with differences: 1',
    ]);
  });

  test('direct re-sends have the queues of delayed ones', () => {
    const [, ...told] = diff('strategy=direct-resend');
    assert.deepEqual(told, ['✨  Number of stacks with differences: 1']);
  });

  test('and longer delays do nothing to any', () => {
    const [, ...told] = diff('longDelays=true');
    assert.deepEqual(told, ['✨  Number of stacks with differences: 1']);
  });
});
