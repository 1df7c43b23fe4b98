
import { App, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { Redeliver, type RedeliverProps, RetryPolicy, SourceQueue, Target } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { RedeliverStack } from '../lib/stack';
import { cdkJson } from './fakes';
import { resources } from './stack-exact';
import { fakeBundles, HTTP, temporaryDirectory } from './stack-support';

const bundles = fakeBundles();

/** Returns the error that a user sees: our sentences, or any other error; `(accepted)` if there is none. */
function collectProblems(make: () => unknown): string[] {
  try {
    make();
    return ['(accepted)'];
  } catch (error) {
    return error instanceof RedeliverPropsError ? error.message.split('\n') : [`(not a sentence of ours) ${String(error)}`];
  }
}

function collectConstructProblems(props: Partial<RedeliverProps>, env?: { account: string; region: string }): string[] {
  return collectProblems(() => {
    const stack = new Stack(new App({ context: cdkJson().context }), 'Test', env === undefined ? {} : { env });
    return new Redeliver(stack, 'Retries', { ...HTTP, bundles, ...props });
  });
}

function createAppStack(context: Record<string, string>, directory = '.'): RedeliverStack {
  const given = { ...cdkJson().context, bundles, target: 'https://orders.example.com/', ...context };
  return new RedeliverStack(new App({ context: given }), directory);
}

/** Asserts that there is one sentence, which starts with the name of the prop. */
function assertOneSentence(name: string, sentences: string[]): void {
  assert.deepEqual(
    [sentences.length, sentences.every((sentence) => sentence.startsWith(name) && sentence.endsWith('.'))],
    [1, true],
    sentences.join('\n'),
  );
}

describe('values that the functions refuse at startup are refused at synth', () => {
  for (const host of ['127.example.com', '127.0.0.1.nip.io']) {
    test(`http:// to ${host}, which is not this machine`, () => {
      assert.deepEqual(collectConstructProblems({ target: Target.http(`http://${host}/`) }), [
        'target.url is http://, which is not encrypted; use https://, or set target.allowHttp: true.',
      ]);
    });
  }

  test('a URL with a fragment', () => {
    assertOneSentence('target.url ', collectConstructProblems({ target: Target.http('https://orders.example.com/#hook') }));
  });

  test("a Lambda function's ARN without an account of twelve digits", () => {
    assertOneSentence('target ', collectProblems(() => createAppStack({ target: 'arn:aws:lambda:eu-west-1:1234:function:orders' })));
  });

  test('a policy file that contains null, which is not the default policy', () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, 'policy.json'), 'null');
    assertOneSentence('policy', collectProblems(() => createAppStack({ policy: 'policy.json' }, directory)));
  });
});

describe('an invalid value is reported in one sentence with the remedy', () => {
  const half = Duration.millis(90_500);
  const durations: [string, Partial<RedeliverProps>][] = [
    ['timeout', { timeout: half }],
    ['target.timeout', { target: Target.http('https://orders.example.com/', { timeout: half }), timeout: Duration.minutes(2) }],
    ['sourceVisibilityTimeout', { sourceVisibilityTimeout: Duration.millis(400_500) }],
    ['sourceRetention', { sourceRetention: Duration.millis(90_000_500) }],
  ];
  for (const [name, props] of durations) {
    test(`${name} with a fraction of a second`, () => assertOneSentence(`${name} `, collectConstructProblems(props)));
  }

  const outside: [string, Partial<RedeliverProps>][] = [
    ['timeout', { timeout: Duration.seconds(0) }],
    ['target.timeout', { target: Target.http('https://orders.example.com/', { timeout: Duration.seconds(901) }) }],
    ['sourceRetention', { sourceRetention: Duration.seconds(59) }],
    ['policy/max_attempts', { policy: RetryPolicy.fromJson({ max_attempts: NaN }) }],
  ];
  for (const [name, props] of outside) {
    test(`${name} out of its range, without errors that only follow from it`, () => assertOneSentence(`${name} `, collectConstructProblems(props)));
  }

  const arns: [string, string][] = [
    ['headersSecretArn', 'orders-headers'],
    ['headersSecretArn', 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:headers'],
    ['alarmTopicArn', 'alarms'],
    ['alarmTopicArn', 'arn:aws:sqs:eu-west-1:111122223333:orders'],
  ];
  for (const [name, value] of arns) {
    test(`--context ${name}=${value}`, () => assertOneSentence(`${name} `, collectProblems(() => createAppStack({ [name]: value }))));
  }

  const elsewhere: [string, string][] = [
    ['region', 'arn:aws:sqs:us-east-1:111122223333:orders'],
    ['account', 'arn:aws:sqs:eu-west-1:444455556666:orders'],
  ];
  for (const [what, queueArn] of elsewhere) {
    test(`an existing queue of another ${what}, if the stack's is known`, () => {
      const env = { account: '111122223333', region: 'eu-west-1' };
      assertOneSentence('existingSourceQueue.queueArn ', collectConstructProblems({ existingSourceQueue: SourceQueue.fromArn(queueArn) }, env));
    });
  }
});

describe("an empty context value counts as absent, also for the stack's name", () => {
  for (const name of ['prefix', 'stage']) {
    test(name, () => {
      const stack = createAppStack({ [name]: '' });
      const [queue] = Object.values(resources(Template.fromStack(stack), 'AWS::SQS::Queue')).map(({ Properties }) => Properties['QueueName']);
      assert.deepEqual([stack.stackName, queue.startsWith('redeliver-prod-')], ['redeliver-prod', true]);
    });
  }
});
