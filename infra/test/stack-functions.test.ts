import { type App, Duration, type Stack } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { RetentionDays } from 'aws-cdk-lib/aws-logs';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import assert from 'node:assert/strict';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { Envelope, LogDetail, LogLevel, Redeliver, type RedeliverProps, RetryPolicy, SourceQueue, Target } from '../lib/index';
import { ALLOWED_LOOP, makeReadable, resources } from './stack-exact';
import { fakeBundles, HTTP, namedResource, type Resource, stackWith, temporaryDirectory, templateWith } from './stack-support';
import { userFunction } from './stack-variants';

const NAMES = ['message-processor', 'failed-message-processor', 'final-dlq-annotator'] as const;

function functionNamed(template: Template, name: (typeof NAMES)[number]): Resource {
  return namedResource(template, 'AWS::Lambda::Function', 'FunctionName', `redeliver-prod-${name}`);
}

function variables(template: Template, name: (typeof NAMES)[number]): Record<string, unknown> {
  return functionNamed(template, name).Properties['Environment'].Variables;
}

/** Returns a function role's permissions as `action on resource`, with the start of each resource's logical id. */
function permissions(template: Template, id: string): string[] {
  const policies = Object.entries(template.findResources('AWS::IAM::Policy'));
  const own = policies.filter(([logicalId]) => logicalId.startsWith(`Retries${id}Role`));
  return own
    .flatMap(([, policy]) => policy['Properties'].PolicyDocument.Statement)
    .flatMap((statement) =>
      [statement.Action].flat().flatMap((action: string) =>
        [statement.Resource].flat().map((resource: any) => {
          const id = typeof resource === 'string' ? resource : (resource['Fn::GetAtt']?.[0] ?? resource.Ref);
          const where = id.replace(/[0-9A-F]{8}$/, '');
          return `${statement.Effect === 'Deny' ? 'NOT ' : ''}${action} on ${where}`;
        }),
      ),
    )
    .sort();
}

function consumePermissions(queue: string): string[] {
  return ['ChangeMessageVisibility', 'DeleteMessage', 'GetQueueAttributes', 'GetQueueUrl', 'ReceiveMessage'].map(
    (action) => `sqs:${action} on ${queue}`,
  );
}

function commonPermissions(id: string): string[] {
  return [
    `logs:CreateLogStream on Retries${id}Logs`,
    `logs:PutLogEvents on Retries${id}Logs`,
    'xray:PutTelemetryRecords on *',
    'xray:PutTraceSegments on *',
  ];
}

/** Writes a user's schema to a new file, and returns the file's path. */
function writeSchema(text: string): string {
  const schema = join(temporaryDirectory(), 'order.schema.json');
  writeFileSync(schema, text);
  return schema;
}

/** Returns the contents of each function's package, by function name: file names, and the schema's text. */
function packages(stack: Stack): Record<string, string[]> {
  const assembly = (stack.node.root as App).synth();
  const resources = Object.values(assembly.getStackByName('Test').template.Resources as Record<string, any>);
  const functions = resources.filter((found) => found.Type === 'AWS::Lambda::Function');
  return Object.fromEntries(
    functions.map(({ Properties }) => {
      const directory = join(assembly.directory, `asset.${Properties.Code.S3Key.replace('.zip', '')}`);
      const actual = readdirSync(directory).map((file) => (file.endsWith('.schema.json') ? `${file}: ${readFileSync(join(directory, file), 'utf8')}` : file));
      return [Properties.FunctionName, actual.sort()];
    }),
  );
}

const TRACED = { 'Fn::If': ['RedeliverLacksXRay', 'PassThrough', 'Active'] };

describe('functions', () => {
  const template = templateWith(() => HTTP);

  test('their configuration is as designed', () => {
    for (const name of NAMES) {
      const { Properties } = functionNamed(template, name);
      assert.deepEqual(
        [
          Properties['Handler'],
          Properties['Runtime'],
          Properties['Architectures'],
          Properties['MemorySize'],
          Properties['Timeout'],
          Properties['LoggingConfig'].LogFormat,
          Properties['TracingConfig'].Mode,
          makeReadable(Properties['RecursiveLoop']),
          Properties['ReservedConcurrentExecutions'],
          Properties['VpcConfig'],
        ],
        [name, 'provided.al2023', ['arm64'], 256, name === 'message-processor' ? 60 : 30, 'JSON', TRACED, ALLOWED_LOOP, undefined, undefined],
        name,
      );
    }
    template.resourceCountIs('AWS::Lambda::Function', 3);
    template.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 30 });
    const shorter = templateWith(() => ({ ...HTTP, logRetention: RetentionDays.ONE_DAY }));
    shorter.allResourcesProperties('AWS::Logs::LogGroup', { RetentionInDays: 1 });
  });

  test('each has exactly the permissions that it needs', () => {
    assert.deepEqual(
      permissions(template, 'MessageProcessor'),
      [
        ...commonPermissions('MessageProcessor'),
        ...consumePermissions('RetriesSourceQueue'),
        'sqs:SendMessage on RetriesAnnotationQueue',
        'sqs:SendMessage on RetriesIntermediateDlq',
        'sqs:SendMessage on RetriesSourceQueue',
      ].sort(),
    );
    assert.deepEqual(
      permissions(template, 'FailedMessageProcessor'),
      [
        ...commonPermissions('FailedMessageProcessor'),
        ...consumePermissions('RetriesIntermediateDlq'),
        'sqs:SendMessage on RetriesAnnotationQueue',
        'sqs:SendMessage on RetriesSourceQueue',
      ].sort(),
    );
    assert.deepEqual(
      permissions(template, 'FinalDlqAnnotator'),
      [...commonPermissions('FinalDlqAnnotator'), ...consumePermissions('RetriesAnnotationQueue'), 'sqs:SendMessage on RetriesFinalDlq'].sort(),
    );
    for (const role of Object.values(template.findResources('AWS::IAM::Role'))) {
      assert.equal(role['Properties'].ManagedPolicyArns, undefined);
    }
  });

  test('batch item failures are reported, and concurrency is limited where that costs no receives', () => {
    const mappings = Object.values(template.findResources('AWS::Lambda::EventSourceMapping')) as Resource[];
    const actual = mappings.map(({ Properties }) => [
      Properties['EventSourceArn']['Fn::GetAtt'][0].replace(/[0-9A-F]{8}$/, ''),
      Properties['FunctionName'].Ref.replace(/[0-9A-F]{8}$/, ''),
      Properties['BatchSize'],
      Properties['FunctionResponseTypes'],
      Properties['ScalingConfig'].MaximumConcurrency,
      Properties['MaximumBatchingWindowInSeconds'],
    ]);
    assert.deepEqual(actual.sort(), [
      ['RetriesAnnotationQueue', 'RetriesFinalDlqAnnotator', 10, ['ReportBatchItemFailures'], 10, undefined],
      ['RetriesIntermediateDlq', 'RetriesFailedMessageProcessor', 10, ['ReportBatchItemFailures'], 10, undefined],
      ['RetriesSourceQueue', 'RetriesMessageProcessor', 10, ['ReportBatchItemFailures'], 10, 1],
    ]);
  });

  test('only the source queue has a batching window, which extends its visibility timeout', () => {
    const windows = (of: Template): unknown[] =>
      Object.values(of.findResources('AWS::Lambda::EventSourceMapping'))
        .map((mapping) => [mapping['Properties'].FunctionName.Ref.replace(/[0-9A-F]{8}$/, ''), mapping['Properties'].MaximumBatchingWindowInSeconds])
        .sort();
    const waiting = templateWith(() => ({ ...HTTP, maxBatchingWindow: Duration.seconds(20) }));
    assert.deepEqual(windows(waiting), [
      ['RetriesFailedMessageProcessor', undefined],
      ['RetriesFinalDlqAnnotator', undefined],
      ['RetriesMessageProcessor', 20],
    ]);
    waiting.hasResourceProperties('AWS::SQS::Queue', { QueueName: 'redeliver-prod-source', VisibilityTimeout: 380 });
    waiting.hasResourceProperties('AWS::SQS::Queue', { QueueName: 'redeliver-prod-intermediate-dlq', VisibilityTimeout: 180 });
    const existing = { existingSourceQueue: SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders') };
    templateWith(() => ({ ...HTTP, ...existing, maxBatchingWindow: Duration.seconds(20) }))
      .hasResourceProperties('Custom::RedeliverSourceQueue', { VisibilityTimeout: '380' });
  });

  test('without tracing no function can send traces', () => {
    const template = templateWith(() => ({ ...HTTP, tracing: false }));
    assert.equal(JSON.stringify(template.toJSON()).includes('xray:'), false);
    for (const { Properties } of Object.values(template.findResources('AWS::Lambda::Function'))) {
      assert.equal(Properties['TracingConfig'], undefined);
    }
    assert.equal(JSON.stringify(templateWith(() => HTTP).toJSON()).includes('xray:'), true);
  });

  test('log settings are passed to every function if given', () => {
    const logs = (props: object): unknown[] => {
      const template = templateWith(() => ({ ...HTTP, ...props }));
      return NAMES.map((name) => variables(template, name)).map(({ LOG_DETAIL, LOG_LEVEL }) => [LOG_DETAIL, LOG_LEVEL]);
    };
    assert.deepEqual(logs({}), [[undefined, undefined], [undefined, undefined], [undefined, undefined]]);
    assert.deepEqual(logs({ logDetail: LogDetail.MESSAGES, logLevel: LogLevel.WARN }), [['messages', 'WARN'], ['messages', 'WARN'], ['messages', 'WARN']]);
    assert.deepEqual(logs({ logDetail: LogDetail.BATCHES }), [['batches', undefined], ['batches', undefined], ['batches', undefined]]);
  });

  test('a log level that an aspect raises above INFO is refused, since metrics would be dropped', () => {
    const { stack } = stackWith(() => HTTP);
    const problems = (): string[] => stack.node.findAll().flatMap(({ node }) => node.validate());
    const set = (applicationLogLevel: string): void =>
      stack.node.findAll().forEach((found) => {
        if (found instanceof lambda.CfnFunction) {
          found.loggingConfig = { logFormat: 'JSON', applicationLogLevel };
        }
      });
    set('DEBUG');
    assert.deepEqual(problems(), []);
    set('WARN');
    assert.deepEqual(problems(), NAMES.map((name) =>
      `redeliver-prod-${name} has the application log level WARN, with which Lambda drops redeliver's metrics and all alarms on them are silent; leave it at INFO, ` +
      'and set logLevel.'));
  });

  test('concurrency is reserved only for the message-processor, and only if requested', () => {
    const reserved = (of: Template): unknown[] => NAMES.map((name) => functionNamed(of, name).Properties['ReservedConcurrentExecutions']);
    assert.deepEqual(reserved(template), [undefined, undefined, undefined]);
    assert.deepEqual(reserved(templateWith(() => ({ ...HTTP, reservedConcurrency: 25 }))), [25, undefined, undefined]);
  });

  test('the settings equal those that the functions read', () => {
    const names = (name: (typeof NAMES)[number]): string[] => Object.keys(variables(template, name)).sort();
    assert.deepEqual(names('message-processor'), [
      'ANNOTATION_QUEUE_URL', 'INTERMEDIATE_DLQ_URL', 'MAX_CONCURRENCY', 'RESEND_SENDER_IDS', 'RETRY_POLICY', 'SOURCE_QUEUE_URL', 'STRATEGY', 'TARGET',
      'TARGET_TIMEOUT_SECONDS',
    ]);
    assert.deepEqual(names('failed-message-processor'), [
      'ANNOTATION_QUEUE_URL', 'INTERMEDIATE_DLQ_URL', 'RESEND_SENDER_IDS', 'RETRY_POLICY', 'SOURCE_QUEUE_URL',
    ]);
    assert.deepEqual(names('final-dlq-annotator'), ['FINAL_DLQ_URL']);
    const { TARGET, TARGET_TIMEOUT_SECONDS, MAX_CONCURRENCY } = variables(template, 'message-processor');
    assert.deepEqual([TARGET, TARGET_TIMEOUT_SECONDS, MAX_CONCURRENCY], ['https://orders.example.com/hook', '30', '10']);

    const policy = { max_attempts: 3, backoff: { kind: 'fixed', delay_seconds: 60 } } as const;
    const other = templateWith(() => ({
      ...HTTP,
      policy: RetryPolicy.fromJson(policy),
      target: Target.http('http://10.0.0.1/', { allowHttp: true, timeout: Duration.seconds(5) }),
      batchSize: 5,
      maxConcurrentCalls: 2,
      maxConcurrency: 7,
      timeout: Duration.seconds(20),
    }));
    assert.equal(variables(other, 'failed-message-processor')['RETRY_POLICY'], JSON.stringify(policy));
    const { TARGET_ALLOW_HTTP, TARGET_TIMEOUT_SECONDS: seconds, MAX_CONCURRENCY: calls } = variables(other, 'message-processor');
    assert.deepEqual([TARGET_ALLOW_HTTP, seconds, calls], ['true', '5', '2']);
    other.hasResourceProperties('AWS::Lambda::EventSourceMapping', { BatchSize: 5, ScalingConfig: { MaximumConcurrency: 7 } });
    other.hasResourceProperties('AWS::SQS::Queue', { QueueName: 'redeliver-prod-source', VisibilityTimeout: 121 });
  });

  test("only the message-processor can read the headers' secret", () => {
    for (const target of [
      (secret: secretsmanager.ISecret) => Target.http('https://orders.example.com/', { headersSecret: secret }),
      (secret: secretsmanager.ISecret) => Target.httpFromSecret(secret),
    ]) {
      const template = templateWith((stack) => ({ target: target(new secretsmanager.Secret(stack, 'Secret')) }));
      const readers = ['MessageProcessor', 'FailedMessageProcessor', 'FinalDlqAnnotator'].filter((id) =>
        permissions(template, id).some((permission) => permission.startsWith('secretsmanager:')),
      );
      assert.deepEqual(readers, ['MessageProcessor']);
      assert.deepEqual(Object.keys(variables(template, 'message-processor')).includes('TARGET_HEADERS_SECRET_ARN'), true);
    }
  });

  test('a target with its URL in a secret keeps its other options', () => {
    const template = templateWith((stack) => ({
      target: Target.httpFromSecret(new secretsmanager.Secret(stack, 'Secret'), { allowHttp: true, timeout: Duration.seconds(5) }),
    }));
    const { TARGET, TARGET_ALLOW_HTTP, TARGET_TIMEOUT_SECONDS } = variables(template, 'message-processor');
    assert.deepEqual([TARGET, TARGET_ALLOW_HTTP, TARGET_TIMEOUT_SECONDS], [undefined, 'true', '5']);
  });

  test('errorExcerpt is passed as a list of pointers', () => {
    const excerpt = (errorExcerpt?: string[]): unknown =>
      variables(templateWith(() => ({ target: Target.http('https://orders.example.com/', { errorExcerpt }) })), 'message-processor')['TARGET_ERROR_EXCERPT'];
    assert.deepEqual([excerpt(['/type', '/title']), excerpt([]), excerpt()], ['/type,/title', undefined, undefined]);
  });

  test('a proxy applies only to calls to the target', () => {
    const template = templateWith(() => ({ target: Target.http('https://orders.example.com/', { proxy: 'http://proxy:3128' }) }));
    const of = (name: 'message-processor' | 'failed-message-processor'): unknown[] => Object.entries(variables(template, name)).filter(([variable]) => variable.includes('PROXY'));
    assert.deepEqual(of('message-processor'), [['TARGET_PROXY', 'http://proxy:3128']]);
    assert.deepEqual(of('failed-message-processor'), []);
  });

  test('only the Lambda target can be invoked', () => {
    const arn = 'arn:aws:lambda:eu-west-1:111122223333:function:orders';
    const template = templateWith((stack) => ({
      target: Target.lambdaFunction(lambda.Function.fromFunctionArn(stack, 'Target', arn)),
    }));
    const invokes = permissions(template, 'MessageProcessor').filter((permission) => permission.startsWith('lambda:'));
    assert.deepEqual(invokes, [`lambda:InvokeFunction on ${arn}`]);
    assert.equal(variables(template, 'message-processor')['TARGET'], arn);
  });

  test('each function is in the VPC, and its code cannot use the network interface permissions', () => {
    const existingSourceQueue = SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders');
    const template = templateWith((stack) => ({ ...HTTP, existingSourceQueue, vpc: { vpc: new ec2.Vpc(stack, 'Vpc', { restrictDefaultSecurityGroup: false }) } }));
    const outside = Object.values(resources(template, 'AWS::Lambda::Function')).filter(({ Properties }) => Properties['VpcConfig'] === undefined);
    assert.deepEqual(outside, []);
    const actions = ['AssignPrivateIpAddresses', 'CreateNetworkInterface', 'DeleteNetworkInterface', 'DescribeNetworkInterfaces', 'DescribeSubnets', 'UnassignPrivateIpAddresses'];
    const roles = Object.keys(template.findResources('AWS::IAM::Policy')).map((id) => id.replace(/^Retries(.*)RoleDefaultPolicy.*$/, '$1'));
    assert.equal(roles.length, 4);
    for (const id of roles) {
      const ec2Permissions = permissions(template, id).filter((permission) => permission.includes('ec2:'));
      assert.deepEqual(ec2Permissions, [
        ...actions.map((action) => `NOT ec2:${action} on *`),
        ...actions.map((action) => `ec2:${action} on *`),
      ], id);
    }
  });

  test("each function's variables are encrypted with the given key, a user's own function's with its own", () => {
    const keys = (props: (stack: Stack) => RedeliverProps): unknown[] => {
      const template = templateWith((stack) => ({ ...props(stack), environmentEncryptionKey: new kms.Key(stack, 'Variables') }));
      return Object.values(resources(template, 'AWS::Lambda::Function')).map(({ Properties }) => makeReadable(Properties['KmsKeyArn']));
    };
    const existingSourceQueue = SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders');
    assert.deepEqual(keys(() => ({ ...HTTP, existingSourceQueue })), Array(4).fill('{Variables.Arn}'));
    const own = keys((stack) => ({ target: Target.ownFunction(userFunction(stack, 'Charge', { timeout: Duration.minutes(1), architecture: lambda.Architecture.ARM_64 })) }));
    assert.deepEqual(own.toSorted(), ['{Variables.Arn}', '{Variables.Arn}', undefined]);
  });

  test('senders and receivers can use the given key', () => {
    const encrypted = templateWith((stack) => ({ ...HTTP, encryptionKey: new kms.Key(stack, 'Key') }));
    for (const id of ['MessageProcessor', 'FailedMessageProcessor', 'FinalDlqAnnotator']) {
      const key = permissions(encrypted, id).filter((permission) => permission.startsWith('kms:'));
      assert.deepEqual([...new Set(key)], ['kms:Decrypt on Key', 'kms:GenerateDataKey on Key'], id);
    }
  });

  test('the data schema is in the packages of the two functions that validate', () => {
    const schema = join(temporaryDirectory(), 'order.schema.json');
    writeFileSync(schema, '{"required":["order"]}');
    const { stack } = stackWith(() => ({ ...HTTP, dataSchema: schema }));
    const assembly = (stack.node.root as App).synth();
    const template = assembly.getStackByName('Test').template;
    const functions = Object.values(template.Resources as Record<string, any>).filter((found) => found.Type === 'AWS::Lambda::Function');
    const actual = functions.map(({ Properties }) => {
      const asset = `asset.${Properties.Code.S3Key.replace('.zip', '')}`;
      const file = join(assembly.directory, asset, 'data.schema.json');
      return [Properties.FunctionName, Properties.Environment.Variables.DATA_SCHEMA_PATH, existsSync(file) && readFileSync(file, 'utf8')];
    });
    assert.deepEqual(actual.sort(), [
      ['redeliver-prod-failed-message-processor', 'data.schema.json', '{"required":["order"]}'],
      ['redeliver-prod-final-dlq-annotator', undefined, false],
      ['redeliver-prod-message-processor', 'data.schema.json', '{"required":["order"]}'],
    ]);
  });

  test('both functions that read messages accept messages without an envelope', () => {
    const props = { envelope: Envelope.OPTIONAL, messageIdAttribute: 'order.id', messageIdPointer: '/detail/id', bodySchema: writeSchema('{"type":"object"}') } as const;
    const { stack } = stackWith(() => ({ ...HTTP, ...props }));
    const names = ['ENVELOPE', 'MESSAGE_ID_ATTRIBUTE', 'MESSAGE_ID_POINTER', 'BODY_SCHEMA_PATH', 'DATA_SCHEMA_PATH'];
    const functions = Object.values((stack.node.root as App).synth().getStackByName('Test').template.Resources as Record<string, any>)
      .filter((found) => found.Type === 'AWS::Lambda::Function');
    const actual = functions.map(({ Properties }) => [Properties.FunctionName, ...names.map((name) => Properties.Environment.Variables[name])]);
    const all = ['optional', 'order.id', '/detail/id', 'body.schema.json', undefined];
    assert.deepEqual(actual.sort(), [
      ['redeliver-prod-failed-message-processor', ...all],
      ['redeliver-prod-final-dlq-annotator', undefined, undefined, undefined, undefined, undefined],
      ['redeliver-prod-message-processor', ...all],
    ]);
    assert.deepEqual(packages(stack)['redeliver-prod-failed-message-processor'], ['body.schema.json: {"type":"object"}', 'bootstrap']);
  });

  describe('default for messages without an envelope', () => {
    const envelopes = (props: (stack: Stack) => RedeliverProps): Record<string, unknown> => {
      const functions = Object.entries(resources(templateWith(props), 'AWS::Lambda::Function'));
      const variables = functions.map(([id, { Properties }]) => [id, Properties['Environment']?.Variables.ENVELOPE] as const);
      return Object.fromEntries(variables.filter(([, envelope]) => envelope !== undefined));
    };
    const existingSourceQueue = SourceQueue.fromArn('arn:aws:sqs:eu-west-1:111122223333:orders');
    const settings = { timeout: Duration.seconds(60), architecture: lambda.Architecture.ARM_64 };
    const ownTarget = (stack: Stack): Target => Target.ownFunction(userFunction(stack, 'Own', settings));
    const ours = (envelope: string): Record<string, string> => ({ MessageProcessor: envelope, FailedMessageProcessor: envelope });

    test('refused with a new queue', () => {
      assert.deepEqual(envelopes(() => HTTP), {});
      assert.deepEqual(envelopes(() => ({ ...HTTP, envelope: Envelope.REQUIRED })), ours('required'));
    });

    test('accepted on an existing queue', () => {
      assert.deepEqual(envelopes(() => ({ ...HTTP, existingSourceQueue })), ours('optional'));
      assert.deepEqual(envelopes(() => ({ ...HTTP, existingSourceQueue, messageIdPointer: '/id' })), ours('optional'));
      assert.deepEqual(envelopes(() => ({ ...HTTP, existingSourceQueue, envelope: Envelope.REQUIRED })), ours('required'));
    });

    test("accepted by a user's own function and its failed-message-processor", () => {
      const both = (envelope: string): Record<string, string> => ({ Own: envelope, FailedMessageProcessor: envelope });
      assert.deepEqual(envelopes((stack) => ({ target: ownTarget(stack) })), both('optional'));
      assert.deepEqual(envelopes((stack) => ({ target: ownTarget(stack), existingSourceQueue })), both('optional'));
      assert.deepEqual(envelopes((stack) => ({ target: ownTarget(stack), envelope: Envelope.REQUIRED })), both('required'));
    });
  });

  test('two constructs of one stack each have their own schema', () => {
    const { stack } = stackWith(() => ({ ...HTTP, dataSchema: writeSchema('{"required":["order"]}') }));
    new Redeliver(stack, 'Second', { ...HTTP, bundles: fakeBundles(), stage: 'test', dataSchema: writeSchema('{"required":["mail"]}') });
    const validating = Object.entries(packages(stack)).filter(([name]) => !name.endsWith('annotator'));
    assert.deepEqual(Object.fromEntries(validating), {
      'redeliver-prod-message-processor': ['bootstrap', 'data.schema.json: {"required":["order"]}'],
      'redeliver-prod-failed-message-processor': ['bootstrap', 'data.schema.json: {"required":["order"]}'],
      'redeliver-test-message-processor': ['bootstrap', 'data.schema.json: {"required":["mail"]}'],
      'redeliver-test-failed-message-processor': ['bootstrap', 'data.schema.json: {"required":["mail"]}'],
    });
  });

  test("a handler's package contains its files and the schema", () => {
    const bundle = join(fakeBundles(), 'message-processor');
    const bundles = fakeBundles();
    [bundle, join(bundles, 'failed-message-processor')].forEach((each) => writeFileSync(join(each, 'model.bin'), 'model'));
    const { stack } = stackWith(() => ({ target: Target.handler(bundle), bundles, dataSchema: writeSchema('{}') }));
    const { 'redeliver-prod-message-processor': handler, 'redeliver-prod-failed-message-processor': ours } = packages(stack);
    assert.deepEqual(handler, ['bootstrap', 'data.schema.json: {}', 'model.bin']);
    assert.deepEqual(ours, ['bootstrap', 'data.schema.json: {}']);
    assert.deepEqual(readdirSync(bundle).sort(), ['bootstrap', 'model.bin']);
  });

  test("a custom handler replaces the message-processor", () => {
    const bundle = join(fakeBundles(), 'message-processor');
    const template = templateWith(() => ({ target: Target.handler(bundle) }));
    assert.equal('TARGET' in variables(template, 'message-processor'), false);
    assert.equal(functionNamed(template, 'message-processor').Properties['Handler'], 'bootstrap');
  });

  test('files beside a handler are packaged with it', () => {
    const bundle = join(fakeBundles(), 'message-processor');
    writeFileSync(join(bundle, 'model.bin'), 'model');
    const { stack } = stackWith(() => ({ target: Target.handler(bundle) }));
    const assembly = (stack.node.root as App).synth();
    const [handler] = Object.values(assembly.getStackByName('Test').template.Resources as Record<string, any>).filter(
      (found) => found.Type === 'AWS::Lambda::Function' && !('TARGET' in found.Properties.Environment.Variables) && found.Properties.Environment.Variables.MAX_CONCURRENCY,
    );
    assert.ok(existsSync(join(assembly.directory, `asset.${handler.Properties.Code.S3Key.replace('.zip', '')}`, 'model.bin')));
  });
});
