import { Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AsyncRetry, Redeliver, Strategy } from '../lib/index';
import { plain } from './stack-exact';
import { fakeBundles, HTTP, stackWith } from './stack-support';
import { userFunction } from './stack-variants';

function outputs(stack: Stack): Record<string, unknown> {
  const found = Object.entries(Template.fromStack(stack).findOutputs('*'));
  return Object.fromEntries(found.map(([name, { Value }]) => [name, plain(Value)]));
}

describe('`redeliver --stack` finds a construct in an app of a user', () => {
  test('that adds its outputs', () => {
    const { stack, redeliver } = stackWith(() => HTTP);
    redeliver.addOutputs();
    assert.deepEqual(outputs(stack), {
      SourceQueueUrl: '{SourceQueue}',
      IntermediateDlqUrl: '{IntermediateDlq}',
      AnnotationQueueUrl: '{AnnotationQueue}',
      FinalDlqUrl: '{FinalDlq}',
    });
  });

  test('without a queue that there is not', () => {
    const { stack, redeliver } = stackWith(() => ({ ...HTTP, strategy: Strategy.VISIBILITY }));
    redeliver.addOutputs();
    assert.deepEqual(Object.keys(outputs(stack)), ['SourceQueueUrl', 'AnnotationQueueUrl', 'FinalDlqUrl']);
  });

  test('of functions that are invoked asynchronously', () => {
    const stack = new Stack();
    new AsyncRetry(stack, 'Retries', { functions: [userFunction(stack, 'Report')], bundles: fakeBundles() }).addOutputs();
    assert.equal(outputs(stack)['SourceQueueUrl'], '{RetryQueue}');
  });

  test('once in a stack', () => {
    const { stack, redeliver } = stackWith(() => HTTP);
    redeliver.addOutputs();
    const second = new Redeliver(stack, 'Second', { ...HTTP, bundles: fakeBundles(), stage: 'test' });
    assert.throws(() => second.addOutputs(), {
      name: 'RedeliverPropsError',
      message:
        'addOutputs of Test/Second: the stack already has the output SourceQueueUrl (Test/Retries/SourceQueueUrl); call it once per stack, and find ' +
        'the other queues with --prefix and --stage.',
    });
  });
});
