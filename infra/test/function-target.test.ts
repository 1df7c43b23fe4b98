import { Annotations as CdkAnnotations, App, Aws, CfnParameter, Duration, Lazy, Stack } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import * as ecr from 'aws-cdk-lib/aws-ecr';
import * as iam from 'aws-cdk-lib/aws-iam';
import * as kinesis from 'aws-cdk-lib/aws-kinesis';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { KinesisEventSource, SqsEventSource, type SqsEventSourceProps } from 'aws-cdk-lib/aws-lambda-event-sources';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { Envelope, HandlerEvent, LogDetail, LogLevel, Redeliver, type RedeliverProps, RetryPolicy, SourceQueue, Strategy, Target } from '../lib/index';
import type { OwnFunctionOptions } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { cdkJson } from './fakes';
import { ALLOWED_LOOP, grants, makeReadable, resources } from './stack-exact';
import { fakeBundles } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();
const SCHEMA = join(__dirname, '../../schemas/message.schema.json');
/** Returns code for a runtime that does not support inline code. */
const asset = () => ({ code: lambda.Code.fromAsset(join(__dirname, 'functions')), handler: 'orders.handler' });
const IN_TIME: Partial<lambda.FunctionProps> = { timeout: Duration.seconds(60), architecture: lambda.Architecture.ARM_64 };

type Props = Omit<Partial<RedeliverProps>, 'target'> & OwnFunctionOptions;
type MakeProps = (stack: Stack) => { readonly function: lambda.IFunction } & Props;

/** Creates a stack with the user's function as the message-processor. */
function createStack(given: MakeProps): { stack: Stack; redeliver: Redeliver; template: Template } {
  const stack = new Stack(new App({ context: cdkJson().context }), 'Test');
  const redeliver = createRedeliver(stack, 'Retries', given);
  return { stack, redeliver, template: Template.fromStack(stack) };
}

function createRedeliver(stack: Stack, id: string, given: MakeProps): Redeliver {
  const { function: own, handlerEvent, ...props } = given(stack);
  const target = Target.ownFunction(own, { ...(handlerEvent && { handlerEvent }) });
  return new Redeliver(stack, id, { bundles, target, ...props });
}

/** Returns the function's environment variables. */
function environmentOf(template: Template): Record<string, string> {
  return makeReadable(resources(template, 'AWS::Lambda::Function')['Own']?.Properties).Environment.Variables;
}

function collectProblems(given: MakeProps): string[] {
  try {
    createStack(given);
    return [];
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n');
  }
}

/** Returns a valid function with these props, and additional props for `Redeliver`. */
function validFunction(function_: Partial<lambda.FunctionProps>, props: Props = {}): MakeProps {
  return (stack) => ({ function: userFunction(stack, 'Own', { ...IN_TIME, ...function_ }), ...props });
}

/** Creates a valid function, and changes properties that the CDK's construct does not support. */
function changedFunction(stack: Stack, change: (of: { readonly resource: lambda.CfnFunction }) => unknown): { readonly function: lambda.IFunction } {
  const { function: function_ } = validFunction({})(stack);
  change({ resource: function_.node.defaultChild as lambda.CfnFunction });
  return { function: function_ };
}

const usual = createStack(validFunction({}));

describe("a user's own function as the message-processor", () => {
  test('is the only message-processor', () => {
    const functions = Object.keys(resources(usual.template, 'AWS::Lambda::Function')).sort();
    assert.deepEqual(functions, ['FailedMessageProcessor', 'FinalDlqAnnotator', 'Own']);
    assert.equal(usual.redeliver.messageProcessor.node.path, 'Test/Own');
  });

  test("reads the source queue like redeliver's message-processor", () => {
    const mapping = (template: Template) =>
      Object.values(resources(template, 'AWS::Lambda::EventSourceMapping')).map(({ Properties }) => makeReadable(Properties)).find(({ FunctionName }) => FunctionName === '{Own}');
    const common = { EventSourceArn: '{SourceQueue.Arn}', FunctionName: '{Own}', FunctionResponseTypes: ['ReportBatchItemFailures'] };
    assert.deepEqual(mapping(usual.template), { ...common, BatchSize: 10, MaximumBatchingWindowInSeconds: 1, ScalingConfig: { MaximumConcurrency: 10 } });
    const other = createStack(validFunction({}, { batchSize: 5, maxConcurrency: 3, maxBatchingWindow: Duration.seconds(20) }));
    assert.deepEqual(mapping(other.template), { ...common, BatchSize: 5, MaximumBatchingWindowInSeconds: 20, ScalingConfig: { MaximumConcurrency: 3 } });
  });

  test("the source queue's visibility timeout is six times its timeout plus the batching window", () => {
    const seconds = ({ template }: { template: Template }) => resources(template, 'AWS::SQS::Queue')['SourceQueue']?.Properties['VisibilityTimeout'];
    assert.deepEqual([usual, createStack(validFunction({ timeout: Duration.minutes(5) }))].map(seconds), [361, 1801]);
  });

  const take = ['ChangeMessageVisibility', 'DeleteMessage', 'GetQueueAttributes', 'GetQueueUrl', 'ReceiveMessage'].map(
    (action) => `Allow sqs:${action} on {SourceQueue.Arn}`,
  );
  const sends = (...queues: string[]): string[] => queues.map((queue) => `Allow sqs:SendMessage on {${queue}.Arn}`);
  const rights: [Strategy, string[], Record<string, string[]>][] = [
    [
      Strategy.DELAYED_RESEND,
      [...take, ...sends('AnnotationQueue', 'IntermediateDlq', 'SourceQueue')],
      {
        '{IntermediateDlq}': ['{OwnServiceRole.Arn}'],
        '{AnnotationQueue}': ['{OwnServiceRole.Arn}', '{FailedMessageProcessorRole.Arn}'],
        '{FinalDlq}': ['{FinalDlqAnnotatorRole.Arn}'],
      },
    ],
    [
      Strategy.DIRECT_RESEND,
      [...take, ...sends('AnnotationQueue', 'IntermediateDlq', 'SourceQueue')],
      {
        '{IntermediateDlq}': ['{OwnServiceRole.Arn}'],
        '{AnnotationQueue}': ['{OwnServiceRole.Arn}', '{FailedMessageProcessorRole.Arn}'],
        '{FinalDlq}': ['{FinalDlqAnnotatorRole.Arn}'],
      },
    ],
    [
      Strategy.VISIBILITY,
      [...take, ...sends('AnnotationQueue')],
      { '{AnnotationQueue}': ['{OwnServiceRole.Arn}'], '{FinalDlq}': ['{FinalDlqAnnotatorRole.Arn}'] },
    ],
  ];
  for (const [strategy, expected, senders] of rights) {
    test(`with ${strategy} it has exactly the permissions of that strategy's message-processor`, () => {
      const { template } = createStack(validFunction({}, { strategy }));
      assert.deepEqual(grants(template, 'OwnServiceRole').filter((right) => !right.startsWith('managed')), [...expected].sort());
      const found = Object.values(resources(template, 'AWS::SQS::QueuePolicy'))
        .map(({ Properties }) => makeReadable(Properties))
        .flatMap(({ Queues, PolicyDocument }) =>
          PolicyDocument.Statement.filter(({ Sid }: { Sid?: string }) => Sid === 'OnlyTheFunctionsSend').map((statement: any) => [
            Queues[0],
            [statement.Condition.ArnNotEquals['aws:PrincipalArn']].flat(),
          ]),
        );
      assert.deepEqual(Object.fromEntries(found), senders);
    });
  }

  test("can use the queues' key", () => {
    const encrypted = createStack((stack) => ({ ...validFunction({})(stack), encryptionKey: new kms.Key(stack, 'Key') })).template;
    const ofTheKey = grants(encrypted, 'OwnServiceRole').filter((right) => right.includes('{Key.Arn}'));
    assert.deepEqual(ofTheKey, ['Allow kms:Decrypt on {Key.Arn}', 'Allow kms:GenerateDataKey on {Key.Arn}']);
  });

  const DELAYED = {
    AWS_LAMBDA_EXEC_WRAPPER: '/opt/redeliver',
    STRATEGY: 'delayed-resend',
    ENVELOPE: 'optional',
    SOURCE_QUEUE_URL: '{SourceQueue}',
    INTERMEDIATE_DLQ_URL: '{IntermediateDlq}',
    ANNOTATION_QUEUE_URL: '{AnnotationQueue}',
    RETRY_POLICY: '{}',
    RESEND_SENDER_IDS: '{OwnServiceRole.RoleId},{FailedMessageProcessorRole.RoleId}',
  };
  const settings: [string, MakeProps, Record<string, string>][] = [
    ['alone', validFunction({}), DELAYED],
    [
      'with direct re-sends',
      validFunction({}, { strategy: Strategy.DIRECT_RESEND }),
      { ...DELAYED, STRATEGY: 'direct-resend' },
    ],
    [
      'with the strategy visibility',
      validFunction({}, { strategy: Strategy.VISIBILITY }),
      {
        AWS_LAMBDA_EXEC_WRAPPER: '/opt/redeliver',
        STRATEGY: 'visibility',
        ENVELOPE: 'optional',
        SOURCE_QUEUE_URL: '{SourceQueue}',
        VISIBILITY_TIMEOUT_SECONDS: '361',
        RETENTION_SECONDS: '604800',
        RETRY_POLICY: '{}',
        ANNOTATION_QUEUE_URL: '{AnnotationQueue}',
      },
    ],
    [
      'with all of them',
      validFunction(
        { environment: { TABLE: 'orders' } },
        {
          handlerEvent: HandlerEvent.BATCH,
          policy: RetryPolicy.fromJson({ max_attempts: 2 }),
          dataSchema: SCHEMA,
          bodySchema: SCHEMA,
          messageIdAttribute: 'id',
          messageIdPointer: '/detail/id',
          logDetail: LogDetail.MESSAGES,
          logLevel: LogLevel.WARN,
        },
      ),
      {
        ...DELAYED,
        TABLE: 'orders',
        HANDLER_EVENT: 'batch',
        RETRY_POLICY: '{"max_attempts":2}',
        DATA_SCHEMA_PATH: '/opt/data.schema.json',
        BODY_SCHEMA_PATH: '/opt/body.schema.json',
        MESSAGE_ID_ATTRIBUTE: 'id',
        MESSAGE_ID_POINTER: '/detail/id',
        LOG_DETAIL: 'messages',
        LOG_LEVEL: 'WARN',
      },
    ],
    ['with only envelopes', validFunction({}, { envelope: Envelope.REQUIRED }), { ...DELAYED, ENVELOPE: 'required' }],
    ['with one message per invocation, set explicitly', validFunction({}, { handlerEvent: HandlerEvent.RECORD }), { ...DELAYED, HANDLER_EVENT: 'record' }],
    [
      "beside another wrapper, which redeliver's program starts in turn",
      validFunction({ environment: { AWS_LAMBDA_EXEC_WRAPPER: '/opt/otel-handler' } }),
      { ...DELAYED, REDELIVER_NEXT_WRAPPER: '/opt/otel-handler' },
    ],
    [
      'beside a wrapper set by the CDK itself',
      validFunction({
        adotInstrumentation: {
          layerVersion: lambda.AdotLayerVersion.fromPythonSdkLayerVersion(lambda.AdotLambdaLayerPythonSdkVersion.LATEST),
          execWrapper: lambda.AdotLambdaExecWrapper.INSTRUMENT_HANDLER,
        },
        tracing: lambda.Tracing.ACTIVE,
      }),
      { ...DELAYED, REDELIVER_NEXT_WRAPPER: '/opt/otel-instrument' },
    ],
    ['with an empty wrapper variable', validFunction({ environment: { AWS_LAMBDA_EXEC_WRAPPER: '' } }), DELAYED],
  ];
  for (const [name, given, expected] of settings) {
    test(`keeps its own variables beside redeliver's settings, ${name}`, () => assert.deepEqual(environmentOf(createStack(given).template), expected));
  }

  test("with an imported role no function trusts a message's hold times, and the synth explains why", () => {
    const role = (stack: Stack): iam.IRole => iam.Role.fromRoleArn(stack, 'Role', 'arn:aws:iam::111122223333:role/orders');
    for (const strategy of [Strategy.DELAYED_RESEND, Strategy.DIRECT_RESEND]) {
      const { stack, template } = createStack((own_) => validFunction({ role: role(own_) }, { strategy })(own_));
      assert.ok(!JSON.stringify(template.toJSON()).includes('RESEND_SENDER_IDS'));
      assert.equal(Annotations.fromStack(stack).findInfo('*', Match.stringLikeRegexp('RESEND_SENDER_IDS is not set')).length, 1);
    }
    assert.deepEqual(Annotations.fromStack(usual.stack).findInfo('*', Match.anyValue()), []);
  });

  test('allows recursive loops', () => {
    assert.deepEqual(makeReadable(resources(usual.template, 'AWS::Lambda::Function')['Own']?.Properties)['RecursiveLoop'], ALLOWED_LOOP);
  });

  test("gets redeliver's program as a layer of its architecture, in addition to its own layers", () => {
    const fromArn = (stack: Stack) => lambda.LayerVersion.fromLayerVersionArn(stack, 'Theirs', 'arn:aws:lambda:eu-west-1:111122223333:layer:theirs:1');
    const { template } = createStack((stack) => validFunction({ layers: [fromArn(stack)] })(stack));
    const properties = makeReadable(resources(template, 'AWS::Lambda::Function')['Own']?.Properties);
    assert.deepEqual(properties['Layers'].sort(), ['arn:aws:lambda:eu-west-1:111122223333:layer:theirs:1', '{Layer}']);
    const layers = Object.values(resources(template, 'AWS::Lambda::LayerVersion')).map(({ Properties }) => Properties);
    assert.deepEqual(layers.map(({ CompatibleArchitectures, CompatibleRuntimes }) => [CompatibleArchitectures, CompatibleRuntimes]), [[['arm64'], undefined]]);
  });

  test('can have another architecture than the other functions', () => {
    const intel = fakeBundles(lambda.Architecture.X86_64);
    const { template } = createStack(validFunction({ architecture: lambda.Architecture.X86_64 }, { architecture: lambda.Architecture.X86_64, bundles: intel }));
    const [layer] = Object.values(resources(template, 'AWS::Lambda::LayerVersion'));
    assert.deepEqual(layer?.Properties['CompatibleArchitectures'], ['x86_64']);
  });

  test('the layer contains only the world-executable program and the schemas', () => {
    const app = new App({ context: cdkJson().context });
    createRedeliver(new Stack(app, 'Test'), 'Retries', validFunction({}, { dataSchema: SCHEMA, bodySchema: SCHEMA }));
    const assembly = app.synth();
    const { template } = assembly.getStackByName('Test');
    const [layer] = Object.values<any>(template.Resources).filter(({ Type }) => Type === 'AWS::Lambda::LayerVersion');
    const directory = join(assembly.directory, `asset.${layer.Properties.Content.S3Key.replace('.zip', '')}`);
    const files = readdirSync(directory).sort().map((file) => [file, (statSync(join(directory, file)).mode & 0o777).toString(8)]);
    assert.deepEqual(files, [['body.schema.json', '644'], ['data.schema.json', '644'], ['redeliver', '755']]);
    const program = readFileSync(join(directory, 'redeliver'));
    assert.deepEqual(program, readFileSync(join(bundles, 'message-processor/bootstrap')));
  });

  const runtimes = [
    lambda.Runtime.NODEJS_18_X, lambda.Runtime.NODEJS_22_X, lambda.Runtime.PYTHON_3_9, lambda.Runtime.PYTHON_3_14, lambda.Runtime.JAVA_8_CORRETTO,
    lambda.Runtime.JAVA_21, lambda.Runtime.DOTNET_8, lambda.Runtime.RUBY_3_2, new lambda.Runtime('python3.99'),
    new lambda.Runtime(Lazy.string({ produce: () => 'nodejs22.x' }), lambda.RuntimeFamily.NODEJS),
  ];
  test('can use every managed runtime', () => {
    runtimes.forEach((runtime) => assert.deepEqual(collectProblems(validFunction({ runtime, ...asset() })), [], runtime.name));
  });

  test('can have four layers and SnapStart switched off', () => {
    const layer = (stack: Stack, index: number) => lambda.LayerVersion.fromLayerVersionArn(stack, `Layer${index}`, `arn:aws:lambda:eu-west-1:111122223333:layer:l:${index}`);
    assert.deepEqual(collectProblems((stack) => validFunction({ layers: [1, 2, 3, 4].map((index) => layer(stack, index)) })(stack)), []);
    assert.deepEqual(collectProblems((stack) => changedFunction(stack, ({ resource }) => (resource.snapStart = { applyOn: 'None' }))), []);
  });

  test("keeps its versions and aliases, which have the function's layer and settings", () => {
    const { template } = createStack((stack) => {
      const { function: function_ } = validFunction({})(stack);
      void (function_ as lambda.Function).currentVersion;
      return { function: function_ };
    });
    assert.equal(Object.keys(resources(template, 'AWS::Lambda::Version')).length, 1);
    assert.equal(environmentOf(template)['AWS_LAMBDA_EXEC_WRAPPER'], '/opt/redeliver');
  });

  test("has the message-processor's alarms under its own name", () => {
    const alarms = Object.values(resources(usual.template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) => makeReadable(Properties));
    const watched = alarms
      .filter(({ Dimensions }) => Dimensions?.some(({ Value }: { Value: string }) => Value === '{Own}'))
      .map(({ AlarmName, Dimensions, MetricName }) => [AlarmName.replace('redeliver-prod-', ''), Dimensions[0].Name, MetricName]);
    assert.deepEqual(watched, [
      ['held-too-long', 'Function', 'LongestHoldSeconds'],
      ['message-processor-sees-old-messages', 'Function', 'MessageAgeSeconds'],
      ['message-processor-errors', 'FunctionName', 'Errors'],
      ['message-processor-throttles', 'FunctionName', 'Throttles'],
      ['message-processor-not-confirmed', 'Function', 'NotConfirmed'],
      ['target-down', 'Function', 'CircuitOpen'],
    ]);
  });

  test("reads an existing queue only after the queue's attributes are set", () => {
    const existingSourceQueue = SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders');
    const { template } = createStack(validFunction({}, { existingSourceQueue }));
    const waits = resources(template, 'AWS::Lambda::Function')['Own'] as unknown as { DependsOn: string[] };
    assert.ok(waits.DependsOn.some((id) => /SourceQueueAttributes.*Set/.test(id)), String(waits.DependsOn));
  });
});

describe("an unsupported function of the user fails the synth with one sentence", () => {
  const arn = 'arn:aws:lambda:eu-west-1:111122223333:function:orders';
  const tooQuiet = (level: string): string =>
    `target.function (Test/Own) has the application log level ${level}, with which Lambda drops redeliver's metrics and all alarms on them are silent; set ` +
    "applicationLogLevelV2 to ApplicationLogLevel.INFO, and the level of your own lines in your code's logger.";
  const cases: [string, MakeProps, string][] = [
    [
      'an imported function',
      (stack) => ({ function: lambda.Function.fromFunctionArn(stack, 'Imported', arn) }),
      'target.function (Test/Imported) is imported, so neither its environment nor its recursiveLoop can be set; create it in this stack.',
    ],
    [
      'a function of another stack',
      (stack) => ({ function: userFunction(new Stack(stack.node.root as App, 'Other'), 'Own', IN_TIME) }),
      'target.function (Other/Own) is in another stack (Other), but Redeliver changes its settings; create Redeliver in that stack.',
    ],
    [
      'an alias',
      (stack) => ({ function: userFunction(stack, 'Own', IN_TIME).addAlias('live') }),
      'target.function (Test/Own/Aliaslive) is an alias or a version, whose environment cannot be set; give the function itself.',
    ],
    [
      'a function whose loop is to be stopped',
      validFunction({ recursiveLoop: lambda.RecursiveLoop.TERMINATE }),
      'target.function (Test/Own) sets recursiveLoop to Terminate, so Lambda would drop its retries after about 16; remove it.',
    ],
    [
      'ten seconds',
      validFunction({ timeout: Duration.seconds(10) }),
      "target.function's timeout is 10 s; use 11 s to 900 s, in whole seconds: the last five are reserved for hand-offs. Lambda's default is 3 s.",
    ],
    [
      "Lambda's own timeout",
      (stack) => ({ function: userFunction(stack, 'Own') }),
      "target.function's timeout is 3 s; use 11 s to 900 s, in whole seconds: the last five are reserved for hand-offs. Lambda's default is 3 s.",
    ],
    [
      'a timeout known only at deployment',
      (stack) => {
        const function_ = userFunction(stack, 'Own', IN_TIME);
        (function_.node.defaultChild as lambda.CfnFunction).timeout = Lazy.number({ produce: () => 60 });
        return { function: function_ };
      },
      'target.function (Test/Own) has a timeout that is only known at deployment, so nothing can be checked against it; set it to a number.',
    ],
    [
      'a visibility timeout that lets a message out while it is worked on',
      validFunction({}, { sourceVisibilityTimeout: Duration.seconds(300) }),
      "sourceVisibilityTimeout is 300 s; use at least 6 × target.function's timeout = 360 s, and at most 43200 s (12 hours).",
    ],
    [
      'a container image',
      (stack) => ({
        function: new lambda.DockerImageFunction(stack, 'Own', {
          ...IN_TIME,
          code: lambda.DockerImageCode.fromEcr(ecr.Repository.fromRepositoryName(stack, 'Images', 'orders')),
        }),
      }),
      "target.function (Test/Own) is a container image, which has no layers; use Target.lambdaFunction, or copy redeliver's program into the image, make it the " +
        'entrypoint (with AWS\'s base images: ENTRYPOINT ["/opt/redeliver", "/lambda-entrypoint.sh"]) and connect the queues by hand: docs/own-function.md.',
    ],
    [
      'an OS-only runtime',
      validFunction({ runtime: lambda.Runtime.PROVIDED_AL2023, ...asset() }),
      'target.function (Test/Own) has the OS-only runtime provided.al2023, for which Lambda starts no wrapper; use Target.lambdaFunction, or Target.handler for a ' +
        "handler in Rust, or put redeliver's program next to yours, start both in bootstrap (exec ./redeliver ./my-program) and connect the queues by hand: " +
        'docs/own-function.md.',
    ],
    [
      'an unknown runtime',
      validFunction({ runtime: new lambda.Runtime('cobol85', lambda.RuntimeFamily.OTHER), ...asset() }),
      'target.function (Test/Own) has the runtime cobol85, but redeliver supports Node.js, Python, Java, .NET and Ruby; use one of them, or Target.lambdaFunction.',
    ],
    [
      'SnapStart',
      validFunction({ runtime: lambda.Runtime.PYTHON_3_13, snapStart: lambda.SnapStartConf.ON_PUBLISHED_VERSIONS }),
      "target.function (Test/Own) has SnapStart, which only applies to published versions, but the messages go to $LATEST, and redeliver's program gets no credentials in a " +
        'snapshot; remove it.',
    ],
    [
      'a durable function',
      (stack) => changedFunction(stack, ({ resource }) => (resource.durableConfig = { executionTimeout: 60 })),
      'target.function (Test/Own) is a durable function, whose events are not plain SQS events; use a function without durableConfig.',
    ],
    [
      'a function in tenant isolation mode',
      validFunction({ tenancyConfig: lambda.TenancyConfig.PER_TENANT }),
      'target.function (Test/Own) is in tenant isolation mode, in which Lambda reads no queue for it; use Target.lambdaFunction with tenantIsolation: true.',
    ],
    [
      'a function on managed instances',
      (stack) => changedFunction(stack, ({ resource }) => (resource.capacityProviderConfig = { lambdaManagedInstancesCapacityProviderConfig: { capacityProviderArn: 'arn:…' } })),
      'target.function (Test/Own) runs on Lambda Managed Instances, with several invocations in one environment, but redeliver handles one at a time; use a function without a ' +
        'capacity provider.',
    ],
    [
      'a log level that drops the metrics',
      validFunction({ loggingFormat: lambda.LoggingFormat.JSON, applicationLogLevelV2: lambda.ApplicationLogLevel.WARN }),
      tooQuiet('WARN'),
    ],
    [
      'five layers',
      (stack) => {
        const layer = (index: number) => lambda.LayerVersion.fromLayerVersionArn(stack, `Layer${index}`, `arn:aws:lambda:eu-west-1:111122223333:layer:l:${index}`);
        return validFunction({ layers: [1, 2, 3, 4, 5].map(layer) })(stack);
      },
      "target.function (Test/Own) has 5 layers, Lambda's limit, but redeliver's program needs one; merge two of them.",
    ],
    [
      'an architecture that was not built',
      validFunction({ architecture: lambda.Architecture.X86_64 }),
      `${bundles}/message-processor/bootstrap is built for arm64, but target.function (Test/Own) runs on x86_64; build it with \`cargo xtask bundle --x86-64\`, or ` +
        "set the function's architecture to match.",
    ],
    [
      'a wrapper that only the deployment knows',
      (stack) => validFunction({ environment: { AWS_LAMBDA_EXEC_WRAPPER: new CfnParameter(stack, 'Wrapper').valueAsString } })(stack),
      'target.function (Test/Own) has an AWS_LAMBDA_EXEC_WRAPPER that is only known at deployment, so redeliver cannot run it as well; set it to a literal.',
    ],
    [
      "redeliver's own wrapper, set by hand",
      validFunction({ environment: { AWS_LAMBDA_EXEC_WRAPPER: '/opt/redeliver', HANDLER_EVENT: 'batch' } }),
      'target.function (Test/Own) has AWS_LAMBDA_EXEC_WRAPPER, HANDLER_EVENT in its environment already; remove it there: Redeliver sets it, and one function serves one source queue.',
    ],
    [
      'less concurrency than it is called with',
      validFunction({ reservedConcurrentExecutions: 5 }),
      "target.function's reservedConcurrentExecutions is 5; use a whole number of at least maxConcurrency = 10: Lambda would throttle the other " +
        'invocations, and each throttled message spends one of maxRedrives.',
    ],
    [
      'settings of its own',
      validFunction({ environment: { ENVELOPE: 'optional', RETRY_POLICY: '{}', TABLE: 'orders', LOG_LEVEL: 'DEBUG' } }),
      'target.function (Test/Own) has ENVELOPE, RETRY_POLICY in its environment already; remove it there: Redeliver sets it, and one function serves one source queue.',
    ],
    [
      'a log level of its own, and another one here',
      validFunction({ environment: { LOG_LEVEL: 'DEBUG' } }, { logLevel: LogLevel.WARN }),
      'target.function (Test/Own) has LOG_LEVEL in its environment already; remove it there: Redeliver sets it, and one function serves one source queue.',
    ],
    [
      'more variables than Lambda takes',
      validFunction({ environment: { TABLE: 'x'.repeat(4050) } }),
      'the environment variables of target.function (Test/Own) have at least 4249 bytes as JSON, but Lambda allows 4096; shorten TABLE, which has 4052.',
    ],
  ];
  for (const [name, given, sentence] of cases) {
    test(name, () => assert.deepEqual(collectProblems(given), [sentence]));
  }

  test('a reserved concurrency known only at deployment is accepted', () => {
    const reserved = (stack: Stack): number => new CfnParameter(stack, 'Reserved', { type: 'Number' }).valueAsNumber;
    assert.deepEqual(collectProblems((stack) => validFunction({ reservedConcurrentExecutions: reserved(stack) })(stack)), []);
  });

  const ofOurs: [string, Props, string][] = [
    ['timeout', { timeout: Duration.seconds(5) }, 'set timeout on the function'],
    ['reservedConcurrency', { reservedConcurrency: 5 }, 'set reservedConcurrentExecutions on the function'],
    ['maxConcurrentCalls', { maxConcurrentCalls: 0 }, 'use maxConcurrency: a runtime handles one event at a time'],
  ];
  for (const [name, props, instead] of ofOurs) {
    test(`${name}, which only redeliver's message-processor supports`, () =>
      assert.deepEqual(collectProblems(validFunction({}, props)), [`${name} only applies to redeliver's own message-processor, which target.function replaces; remove it, and ${instead}.`]));
  }

  test('one function for two source queues', () => {
    const { stack, redeliver } = createStack(validFunction({}));
    assert.throws(() => createRedeliver(stack, 'Second', () => ({ function: redeliver.messageProcessor, stage: 'second' })), {
      name: 'RedeliverPropsError',
      message:
        'target.function (Test/Own) has STRATEGY, SOURCE_QUEUE_URL, INTERMEDIATE_DLQ_URL, RETRY_POLICY, ANNOTATION_QUEUE_URL, ENVELOPE, AWS_LAMBDA_EXEC_WRAPPER, RESEND_SENDER_IDS in its environment ' +
        'already; remove it there: Redeliver sets it, and one function serves one source queue.',
    });
  });

  describe("a wrapper set after the construct, which would replace redeliver's", () => {
    const later = (name: string, value: string): string[] => {
      const stack = new Stack(new App({ context: cdkJson().context }), 'Test');
      createRedeliver(stack, 'Retries', validFunction({})).messageProcessor.addEnvironment(name, value);
      return stack.node.children.flatMap((child) => child.node.validate());
    };
    test('is refused at synth', () =>
      assert.deepEqual(later('AWS_LAMBDA_EXEC_WRAPPER', '/opt/datadog_wrapper'), [
        'target.function (Test/Own) has /opt/datadog_wrapper as AWS_LAMBDA_EXEC_WRAPPER, set after Redeliver was created, so messages would ' +
          'bypass redeliver; set it before, or set REDELIVER_NEXT_WRAPPER instead, which redeliver also runs.',
      ]));
    test('can be passed to redeliver instead', () => assert.deepEqual(later('REDELIVER_NEXT_WRAPPER', '/opt/datadog_wrapper'), []));
  });

  describe("the function's own event sources", () => {
    const ORDERS = 'arn:aws:sqs:eu-west-1:111122223333:orders';
    const HERE = { account: '111122223333', region: 'eu-west-1' };
    const queueOf = (stack: Stack, arn: string, id = 'Theirs'): sqs.IQueue => sqs.Queue.fromQueueArn(stack, id, arn);
    const reads = (stack: Stack, queue: sqs.IQueue, props: SqsEventSourceProps = {}): lambda.Function => {
      const { function: function_ } = validFunction({})(stack);
      function_.addEventSource(new SqsEventSource(queue, props));
      return function_ as lambda.Function;
    };
    const sameQueue = (path: string): string =>
      `target.function (Test/Own) already has the source queue as an event source (${path}); remove it there: Redeliver makes the mapping, with the settings that it needs.`;
    const otherQueue = (path: string): string =>
      `target.function (Test/Own) has another queue as an event source (${path}): its batches reach the handler unchanged, without any of redeliver's guarantees; give that ` +
      'queue a function of its own, or acknowledge this. [ack: @redeliver/cdk:anotherQueueOfFunction]';
    /** Returns the problems and warnings caused by changes made after `Redeliver` is created. */
    const later = (change: (stack: Stack, made: Redeliver) => void, props: Props = {}): { problems: string[]; warnings: string[] } => {
      const stack = new Stack(new App({ context: cdkJson().context }), 'Test', { env: HERE });
      change(stack, createRedeliver(stack, 'Retries', validFunction({}, props)));
      const problems = stack.node.findAll().flatMap(({ node }) => node.validate());
      return { problems, warnings: problems.length > 0 ? [] : warningsOf(stack) };
    };
    const warningsOf = (stack: Stack): string[] =>
      Annotations.fromStack(stack).findWarning('*', Match.stringLikeRegexp('another queue')).map(({ entry }) => String(entry.data));

    test('the source queue, by construct or ARN, is refused', () => {
      const path = 'Test/Own/SqsEventSource:TestTheirs9340C76C';
      const given = (queue: (stack: Stack) => sqs.IQueue, source: (its: sqs.IQueue) => SourceQueue): string[] =>
        collectProblems((stack) => {
          const its = queue(stack);
          return { function: reads(stack, its, { reportBatchItemFailures: true }), existingSourceQueue: source(its) };
        });
      const created = (stack: Stack): sqs.IQueue => new sqs.Queue(stack, 'Theirs', { queueName: 'orders', visibilityTimeout: Duration.minutes(10) });
      assert.deepEqual(given(created, (its) => SourceQueue.fromQueue(its)), [sameQueue(path)]);
      assert.deepEqual(given((stack) => queueOf(stack, ORDERS), () => SourceQueue.fromArn(ORDERS)), [sameQueue(path)]);
      assert.deepEqual(given(created, () => SourceQueue.fromArn(`arn:aws:sqs:${Aws.REGION}:${Aws.ACCOUNT_ID}:orders`)), [sameQueue(path)]);
    });

    test("the source queue's construct, added later, is refused", () => {
      const adds = (queueOfApp: (stack: Stack) => sqs.IQueue): string[] => {
        const stack = new Stack(new App({ context: cdkJson().context }), 'Test', { env: HERE });
        const queue = queueOfApp(stack);
        const { messageProcessor } = createRedeliver(stack, 'Retries', validFunction({}, { existingSourceQueue: SourceQueue.fromQueue(queue) }));
        messageProcessor.addEventSource(new SqsEventSource(queue, { reportBatchItemFailures: true }));
        return messageProcessor.node.validate();
      };
      const path = 'Test/Own/SqsEventSource:TestTheirs9340C76C';
      assert.deepEqual(adds((stack) => new sqs.Queue(stack, 'Theirs', { visibilityTimeout: Duration.minutes(10) })), [sameQueue(path)]);
      assert.deepEqual(adds((stack) => queueOf(stack, ORDERS)), [sameQueue(path)]);
    });

    test('the source queue, added later, is refused', () => {
      const added = later((stack, { messageProcessor }) => messageProcessor.addEventSource(new SqsEventSource(queueOf(stack, ORDERS), { reportBatchItemFailures: true })), {
        existingSourceQueue: SourceQueue.fromArn(ORDERS),
      });
      assert.deepEqual(added.problems, [sameQueue('Test/Own/SqsEventSource:TestTheirs9340C76C')]);
      const named = later((stack, { messageProcessor: target }) => {
        const eventSourceArn = 'arn:aws:sqs:eu-west-1:111122223333:redeliver-prod-source';
        new lambda.EventSourceMapping(stack, 'Mapping', { target, eventSourceArn, reportBatchItemFailures: true });
      });
      assert.deepEqual(named.problems, [sameQueue('Test/Mapping')]);
    });

    test('other queues cause a warning, whatever their settings', () => {
      const path = 'Test/Own/SqsEventSource:TestTheirs9340C76C';
      const adds = (stack: Stack, { messageProcessor }: Redeliver): void =>
        messageProcessor.addEventSource(new SqsEventSource(queueOf(stack, 'arn:aws:sqs:eu-west-1:444455556666:orders'), { reportBatchItemFailures: true }));
      assert.deepEqual(later(adds, { existingSourceQueue: SourceQueue.fromArn(ORDERS) }), { problems: [], warnings: [otherQueue(path)] });
      const plainly = later((stack, { messageProcessor }) => messageProcessor.addEventSource(new SqsEventSource(new sqs.Queue(stack, 'Theirs'))));
      assert.deepEqual(plainly, { problems: [], warnings: [otherQueue(path)] });
      const ofAnAlias = later((stack, { messageProcessor }) => {
        messageProcessor.addAlias('live').addEventSource(new SqsEventSource(queueOf(stack, ORDERS)));
      });
      assert.deepEqual(ofAnAlias, { problems: [], warnings: [otherQueue('Test/Own/Aliaslive/SqsEventSource:TestTheirs9340C76C')] });
      const silent = later((stack, made) => {
        adds(stack, made);
        CdkAnnotations.of(stack).acknowledgeWarning('@redeliver/cdk:anotherQueueOfFunction');
      });
      assert.deepEqual(silent, { problems: [], warnings: [] });
    });

    test("other services and other functions' event sources are ignored", () => {
      const { problems, warnings } = later((stack, { messageProcessor }) => {
        messageProcessor.addEventSource(new KinesisEventSource(new kinesis.Stream(stack, 'Stream'), { startingPosition: lambda.StartingPosition.LATEST }));
        userFunction(stack, 'Other').addEventSource(new SqsEventSource(new sqs.Queue(stack, 'Theirs')));
      });
      assert.deepEqual([problems, warnings], [[], []]);
    });
  });

  test("every variable that redeliver sets is refused in the user's environment", () => {
    const names = Object.values(Strategy).flatMap((strategy) => {
      const { template } = createStack(
        validFunction(
          { environment: { AWS_LAMBDA_EXEC_WRAPPER: '/opt/otel-handler' } },
          {
            strategy,
            dataSchema: SCHEMA,
            bodySchema: SCHEMA,
            envelope: Envelope.OPTIONAL,
            messageIdAttribute: 'id',
            messageIdPointer: '/id',
            handlerEvent: HandlerEvent.BATCH,
            logDetail: LogDetail.MESSAGES,
            logLevel: LogLevel.WARN,
          },
        ),
      );
      return Object.keys(environmentOf(template));
    });
    const [others, given] = [new Set(names), { strategy: Strategy.ORDERED, logDetail: LogDetail.MESSAGES, logLevel: LogLevel.WARN }];
    others.delete('AWS_LAMBDA_EXEC_WRAPPER');
    for (const name of others) {
      const sentence = `target.function (Test/Own) has ${name} in its environment already; remove it there: Redeliver sets it, and one function serves one source queue.`;
      assert.deepEqual(collectProblems(validFunction({ environment: { [name]: 'x' } }, given)), [sentence]);
    }
  });

  test('an application log level above INFO is refused, also if it is set later', () => {
    for (const level of ['TRACE', 'DEBUG', 'INFO'] as const) {
      assert.deepEqual(collectProblems(validFunction({ loggingFormat: lambda.LoggingFormat.JSON, applicationLogLevelV2: lambda.ApplicationLogLevel[level] })), []);
    }
    for (const applicationLogLevel of ['ERROR', 'FATAL']) {
      const stack = new Stack(new App({ context: cdkJson().context }), 'Test');
      const { messageProcessor } = createRedeliver(stack, 'Retries', validFunction({}));
      (messageProcessor.node.defaultChild as lambda.CfnFunction).loggingConfig = { logFormat: 'JSON', applicationLogLevel };
      assert.deepEqual(messageProcessor.node.validate(), [tooQuiet(applicationLogLevel)]);
    }
  });

  test("the function's own LOG_LEVEL is accepted", () => assert.deepEqual(collectProblems(validFunction({ environment: { LOG_LEVEL: 'DEBUG' } })), []));

  test("the function's own BATCH_SIZE is accepted where redeliver does not set it", () =>
    assert.deepEqual(collectProblems(validFunction({ environment: { BATCH_SIZE: '100' } })), []));
});
