import { Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AsyncRetry, Redeliver, SourceQueue, Strategy, Target } from '../lib/index';
import { makeReadable } from './stack-exact';
import { fakeBundles, HTTP, stackWith } from './stack-support';
import { userFunction } from './stack-variants';

function outputs(stack: Stack): Record<string, unknown> {
  const found = Object.entries(Template.fromStack(stack).findOutputs('*'));
  return Object.fromEntries(found.map(([name, { Value }]) => [name, makeReadable(Value)]));
}

describe("`redeliver --stack` finds a construct in a user's app", () => {
  test('by its outputs', () => {
    const { stack, redeliver } = stackWith(() => HTTP);
    redeliver.addOutputs();
    assert.deepEqual(outputs(stack), {
      SourceQueueUrl: '{SourceQueue}',
      IntermediateDlqUrl: '{IntermediateDlq}',
      AnnotationQueueUrl: '{AnnotationQueue}',
      FinalDlqUrl: '{FinalDlq}',
      MessageProcessorRoleArn: '{MessageProcessorRole.Arn}',
      FailedMessageProcessorRoleArn: '{FailedMessageProcessorRole.Arn}',
      FinalDlqAnnotatorRoleArn: '{FinalDlqAnnotatorRole.Arn}',
    });
  });

  test('without outputs for absent queues', () => {
    const { stack, redeliver } = stackWith(() => ({ ...HTTP, strategy: Strategy.VISIBILITY }));
    redeliver.addOutputs();
    const roles = ['MessageProcessorRoleArn', 'FinalDlqAnnotatorRoleArn'];
    assert.deepEqual(Object.keys(outputs(stack)), ['SourceQueueUrl', 'AnnotationQueueUrl', 'FinalDlqUrl', ...roles]);
  });

  test("with the role of the existing queue's setter, but not of the user's own function", () => {
    const { stack, redeliver } = stackWith((stack) => ({
      target: Target.ownFunction(userFunction(stack, 'Own', { timeout: Duration.seconds(30), architecture: lambda.Architecture.ARM_64 })),
      existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders'),
    }));
    redeliver.addOutputs();
    assert.deepEqual(Object.keys(outputs(stack)).filter((name) => name.endsWith('RoleArn')), [
      'FailedMessageProcessorRoleArn', 'FinalDlqAnnotatorRoleArn', 'SourceQueueSetterRoleArn',
    ]);
  });

  test('for asynchronously invoked functions', () => {
    const stack = new Stack();
    new AsyncRetry(stack, 'Retries', { functions: [userFunction(stack, 'Report')], bundles: fakeBundles() }).addOutputs();
    const { SourceQueueUrl, AsyncRetryHandlerRoleArn, FinalDlqAnnotatorRoleArn } = outputs(stack);
    assert.equal(SourceQueueUrl, '{RetryQueue}');
    assert.deepEqual([AsyncRetryHandlerRoleArn, FinalDlqAnnotatorRoleArn], ['{AsyncRetryHandlerRole.Arn}', '{FinalDlqAnnotatorRole.Arn}']);
  });

  test('only once per stack', () => {
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
