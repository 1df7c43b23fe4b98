import { type App, Duration, type Stack } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sns from 'aws-cdk-lib/aws-sns';
import assert from 'node:assert/strict';
import { chmodSync, readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { type LambdaTargetOptions, Redeliver, Target } from '../lib/index';
import { makeReadable, referencesOf, resources } from './stack-exact';
import { fakeBundles, HTTP, stackWith, temporaryDirectory, templateWith } from './stack-support';
import { userFunction, variant, VARIANT_NAMES } from './stack-variants';

const { stack } = stackWith(() => HTTP);
const template = Template.fromStack(stack);
const QUEUES = resources(template, 'AWS::SQS::Queue');

/** Returns all environment variables of a function. */
function variables(of: Template, id: string): Record<string, unknown> {
  return makeReadable(resources(of, 'AWS::Lambda::Function')[id]?.Properties['Environment'].Variables);
}

describe('queues', () => {
  test('a failing message moves to the next queue of the design', () => {
    const next = Object.entries(QUEUES).map(([id, { Properties }]) => [id, makeReadable(Properties['RedrivePolicy'])]);
    assert.deepEqual(Object.fromEntries(next), {
      SourceQueue: { deadLetterTargetArn: '{IntermediateDlq.Arn}', maxReceiveCount: 1 },
      IntermediateDlq: { deadLetterTargetArn: '{AnnotationQueue.Arn}', maxReceiveCount: 100 },
      AnnotationQueue: { deadLetterTargetArn: '{FinalDlq.Arn}', maxReceiveCount: 110 },
      FinalDlq: undefined,
    });
  });

  test('the previous queue is allowed by its future ARN, or SQS would refuse the redrive policy', () => {
    const arn = (name: string): string => `arn:{AWS::Partition}:sqs:{AWS::Region}:{AWS::AccountId}:redeliver-prod-${name}`;
    const allowed = Object.entries(QUEUES).map(([id, { Properties }]) => [id, makeReadable(Properties['RedriveAllowPolicy'])]);
    assert.deepEqual(Object.fromEntries(allowed), {
      SourceQueue: { redrivePermission: 'denyAll' },
      IntermediateDlq: { redrivePermission: 'byQueue', sourceQueueArns: [arn('source')] },
      AnnotationQueue: { redrivePermission: 'byQueue', sourceQueueArns: [arn('intermediate-dlq')] },
      FinalDlq: { redrivePermission: 'byQueue', sourceQueueArns: [arn('annotation')] },
    });
  });

  test("each queue's policy has only these denials, for this queue", () => {
    const senders: Record<string, string[]> = {
      SourceQueue: [],
      IntermediateDlq: ['{MessageProcessorRole.Arn}'],
      AnnotationQueue: ['{MessageProcessorRole.Arn}', '{FailedMessageProcessorRole.Arn}'],
      FinalDlq: ['{FinalDlqAnnotatorRole.Arn}'],
    };
    const expected = Object.entries(senders).map(([queue, roles]) => {
      const denied = { Effect: 'Deny', Principal: { AWS: '*' }, Resource: `{${queue}.Arn}` };
      const inTheClear = { ...denied, Action: 'sqs:*', Condition: { Bool: { 'aws:SecureTransport': 'false' } } };
      const byOthers = { ...denied, Sid: 'OnlyTheFunctionsSend', Action: 'sqs:SendMessage', Condition: { ArnNotEquals: { 'aws:PrincipalArn': roles } } };
      return [`{${queue}}`, roles.length === 0 ? [inTheClear] : [inTheClear, byOthers]];
    });
    const policies = Object.values(resources(template, 'AWS::SQS::QueuePolicy')).map(({ Properties }) => makeReadable(Properties));
    const found = policies.map(({ Queues, PolicyDocument }) => [...Queues, PolicyDocument.Statement]);
    assert.deepEqual(found.sort(), expected.sort());
  });

  test("the source queue's own props take effect", () => {
    const other = templateWith(() => ({
      ...HTTP,
      maxReceiveCount: 10,
      sourceRetention: Duration.days(3),
      sourceVisibilityTimeout: Duration.hours(12),
    }));
    const { SourceQueue, IntermediateDlq } = resources(other, 'AWS::SQS::Queue');
    const actual = [SourceQueue, IntermediateDlq].map((queue) => [
      queue?.Properties['RedrivePolicy'].maxReceiveCount,
      queue?.Properties['MessageRetentionPeriod'],
      queue?.Properties['VisibilityTimeout'],
    ]);
    assert.deepEqual(actual, [[10, 259_200, 43_200], [100, 1_209_600, 180]]);
  });

  test('resources have no circular dependency', () => {
    const inOneStack = stackWith((own) => ({
      encryptionKey: new kms.Key(own, 'Key'),
      target: Target.lambdaFunction(new lambda.Function(own, 'Target', { runtime: lambda.Runtime.NODEJS_22_X, handler: 'index.handler', code: lambda.Code.fromInline('0') })),
    })).stack;
    const stacks = [stack, inOneStack, ...VARIANT_NAMES.map((name) => variant(name, fakeBundles()).stack)];
    for (const { Resources } of stacks.map((each) => Template.fromStack(each, { skipCyclicalDependenciesCheck: true }).toJSON())) {
      const done = new Set<string>();
      const visit = (id: string, path: string[]): void => {
        assert.ok(!path.includes(id), [...path, id].join(' → '));
        if (Resources[id] !== undefined && !done.has(id)) {
          referencesOf(Resources[id]).forEach((needed) => visit(needed, [...path, id]));
          done.add(id);
        }
      };
      Object.keys(Resources).forEach((id) => visit(id, []));
    }
  });
});

describe('functions', () => {
  const queueUrls = { SOURCE_QUEUE_URL: '{SourceQueue}', INTERMEDIATE_DLQ_URL: '{IntermediateDlq}', ANNOTATION_QUEUE_URL: '{AnnotationQueue}' };
  const resent = { RESEND_SENDER_IDS: '{MessageProcessorRole.RoleId},{FailedMessageProcessorRole.RoleId}' };
  const common = { STRATEGY: 'delayed-resend', ...queueUrls, ...resent, RETRY_POLICY: '{}', MAX_CONCURRENCY: '10' };

  test('each function has exactly these variables', () => {
    const url = { TARGET: 'https://orders.example.com/hook', TARGET_TIMEOUT_SECONDS: '30' };
    assert.deepEqual(variables(template, 'MessageProcessor'), { ...common, ...url });
    assert.deepEqual(variables(template, 'FailedMessageProcessor'), { ...queueUrls, ...resent, RETRY_POLICY: '{}' });
    assert.deepEqual(variables(template, 'FinalDlqAnnotator'), { FINAL_DLQ_URL: '{FinalDlq}' });
  });

  test('a durable function must be a version or an alias', () => {
    const arn = 'arn:aws:lambda:eu-west-1:111122223333:function:orders';
    const durable = (made: (own: Stack) => lambda.IFunction): Template =>
      templateWith((own) => ({ target: Target.lambdaFunction(made(own), { durable: true }) }));
    const code = lambda.Code.fromInline('exports.handler = async () => {};');
    const created = (own: Stack): lambda.Function =>
      new lambda.Function(own, 'Orders', { runtime: lambda.Runtime.NODEJS_22_X, handler: 'index.handler', code });
    const refused = /^RedeliverPropsError: target\.durable is true, but target\.function is neither a version nor an alias/;
    assert.throws(() => durable((own) => lambda.Function.fromFunctionArn(own, 'Orders', arn)), refused);
    assert.throws(() => durable(created), refused);
    assert.equal(variables(durable((own) => lambda.Function.fromFunctionArn(own, 'Orders', `${arn}:live`)), 'MessageProcessor')['TARGET_DURABLE'], 'true');
    assert.equal(variables(durable((own) => created(own).currentVersion), 'MessageProcessor')['TARGET_DURABLE'], 'true');
  });

  test('a function in a mode that needs an option is refused without it, also by version or alias', () => {
    const isolated = { tenancyConfig: lambda.TenancyConfig.PER_TENANT };
    const durable = { runtime: lambda.Runtime.PYTHON_3_14, durableConfig: { executionTimeout: Duration.hours(1) } };
    const calls = (props: Partial<lambda.FunctionProps>, options: LambdaTargetOptions, of = (own: lambda.Function): lambda.IFunction => own): Template =>
      templateWith((own) => ({ target: Target.lambdaFunction(of(userFunction(own, 'Orders', props)), options) }));
    const [anIsolated, aDurable] = [
      'is in tenant isolation mode, so Lambda refuses calls without a tenant id; set tenantIsolation: true, and send each message with its tenant as MessageGroupId.',
      'is a durable function, so each copy of an attempt would be an execution of its own; set durable: true, and give a version or an alias.',
    ];
    const refusal = (path: string, sentence: string) => ({ name: 'RedeliverPropsError', message: `target.function (Test/Orders${path}) ${sentence}` });
    assert.throws(() => calls(isolated, {}), refusal('', anIsolated));
    assert.throws(() => calls(durable, {}), refusal('', aDurable));
    assert.throws(() => calls(isolated, { durable: true }, (own) => own.currentVersion), refusal('/CurrentVersion', anIsolated));
    assert.throws(() => calls(durable, { tenantIsolation: true }, (own) => own.addAlias('live')), refusal('/Aliaslive', aDurable));
    calls(isolated, { tenantIsolation: true });
    calls(durable, { durable: true }, (own) => own.currentVersion);
    calls({}, {});
  });

  test('a Lambda target and a handler get their settings', () => {
    const arn = 'arn:aws:lambda:eu-west-1:111122223333:function:orders:live';
    const invoked = templateWith((own) => ({
      target: Target.lambdaFunction(lambda.Function.fromFunctionArn(own, 'Orders', arn), { timeout: Duration.seconds(20) }),
    }));
    assert.deepEqual(variables(invoked, 'MessageProcessor'), { ...common, TARGET: arn, TARGET_TIMEOUT_SECONDS: '20' });
    const inModes = templateWith((own) => ({
      target: Target.lambdaFunction(lambda.Function.fromFunctionArn(own, 'Orders', arn), { tenantIsolation: true, durable: true }),
    }));
    const modes = { TARGET_TENANT_ISOLATION: 'true', TARGET_DURABLE: 'true' };
    assert.deepEqual(variables(inModes, 'MessageProcessor'), { ...common, TARGET: arn, TARGET_TIMEOUT_SECONDS: '30', ...modes });
    const bundle = join(fakeBundles(lambda.Architecture.X86_64), 'message-processor');
    const built = templateWith(() => ({
      target: Target.handler(bundle),
      bundles: fakeBundles(lambda.Architecture.X86_64),
      architecture: lambda.Architecture.X86_64,
    }));
    assert.deepEqual(variables(built, 'MessageProcessor'), common);
    built.allResourcesProperties('AWS::Lambda::Function', { Architectures: ['x86_64'] });
  });

  test('each has its own log group, which outlives the stack', () => {
    const logs = Object.entries(resources(template, 'AWS::Lambda::Function')).map(([id, { Properties }]) => [id, makeReadable(Properties['LoggingConfig'])]);
    assert.deepEqual(Object.fromEntries(logs), {
      MessageProcessor: { LogFormat: 'JSON', LogGroup: '{MessageProcessorLogs}' },
      FailedMessageProcessor: { LogFormat: 'JSON', LogGroup: '{FailedMessageProcessorLogs}' },
      FinalDlqAnnotator: { LogFormat: 'JSON', LogGroup: '{FinalDlqAnnotatorLogs}' },
    });
    const kept = Object.values(resources(template, 'AWS::Logs::LogGroup')).map(({ DeletionPolicy }) => DeletionPolicy);
    assert.deepEqual(kept, Array(3).fill('RetainExceptOnCreate'));
  });

  test('the package contains only the program, which Lambda can execute', () => {
    const bundles = fakeBundles();
    const dataSchema = join(temporaryDirectory(), 'order.json');
    writeFileSync(dataSchema, '{}');
    for (const name of readdirSync(bundles)) {
      writeFileSync(join(bundles, name, 'left-over.zip'), 'x');
      chmodSync(join(bundles, name, 'bootstrap'), 0o755);
    }
    const packages = [{}, { dataSchema }].map((more) => {
      const assembly = (stackWith(() => ({ ...HTTP, bundles, ...more })).stack.node.root as App).synth();
      const assets = readdirSync(assembly.directory).filter((entry) => entry.startsWith('asset.') && statSync(join(assembly.directory, entry)).isDirectory());
      assert.ok(assets.every((asset) => (statSync(join(assembly.directory, asset, 'bootstrap')).mode & 0o111) !== 0));
      return [...new Set(assets.map((asset) => readdirSync(join(assembly.directory, asset)).sort().join(' ')))].sort();
    });
    assert.deepEqual(packages, [['bootstrap'], ['bootstrap', 'bootstrap data.schema.json']]);
  });
});

test('two orchestrators in one stack cause no warning', () => {
  const topic = (stack: Stack, id: string): sns.ITopic => new sns.Topic(stack, id);
  const both = stackWith((stack) => ({ ...HTTP, ticketTopic: topic(stack, 'Topic') })).stack;
  new Redeliver(both, 'Second', { ...HTTP, bundles: fakeBundles(), stage: 'test', ticketTopic: topic(both, 'Other') });
  Template.fromStack(both).resourceCountIs('AWS::SQS::Queue', 8);
  assert.deepEqual(Annotations.fromStack(both).findWarning('*', Match.anyValue()), []);
});

test("a secret in the URL's query causes one warning without its value", () => {
  const warnings = (target: Target): unknown[] => {
    const { stack } = stackWith(() => ({ target }));
    return Annotations.fromStack(stack).findWarning('*', Match.stringLikeRegexp('^the query of ')).map(({ entry }) => entry.data);
  };
  assert.deepEqual(warnings(Target.http('https://orders.example.com/hook?a=b&token=CANARY')), [
    'the query of target.url has token, which looks like a secret, and the template shows it: put the URL into a secret and use ' +
      'Target.httpFromSecret (the app: headersSecretArn without target), or acknowledge this. [ack: @redeliver/cdk:secretInTargetUrl]',
  ]);
  assert.deepEqual(warnings(Target.http('https://orders.example.com/hook?a=b')), []);
});
