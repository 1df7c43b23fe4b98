import { App, Duration, Lazy, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import assert from 'node:assert/strict';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { Envelope, LogDetail, LogLevel, Redeliver, type RedeliverProps, RetryPolicy, SourceQueue, Strategy, Target } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { cdkJson } from './fakes';
import { grants, plain, resources } from './stack-exact';
import { fakeBundles } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();
const SCHEMA = join(__dirname, '../../schemas/message.schema.json');
const IN_TIME: Partial<lambda.FunctionProps> = { timeout: Duration.seconds(60) };

type Props = Omit<Partial<RedeliverProps>, 'target'> & { readonly handlerConcurrency?: number };
type Given = (stack: Stack) => { readonly function: lambda.IFunction } & Props;

/** A stack with a function of the user's own in the message-processor's place. */
function made(given: Given): { stack: Stack; redeliver: Redeliver; template: Template } {
  const stack = new Stack(new App({ context: cdkJson().context }), 'Test');
  const redeliver = redeliverOf(stack, 'Retries', given);
  return { stack, redeliver, template: Template.fromStack(stack) };
}

function redeliverOf(stack: Stack, id: string, given: Given): Redeliver {
  const { function: own, handlerConcurrency, ...props } = given(stack);
  const target = Target.ownFunction(own, { ...(handlerConcurrency !== undefined && { handlerConcurrency }) });
  return new Redeliver(stack, id, { bundles, target, ...props });
}

function refused(given: Given): string[] {
  try {
    made(given);
    return [];
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n');
  }
}

/** A function that is right except for this, and these props beside it. */
function own(function_: Partial<lambda.FunctionProps>, props: Props = {}): Given {
  return (stack) => ({ function: userFunction(stack, 'Own', { ...IN_TIME, ...function_ }), ...props });
}

const usual = made(own({}));

describe("a function of a user's own in the message-processor's place", () => {
  test('takes it: there is no other', () => {
    const functions = Object.keys(resources(usual.template, 'AWS::Lambda::Function')).sort();
    assert.deepEqual(functions, ['FailedMessageProcessor', 'FinalDlqAnnotator', 'Own']);
    assert.equal(usual.redeliver.messageProcessor.node.path, 'Test/Own');
  });

  test('reads the source queue as ours would', () => {
    const mapping = (template: Template) =>
      Object.values(resources(template, 'AWS::Lambda::EventSourceMapping')).map(({ Properties }) => plain(Properties)).find(({ FunctionName }) => FunctionName === '{Own}');
    const common = { EventSourceArn: '{SourceQueue.Arn}', FunctionName: '{Own}', FunctionResponseTypes: ['ReportBatchItemFailures'] };
    assert.deepEqual(mapping(usual.template), { ...common, BatchSize: 10, ScalingConfig: { MaximumConcurrency: 10 } });
    const other = made(own({}, { batchSize: 5, maxConcurrency: 3, maxBatchingWindow: Duration.seconds(20) }));
    assert.deepEqual(mapping(other.template), { ...common, BatchSize: 5, MaximumBatchingWindowInSeconds: 20, ScalingConfig: { MaximumConcurrency: 3 } });
  });

  test('the source queue hides a message for six times its timeout', () => {
    const seconds = ({ template }: { template: Template }) => resources(template, 'AWS::SQS::Queue')['SourceQueue']?.Properties['VisibilityTimeout'];
    assert.deepEqual([usual, made(own({ timeout: Duration.minutes(5) }))].map(seconds), [360, 1800]);
  });

  test('may hand off and nothing else', () => {
    const take = ['ChangeMessageVisibility', 'DeleteMessage', 'GetQueueAttributes', 'GetQueueUrl', 'ReceiveMessage'];
    const rights = [...take.map((action) => `Allow sqs:${action} on {SourceQueue.Arn}`), 'Allow sqs:SendMessage on {IntermediateDlq.Arn}'];
    const ofUs = (all: string[]): string[] => all.filter((right) => !right.startsWith('managed'));
    assert.deepEqual(ofUs(grants(usual.template, 'OwnServiceRole')), rights);
    const encrypted = made((stack) => ({ ...own({})(stack), encryptionKey: new kms.Key(stack, 'Key') })).template;
    assert.deepEqual(
      ofUs(grants(encrypted, 'OwnServiceRole')),
      [...rights, 'Allow kms:Decrypt on {Key.Arn}', 'Allow kms:GenerateDataKey on {Key.Arn}'].sort(),
    );
  });

  test('is the only one that hands off, and does not give up', () => {
    const senders = Object.values(resources(usual.template, 'AWS::SQS::QueuePolicy'))
      .map(({ Properties }) => plain(Properties))
      .flatMap(({ Queues, PolicyDocument }) =>
        PolicyDocument.Statement.filter(({ Sid }: { Sid?: string }) => Sid === 'OnlyTheFunctionsSend').map((statement: any) => [
          Queues[0],
          [statement.Condition.ArnNotEquals['aws:PrincipalArn']].flat(),
        ]),
      );
    assert.deepEqual(Object.fromEntries(senders), {
      '{IntermediateDlq}': ['{OwnServiceRole.Arn}'],
      '{AnnotationQueue}': ['{FailedMessageProcessorRole.Arn}'],
      '{FinalDlq}': ['{FinalDlqAnnotatorRole.Arn}'],
    });
  });

  test('has its settings beside its own, and its loop is allowed', () => {
    const properties = ({ template }: { template: Template }) => plain(resources(template, 'AWS::Lambda::Function')['Own']?.Properties);
    const settings = { INTERMEDIATE_DLQ_URL: '{IntermediateDlq}', RETRY_POLICY: '{}', MAX_CONCURRENCY: '10' };
    assert.deepEqual(properties(usual).Environment.Variables, settings);
    assert.equal(properties(usual).RecursiveLoop, 'Allow');
    const all = made(
      own(
        { environment: { TABLE: 'orders' } },
        {
          handlerConcurrency: 4,
          policy: RetryPolicy.fromJson({ max_attempts: 2 }),
          envelope: Envelope.OPTIONAL,
          messageIdAttribute: 'id',
          messageIdPointer: '/detail/id',
          logDetail: LogDetail.MESSAGES,
          logLevel: LogLevel.WARN,
        },
      ),
    );
    const plainMessages = { ENVELOPE: 'optional', MESSAGE_ID_ATTRIBUTE: 'id', MESSAGE_ID_POINTER: '/detail/id' };
    assert.deepEqual(properties(all).Environment.Variables, {
      ...settings,
      ...plainMessages,
      TABLE: 'orders',
      RETRY_POLICY: '{"max_attempts":2}',
      MAX_CONCURRENCY: '4',
      LOG_DETAIL: 'messages',
      LOG_LEVEL: 'WARN',
    });
  });

  test("is watched by the alarms that ours would be, by the function's own name", () => {
    const alarms = Object.values(resources(usual.template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => plain(Properties));
    const watched = alarms
      .filter(({ Dimensions }) => Dimensions?.some(({ Value }: { Value: string }) => Value === '{Own}'))
      .map(({ AlarmName, Dimensions, MetricName }) => [AlarmName.replace('redeliver-prod-', ''), Dimensions[0].Name, MetricName]);
    assert.deepEqual(watched, [
      ['message-processor-sees-old-messages', 'Function', 'MessageAgeSeconds'],
      ['message-processor-errors', 'FunctionName', 'Errors'],
      ['message-processor-throttles', 'FunctionName', 'Throttles'],
      ['message-processor-not-confirmed', 'Function', 'NotConfirmed'],
      ['message-processor-loop-stopped', 'FunctionName', 'RecursiveInvocationsDropped'],
      ['target-down', 'Function', 'CircuitOpen'],
    ]);
  });

  test('reads an existing queue only when that has its attributes', () => {
    const existingSourceQueue = SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders');
    const { template } = made(own({}, { existingSourceQueue }));
    const waits = resources(template, 'AWS::Lambda::Function')['Own'] as unknown as { DependsOn: string[] };
    assert.ok(waits.DependsOn.some((id) => /SourceQueueAttributes.*Set/.test(id)), String(waits.DependsOn));
  });
});

describe("what a function of a user's own cannot do fails the synth with one sentence", () => {
  const arn = 'arn:aws:lambda:eu-west-1:111122223333:function:orders';
  const cases: [string, Given, string][] = [
    [
      'an imported function',
      (stack) => ({ function: lambda.Function.fromFunctionArn(stack, 'Imported', arn) }),
      'target.function (Test/Imported) is imported, so that neither its environment nor its recursiveLoop can be set; create it in this stack.',
    ],
    [
      'a function of another stack',
      (stack) => ({ function: userFunction(new Stack(stack.node.root as App, 'Other'), 'Own', IN_TIME) }),
      'target.function (Other/Own) is in another stack (Other), but its settings are changed; put Redeliver into that one.',
    ],
    [
      'an alias',
      (stack) => ({ function: userFunction(stack, 'Own', IN_TIME).addAlias('live') }),
      'target.function (Test/Own/Aliaslive) is an alias or a version, whose environment cannot be set; give the function itself.',
    ],
    [
      'a function whose loop is to be stopped',
      own({ recursiveLoop: lambda.RecursiveLoop.TERMINATE }),
      'target.function (Test/Own) sets recursiveLoop to Terminate, with which Lambda drops its retries after some 16; remove it.',
    ],
    [
      'ten seconds',
      own({ timeout: Duration.seconds(10) }),
      "target.function's timeout is 10 s; use 11 s to 900 s, in whole seconds: the last five are kept free for hand-offs. Lambda's default is 3 s.",
    ],
    [
      "Lambda's own timeout",
      (stack) => ({ function: userFunction(stack, 'Own') }),
      "target.function's timeout is 3 s; use 11 s to 900 s, in whole seconds: the last five are kept free for hand-offs. Lambda's default is 3 s.",
    ],
    [
      'a timeout that nobody knows',
      (stack) => {
        const function_ = userFunction(stack, 'Own', IN_TIME);
        (function_.node.defaultChild as lambda.CfnFunction).timeout = Lazy.number({ produce: () => 60 });
        return { function: function_ };
      },
      'target.function (Test/Own) has a timeout that only the deployment knows, so that nothing can be checked against it; give it a number.',
    ],
    [
      'a visibility timeout that lets a message out while it is worked on',
      own({}, { sourceVisibilityTimeout: Duration.seconds(300) }),
      "sourceVisibilityTimeout is 300 s; use at least 6 × target.function's timeout = 360 s, and at most 43200 s (12 hours).",
    ],
    [
      'direct re-sends',
      own({}, { strategy: Strategy.DIRECT_RESEND }),
      'strategy is direct-resend, but target.function only hands off what failed; use delayed-resend, or another kind of target.',
    ],
    [
      'the strategy visibility',
      own({}, { strategy: Strategy.VISIBILITY }),
      'strategy is visibility, but target.function only hands off what failed; use delayed-resend, or another kind of target.',
    ],
    ['no call at a time', own({}, { handlerConcurrency: 0 }), "target.handlerConcurrency is 0; use a whole number from 1 to 10000 (the function's own limit)."],
    [
      'less concurrency than it is called with',
      own({ reservedConcurrentExecutions: 5 }),
      "target.function's reservedConcurrentExecutions is 5; use a whole number of at least maxConcurrency = 10: Lambda would refuse the other " +
        'invocations, and each refused message spends one of maxRedrives.',
    ],
    [
      'settings of its own',
      own({ environment: { ENVELOPE: 'optional', RETRY_POLICY: '{}', TABLE: 'orders', LOG_LEVEL: 'DEBUG' } }),
      'target.function (Test/Own) has ENVELOPE, RETRY_POLICY in its environment already; remove it there: Redeliver sets it, for one source queue alone.',
    ],
    [
      'a log level of its own, and another one here',
      own({ environment: { LOG_LEVEL: 'DEBUG' } }, { logLevel: LogLevel.WARN }),
      'target.function (Test/Own) has LOG_LEVEL in its environment already; remove it there: Redeliver sets it, for one source queue alone.',
    ],
    [
      'more variables than Lambda takes',
      own({ environment: { TABLE: 'x'.repeat(4050) } }),
      'the environment variables of target.function (Test/Own) have 4131 bytes or more as JSON, and Lambda takes 4096; shorten TABLE, which has 4052.',
    ],
  ];
  for (const [name, given, sentence] of cases) {
    test(name, () => assert.deepEqual(refused(given), [sentence]));
  }

  const ofOurs: [string, Props, string][] = [
    ['timeout', { timeout: Duration.seconds(5) }, 'set timeout on the function'],
    ['reservedConcurrency', { reservedConcurrency: 5 }, 'set reservedConcurrentExecutions on the function'],
    ['maxConcurrentCalls', { maxConcurrentCalls: 0 }, 'use target.handlerConcurrency'],
    ['dataSchema', { dataSchema: SCHEMA }, 'check data in your handler, with a permanent error for what is wrong'],
    ['bodySchema', { bodySchema: SCHEMA, envelope: Envelope.OPTIONAL }, 'check the body in your handler, with a permanent error for what is wrong'],
  ];
  for (const [name, props, instead] of ofOurs) {
    test(`${name}, which our own has`, () =>
      assert.deepEqual(refused(own({}, props)), [`${name} is for redeliver's own message-processor, and target.function takes its place; remove it, and ${instead}.`]));
  }

  test('one function for two source queues', () => {
    const { stack, redeliver } = made(own({}));
    assert.throws(() => redeliverOf(stack, 'Second', () => ({ function: redeliver.messageProcessor, stage: 'second' })), {
      name: 'RedeliverPropsError',
      message:
        'target.function (Test/Own) has INTERMEDIATE_DLQ_URL, RETRY_POLICY, MAX_CONCURRENCY in its environment already; remove it there: ' +
        'Redeliver sets it, for one source queue alone.',
    });
  });

  test('a log level of its own is its own business', () => assert.deepEqual(refused(own({ environment: { LOG_LEVEL: 'DEBUG' } })), []));
});
