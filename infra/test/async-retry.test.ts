import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { Construct } from 'constructs';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AsyncRetry, type AsyncRetryProps, LogDetail, LogLevel, Redeliver, RetryPolicy } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { cdkJson } from './fakes';
import { ALLOWED_LOOP, grants, makeReadable, referencesOf, resources } from './stack-exact';
import { fakeBundles, HTTP, temporaryDirectory } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();

interface CreatedStack {
  readonly stack: Stack;
  readonly retries: AsyncRetry;
}

/** Creates a stack with two user functions and their retries. */
function createStack(props: (stack: Stack) => Partial<AsyncRetryProps> = () => ({})): CreatedStack {
  const stack = new Stack(new App({ context: cdkJson().context }), 'Test');
  const functions = [userFunction(stack, 'Report'), userFunction(stack, 'Invoice')];
  return { stack, retries: new AsyncRetry(stack, 'Retries', { functions, bundles, ...props(stack) }) };
}

function collectProblems(props: (stack: Stack) => Partial<AsyncRetryProps>): string[] {
  try {
    createStack(props);
    return [];
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n');
  }
}

const template = Template.fromStack(createStack().stack);

describe('retries of asynchronous invocations', () => {
  test('failed invocations go to the retry queue, and unhandled messages to the annotation queue', () => {
    const queues = Object.entries(resources(template, 'AWS::SQS::Queue')).map(([id, { Properties, DeletionPolicy }]) => [
      id,
      {
        name: Properties['QueueName'],
        redrive: makeReadable(Properties['RedrivePolicy']),
        allow: makeReadable(Properties['RedriveAllowPolicy']),
        times: [Properties['MessageRetentionPeriod'], Properties['VisibilityTimeout']],
        DeletionPolicy,
      },
    ]);
    const common = { times: [1_209_600, 180], DeletionPolicy: 'RetainExceptOnCreate' };
    const from = (queue: string): unknown => ({
      redrivePermission: 'byQueue',
      sourceQueueArns: [`arn:{AWS::Partition}:sqs:{AWS::Region}:{AWS::AccountId}:redeliver-async-prod-${queue}`],
    });
    assert.deepEqual(Object.fromEntries(queues), {
      RetryQueue: {
        ...common,
        name: 'redeliver-async-prod-retry',
        redrive: { deadLetterTargetArn: '{AnnotationQueue.Arn}', maxReceiveCount: 100 },
        allow: { redrivePermission: 'denyAll' },
      },
      AnnotationQueue: {
        ...common,
        name: 'redeliver-async-prod-annotation',
        redrive: { deadLetterTargetArn: '{FinalDlq.Arn}', maxReceiveCount: 110 },
        allow: from('retry'),
      },
      FinalDlq: { ...common, name: 'redeliver-async-prod-final-dlq', redrive: undefined, allow: from('annotation') },
    });
  });

  test("the user's functions have no retries of their own and allow recursive loops", () => {
    const configs = Object.values(resources(template, 'AWS::Lambda::EventInvokeConfig')).map(({ Properties }) => makeReadable(Properties));
    assert.deepEqual(
      configs,
      ['Report', 'Invoice'].map((id) => ({
        DestinationConfig: { OnFailure: { Destination: '{RetryQueue.Arn}' } },
        FunctionName: `{${id}}`,
        MaximumRetryAttempts: 0,
        Qualifier: '$LATEST',
      })),
    );
    const functions = resources(template, 'AWS::Lambda::Function');
    assert.deepEqual(Object.keys(functions).sort(), ['AsyncRetryHandler', 'FinalDlqAnnotator', 'Invoice', 'Report']);
    for (const [id, { Properties }] of Object.entries(functions)) {
      assert.deepEqual(makeReadable(Properties['RecursiveLoop']), ALLOWED_LOOP, id);
    }
  });

  test('the handler has the settings that it reads', () => {
    const variables = (of: Template): unknown => makeReadable(resources(of, 'AWS::Lambda::Function')['AsyncRetryHandler']?.Properties['Environment'].Variables);
    const common = { RETRY_QUEUE_URL: '{RetryQueue}', ANNOTATION_QUEUE_URL: '{AnnotationQueue}', FUNCTION_ARNS: '{Report.Arn},{Invoice.Arn}' };
    assert.deepEqual(variables(template), common);
    const policy = { max_attempts: 3, long_delays: true };
    assert.deepEqual(variables(Template.fromStack(createStack(() => ({ policy: RetryPolicy.fromJson(policy) })).stack)), { ...common, RETRY_POLICY: JSON.stringify(policy) });
    const logged = { LOG_DETAIL: 'messages', LOG_LEVEL: 'WARN' };
    assert.deepEqual(variables(Template.fromStack(createStack(() => ({ logDetail: LogDetail.MESSAGES, logLevel: LogLevel.WARN })).stack)), { ...common, ...logged });
    const { AsyncRetryHandler } = resources(template, 'AWS::Lambda::Function');
    const { FunctionName, Timeout, Runtime, MemorySize } = AsyncRetryHandler?.Properties ?? {};
    assert.deepEqual([FunctionName, Timeout, Runtime, MemorySize], ['redeliver-async-prod-async-retry-handler', 30, 'provided.al2023', 256]);
  });

  test('roles have exactly these permissions', () => {
    const take = (queue: string): string[] =>
      ['ChangeMessageVisibility', 'DeleteMessage', 'GetQueueAttributes', 'GetQueueUrl', 'ReceiveMessage'].map((action) => `Allow sqs:${action} on ${queue}`);
    const own = (id: string): string[] => [
      `Allow logs:CreateLogStream on {${id}Logs.Arn}`,
      `Allow logs:PutLogEvents on {${id}Logs.Arn}`,
      'Allow xray:PutTelemetryRecords on *',
      'Allow xray:PutTraceSegments on *',
    ];
    const basic = 'managed {"Fn::Join":["",["arn:",{"Ref":"AWS::Partition"},":iam::aws:policy/service-role/AWSLambdaBasicExecutionRole"]]}';
    const expected: Record<string, string[]> = {
      AsyncRetryHandlerRole: [
        ...own('AsyncRetryHandler'),
        ...take('{RetryQueue.Arn}'),
        'Allow sqs:SendMessage on {RetryQueue.Arn}',
        'Allow sqs:SendMessage on {AnnotationQueue.Arn}',
        ...['Report', 'Invoice'].flatMap((id) => ['', ':$LATEST'].map((qualifier) => `Allow lambda:InvokeFunction on {${id}.Arn}${qualifier}`)),
      ],
      FinalDlqAnnotatorRole: [...own('FinalDlqAnnotator'), ...take('{AnnotationQueue.Arn}'), 'Allow sqs:SendMessage on {FinalDlq.Arn}'],
      ReportServiceRole: [basic, 'Allow sqs:SendMessage on {RetryQueue.Arn}'],
      InvoiceServiceRole: [basic, 'Allow sqs:SendMessage on {RetryQueue.Arn}'],
    };
    const key = ['Allow kms:Decrypt on {Key.Arn}', 'Allow kms:GenerateDataKey on {Key.Arn}'];
    const keyed = Template.fromStack(createStack((stack) => ({ encryptionKey: new kms.Key(stack, 'Key') })).stack);
    assert.deepEqual(Object.keys(resources(template, 'AWS::IAM::Role')).sort(), Object.keys(expected).sort());
    for (const [role, permissions] of Object.entries(expected)) {
      assert.deepEqual(grants(template, role), [...permissions].sort(), role);
      assert.deepEqual(grants(keyed, role), [...permissions, ...key].sort(), `${role} with a key`);
    }
  });

  test('only the functions can send to the queues', () => {
    const policies = Object.values(resources(template, 'AWS::SQS::QueuePolicy')).map(({ Properties }) => makeReadable(Properties));
    const actual = policies.map(({ Queues, PolicyDocument }) => {
      const [tls, denial] = PolicyDocument.Statement;
      assert.deepEqual([tls.Effect, tls.Condition], ['Deny', { Bool: { 'aws:SecureTransport': 'false' } }]);
      assert.deepEqual([PolicyDocument.Statement.length, denial.Effect, denial.Action, denial.Principal], [2, 'Deny', 'sqs:SendMessage', { AWS: '*' }]);
      return [Queues[0], denial.Condition.ArnNotEquals['aws:PrincipalArn']];
    });
    assert.deepEqual(Object.fromEntries(actual), {
      // Lambda sends a destination record with the failed function's role.
      '{RetryQueue}': ['{AsyncRetryHandlerRole.Arn}', '{ReportServiceRole.Arn}', '{InvoiceServiceRole.Arn}'],
      '{AnnotationQueue}': ['{AsyncRetryHandlerRole.Arn}'],
      '{FinalDlq}': ['{FinalDlqAnnotatorRole.Arn}'],
    });
  });

  test('alarms cover messages that would be lost or stuck', () => {
    const alarms = Object.values(resources(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => [
      Properties['AlarmName'].replace('redeliver-async-prod-', ''),
      Properties['MetricName'],
      makeReadable(Properties['Dimensions'][0].Value),
      Properties['Threshold'],
    ]);
    const ofFunction = (name: string, id: string): unknown[] => [
      [`${name}-errors`, 'Errors', id, 0],
      [`${name}-throttles`, 'Throttles', id, 0],
      [`${name}-not-confirmed`, 'NotConfirmed', id, 0],
    ];
    const expected = [
      ['final-dlq-not-empty', 'ApproximateNumberOfMessagesVisible', '{FinalDlq.QueueName}', 0],
      ['final-dlq-arrivals', 'NumberOfMessagesSent', '{FinalDlq.QueueName}', 0],
      ['final-dlq-about-to-expire', 'ApproximateAgeOfOldestMessage', '{FinalDlq.QueueName}', 967_680],
      ['retry-queue-waits-too-long', 'ApproximateAgeOfOldestMessage', '{RetryQueue.QueueName}', 3600],
      ['annotation-queue-waits-too-long', 'ApproximateAgeOfOldestMessage', '{AnnotationQueue.QueueName}', 3600],
      ...ofFunction('async-retry-handler', '{AsyncRetryHandler}'),
      ...ofFunction('final-dlq-annotator', '{FinalDlqAnnotator}'),
      ...['Report', 'Invoice'].map((id) => [`${id}-failure-not-sent`, 'DestinationDeliveryFailures', `{${id}}`, 0]),
    ];
    assert.deepEqual(alarms.sort(), expected.sort());
    const actual = Template.fromStack(createStack((stack) => ({ ticketTopic: new sns.Topic(stack, 'Topic') })).stack);
    for (const { Properties } of Object.values(resources(actual, 'AWS::CloudWatch::Alarm'))) {
      assert.deepEqual(makeReadable(Properties['AlarmActions']), ['{Topic}']);
    }
  });

  test("alarm names contain the function's path with hyphens", () => {
    const { retries } = createStack((stack) => ({ functions: [userFunction(new Construct(new Construct(stack, 'Mails'), 'Weekly'), 'Send')] }));
    const names = retries.alarms.map(({ node }) => node.id).filter((id) => id.startsWith('Alarm-Mails'));
    assert.deepEqual(names, ['Alarm-Mails-Weekly-Send-failure-not-sent']);
    const actual = Object.values(resources(Template.fromStack(Stack.of(retries)), 'AWS::CloudWatch::Alarm')).map(({ Properties }) => Properties['AlarmName']);
    assert.deepEqual(actual.filter((name) => name.includes('Mails')), ['redeliver-async-prod-Mails-Weekly-Send-failure-not-sent']);
  });

  test('each queue has one event source mapping, and no reference dangles', () => {
    const mappings = Object.values(resources(template, 'AWS::Lambda::EventSourceMapping')).map(({ Properties }) => makeReadable(Properties));
    const actual = mappings.map(({ EventSourceArn, FunctionName, BatchSize, FunctionResponseTypes }) => [EventSourceArn, FunctionName, BatchSize, FunctionResponseTypes]);
    assert.deepEqual(actual.sort(), [
      ['{AnnotationQueue.Arn}', '{FinalDlqAnnotator}', 10, ['ReportBatchItemFailures']],
      ['{RetryQueue.Arn}', '{AsyncRetryHandler}', 10, ['ReportBatchItemFailures']],
    ]);
    const { Resources, Parameters = {} } = template.toJSON();
    const known = new Set([...Object.keys(Resources), ...Object.keys(Parameters)]);
    assert.deepEqual(referencesOf(Resources).filter((id) => !known.has(id) && !id.startsWith('AWS')), []);
  });

  test('it can share a stack with an orchestrator', () => {
    const { stack } = createStack();
    new Redeliver(stack, 'Orders', { ...HTTP, bundles });
    Template.fromStack(stack).resourceCountIs('AWS::SQS::Queue', 7);
  });

  test('its resources are public members', () => {
    const { retryQueue, annotationQueue, finalDlq, asyncRetryHandler, finalDlqAnnotator, alarms } = createStack().retries;
    assert.deepEqual(
      [retryQueue, annotationQueue, finalDlq, asyncRetryHandler, finalDlqAnnotator].map(({ node }) => node.id),
      ['RetryQueue', 'AnnotationQueue', 'FinalDlq', 'AsyncRetryHandler', 'FinalDlqAnnotator'],
    );
    assert.equal(alarms.length, 13);
  });
});

describe('an unsupported configuration fails the synth with one sentence', () => {
  const arn = 'arn:aws:lambda:eu-west-1:111122223333:function:report';
  const own = (props: Partial<lambda.FunctionProps>) => (stack: Stack): Partial<AsyncRetryProps> => ({ functions: [userFunction(stack, 'Own', props)] });
  const cases: [string, (stack: Stack) => Partial<AsyncRetryProps>, string][] = [
    ['no function', () => ({ functions: [] }), 'functions is empty; list the functions whose failed asynchronous invocations are retried.'],
    [
      'an imported function',
      (stack) => ({ functions: [lambda.Function.fromFunctionArn(stack, 'Imported', arn)] }),
      'functions[0] (Test/Imported) is imported, so neither its recursiveLoop nor its on-failure destination can be set; create it in this stack.',
    ],
    [
      'a function of another stack',
      (stack) => ({ functions: [userFunction(new Stack(stack.node.root as App, 'Other'), 'Report')] }),
      'functions[0] (Other/Report) is in another stack (Other), but AsyncRetry changes its settings; create AsyncRetry in that stack.',
    ],
    [
      'an alias',
      (stack) => ({ functions: [userFunction(stack, 'Own').addAlias('live')] }),
      'functions[0] (Test/Own/Aliaslive) is an alias or a version, which has settings of its own for asynchronous invocations; give the function itself.',
    ],
    [
      'a function with retries of its own',
      own({ retryAttempts: 1 }),
      'functions[0] (Test/Own) has onFailure, onSuccess, retryAttempts or maxEventAge already; remove them: AsyncRetry sets the first and the third.',
    ],
    [
      'a function with a dead-letter queue',
      (stack) => own({ deadLetterQueue: new sqs.Queue(stack, 'Dead') })(stack),
      'functions[0] (Test/Own) has a dead-letter queue, which would get every failed attempt; remove it: invocations that are given up go to the final DLQ.',
    ],
    [
      'a function whose loop is to be stopped',
      own({ recursiveLoop: lambda.RecursiveLoop.TERMINATE }),
      'functions[0] (Test/Own) sets recursiveLoop to Terminate, so Lambda would drop its retries after about 16; remove it.',
    ],
    [
      'one function twice',
      (stack) => {
        const one = userFunction(stack, 'Own');
        return { functions: [one, one] };
      },
      'functions[1] (Test/Own) is functions[0] again; list it once.',
    ],
    ['an invalid policy', () => ({ policy: RetryPolicy.fromJson({ max_attempts: -1 }) }), 'policy/max_attempts must be >= 0.'],
    [
      'a delay above twelve hours',
      () => ({ policy: RetryPolicy.fromJson({ backoff: { kind: 'fixed', delay_seconds: 43_201 } }) }),
      'policy/backoff/delay_seconds must be <= 43200.',
    ],
    [
      'immediate retries',
      () => ({ policy: RetryPolicy.fromJson({ immediate: { max_attempts: 1, delay_ms: 0 } }) }),
      'policy/immediate does not apply to asynchronous invocations, whose result is not awaited; remove it.',
    ],
    [
      'a circuit breaker',
      () => ({ policy: RetryPolicy.fromJson({ circuit_breaker: {} }) }),
      'policy/circuit_breaker does not apply to asynchronous invocations: Lambda makes the first call itself; remove it.',
    ],
    ['redrives', () => ({ policy: RetryPolicy.fromJson({ max_redrives: 20 }) }), 'policy/max_redrives only applies to the strategies delayed-resend and direct-resend: remove it.'],
    [
      'blocked groups',
      () => ({ policy: RetryPolicy.fromJson({ on_give_up: 'block' }) }),
      'policy/on_give_up is block, which only the strategy ordered supports; remove it.',
    ],
    [
      'short delays without a backoff of its own',
      () => ({ policy: RetryPolicy.fromJson({ long_delays: false, max_attempts: 3 }) }),
      "policy/long_delays is false, but AsyncRetry's default delays reach 12 hours; also set a backoff or a preset.",
    ],
    [
      'more than the environment holds',
      (stack) => ({ functions: Array.from({ length: 29 }, (_, n) => userFunction(stack, `Own${n}`)), policy: RetryPolicy.fromJson({}) }),
      "policy and functions may take 4112 bytes of the function's environment, which holds 4096; shorten the policy's lists, or split the functions between two AsyncRetry constructs.",
    ],
    [
      'more functions than the environment holds, without a policy',
      (stack) => ({ functions: Array.from({ length: 29 }, (_, n) => userFunction(stack, `Own${n}`)) }),
      "policy and functions may take 4112 bytes of the function's environment, which holds 4096; shorten the policy's lists, or split the functions between two AsyncRetry constructs.",
    ],
    [
      'long delays where long_delays is false',
      () => ({ policy: RetryPolicy.fromJson({ long_delays: false, backoff: { kind: 'fixed', delay_seconds: 901 } }) }),
      'policy/backoff/delay_seconds is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true.',
    ],
    [
      'a function in tenant isolation mode',
      own({ tenancyConfig: lambda.TenancyConfig.PER_TENANT }),
      'functions[0] (Test/Own) is in tenant isolation mode, in which Lambda refuses retries: its record of a failed invocation has no tenant id; remove it from functions.',
    ],
    [
      'a name for nothing',
      () => ({ prefix: 'my_reports' }),
      'prefix and stage make the name "my_reports-prod", which must start with a letter and be at most 39 letters, digits and hyphens; shorten or change them.',
    ],
  ];
  for (const [name, props, sentence] of cases) {
    test(name, () => assert.deepEqual(collectProblems(props), [sentence]));
  }

  test('a function that already allows recursive loops is accepted', () => assert.deepEqual(collectProblems(own({ recursiveLoop: lambda.RecursiveLoop.ALLOW })), []));

  test('valid props are accepted', () => {
    const right: ((stack: Stack) => Partial<AsyncRetryProps>)[] = [
      // The policy has short delays.
      () => ({ policy: RetryPolicy.fromJson({ long_delays: false, preset: 'durable_default' }) }),
      () => ({ policy: RetryPolicy.fromJson({ long_delays: false, backoff: { kind: 'fixed', delay_seconds: 900 } }) }),
      () => ({ policy: RetryPolicy.fromJson({ circuit_breaker: false }) }),
      // The handler's default policy has long delays.
      () => ({ policy: RetryPolicy.fromJson({ backoff: { kind: 'fixed', delay_seconds: 43_200 } }) }),
      (stack) => ({ functions: Array.from({ length: 28 }, (_, n) => userFunction(stack, `Own${n}`)) }),
    ];
    for (const props of right) {
      assert.deepEqual(collectProblems(props), [], String(props));
    }
  });

  test('a missing bundle is reported by name', () => {
    const empty = temporaryDirectory();
    assert.deepEqual(collectProblems(() => ({ bundles: empty })), [`${empty}/async-retry-handler/bootstrap is missing; build it with \`cargo xtask bundle\`.`]);
  });
});
