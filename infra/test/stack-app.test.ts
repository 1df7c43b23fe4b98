import { App } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { RedeliverPropsError } from '../lib/props-error';
import { RedeliverStack } from '../lib/stack';
import { cdkJson } from './fakes';
import { fakeBundles, namedResource, temporaryDirectory } from './stack-support';

const TARGET = { target: 'https://orders.example.com/hook' };

function appTemplate(context: Record<string, string>, directory = '.'): Template {
  const app = new App({ context: { ...cdkJson().context, bundles: fakeBundles(), ...context } });
  return Template.fromStack(new RedeliverStack(app, directory));
}

function rejectionMessage(context: Record<string, string>): string {
  try {
    appTemplate(context);
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message;
  }
  return '';
}

function variable(template: Template, name: string, variable: string): unknown {
  return namedResource(template, 'AWS::Lambda::Function', 'FunctionName', name).Properties['Environment'].Variables[variable];
}

describe('the app', () => {
  test('each context value takes effect', () => {
    const directory = temporaryDirectory();
    writeFileSync(join(directory, 'policy.json'), '{"max_attempts":2}');
    writeFileSync(join(directory, 'order.json'), '{"required":["order"]}');
    const template = appTemplate(
      {
        ...TARGET,
        headersSecretArn: 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:headers-AbCdEf',
        policy: 'policy.json',
        dataSchema: 'order.json',
        prefix: 'orders',
        stage: 'test',
        architecture: 'arm64',
        alarmTopicArn: 'arn:aws:sns:eu-west-1:111122223333:alarms',
        removalPolicy: 'destroy',
      },
      directory,
    );
    assert.equal(variable(template, 'orders-test-failed-message-processor', 'RETRY_POLICY'), '{"max_attempts":2}');
    assert.equal(variable(template, 'orders-test-message-processor', 'DATA_SCHEMA_PATH'), 'data.schema.json');
    assert.match(String(variable(template, 'orders-test-message-processor', 'TARGET_HEADERS_SECRET_ARN')), /headers-AbCdEf$/);
    assert.equal(namedResource(template, 'AWS::SQS::Queue', 'QueueName', 'orders-test-final-dlq').DeletionPolicy, 'Delete');
    template.allResourcesProperties('AWS::CloudWatch::Alarm', { AlarmActions: ['arn:aws:sns:eu-west-1:111122223333:alarms'] });
  });

  test("the outputs have the queue URLs, for producers and for `redeliver --stack`, and the role ARNs", () => {
    const outputs = Object.keys(appTemplate(TARGET).findOutputs('*'));
    const roles = ['FailedMessageProcessorRoleArn', 'FinalDlqAnnotatorRoleArn', 'MessageProcessorRoleArn'];
    assert.deepEqual(outputs.sort(), ['AnnotationQueueUrl', 'FinalDlqUrl', 'IntermediateDlqUrl', 'SourceQueueUrl', ...roles].sort());
  });

  test('strategy and long delays are context values', () => {
    const hiding = appTemplate({ ...TARGET, strategy: 'visibility', longDelays: 'true' });
    const queues = Object.keys(hiding.findOutputs('*')).filter((name) => name.endsWith('Url'));
    assert.deepEqual(queues.sort(), ['AnnotationQueueUrl', 'FinalDlqUrl', 'SourceQueueUrl']);
    assert.equal(variable(hiding, 'redeliver-prod-message-processor', 'STRATEGY'), 'visibility');
    assert.equal(variable(hiding, 'redeliver-prod-message-processor', 'RETRY_POLICY'), '{"long_delays":true}');
    const resending = appTemplate({ ...TARGET, strategy: 'delayed-resend', longDelays: 'false' });
    assert.equal(variable(resending, 'redeliver-prod-failed-message-processor', 'RETRY_POLICY'), '{"long_delays":false}');
  });

  test('a Lambda function and an existing queue are named by their ARNs', () => {
    const template = appTemplate({
      target: 'arn:aws:lambda:eu-west-1:111122223333:function:orders',
      existingSourceQueueArn: 'arn:aws:sqs:eu-west-1:111122223333:orders',
    });
    assert.match(String(variable(template, 'redeliver-prod-message-processor', 'TARGET')), /function:orders$/);
    template.resourceCountIs('AWS::SQS::Queue', 3);
    template.hasResourceProperties('AWS::Lambda::EventSourceMapping', { EventSourceArn: 'arn:aws:sqs:eu-west-1:111122223333:orders' });
  });

  test('the URL can come from a secret alone', () => {
    const template = appTemplate({ headersSecretArn: 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:hook-AbCdEf' });
    assert.equal(variable(template, 'redeliver-prod-message-processor', 'TARGET'), undefined);
    assert.match(String(variable(template, 'redeliver-prod-message-processor', 'TARGET_HEADERS_SECRET_ARN')), /hook-AbCdEf$/);
    assert.match(rejectionMessage({ headersSecretArn: 'hook' }), /^headersSecretArn is "hook", which is not a secret's complete ARN; /);
  });

  test('an error is one sentence', () => {
    const secret = { headersSecretArn: 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:headers-AbCdEf' };
    const lambda = { target: 'arn:aws:lambda:eu-west-1:111122223333:function:orders' };
    assert.equal(
      rejectionMessage({}),
      'target is missing: add --context target=https://…, --context target=arn:aws:lambda:REGION:ACCOUNT:function:NAME, ' +
        'or --context headersSecretArn=… of a secret with the URL.',
    );
    assert.equal(
      rejectionMessage({ target: 'arn:aws:sqs:eu-west-1:111122223333:orders' }),
      'target is "arn:aws:sqs:eu-west-1:111122223333:orders", which is not a Lambda function\'s ARN; use one, or an https:// URL.',
    );
    assert.equal(rejectionMessage({ ...lambda, ...secret }), 'headersSecretArn needs a URL as target; remove it: a Lambda function gets no headers.');
    assert.equal(rejectionMessage({ ...TARGET, architecture: 'x86' }), 'architecture is "x86"; use arm64 or x86-64.');
    assert.equal(rejectionMessage({ ...TARGET, strategy: 'hide' }), 'strategy is "hide"; use delayed-resend, direct-resend, visibility or ordered.');
    assert.equal(rejectionMessage({ ...TARGET, longDelays: 'yes' }), 'longDelays is "yes"; use true or false.');
    assert.equal(rejectionMessage({ ...TARGET, removalPolicy: 'keep' }), 'removalPolicy is "keep"; use retain or destroy.');
    assert.match(rejectionMessage({ ...TARGET, policy: 'nowhere.json' }), /^policy cannot be read from .*nowhere\.json: ENOENT.*; name a JSON file\.$/);
    assert.match(rejectionMessage({ ...TARGET, prefix: '1' }), /^prefix and stage make the name "1-prod"/);
  });

  test('all errors are reported together, wherever they are checked', () => {
    const wrong = {
      target: 'arn:aws:sqs:eu-west-1:111122223333:orders',
      headersSecretArn: 'headers',
      architecture: 'x86',
      strategy: 'hide',
      alarmTopicArn: 'alarms',
      policy: 'nowhere.json',
      existingSourceQueueArn: 'orders',
      prefix: '1',
      dataSchema: 'nowhere.json',
      colour: 'red',
    };
    assert.deepEqual(rejectionMessage(wrong).split('\n').map((sentence) => sentence.split(' ')[0]), [
      'colour', 'target', 'policy', 'strategy', 'architecture', 'alarmTopicArn', 'prefix', 'dataSchema', 'existingSourceQueue.queueArn',
    ]);
    assert.deepEqual(rejectionMessage({ architecture: 'x86' }).split('\n').map((sentence) => sentence.split(' ')[0]), ['target', 'architecture']);
  });

  test('a misspelt value is refused, not replaced by the default', () => {
    assert.match(rejectionMessage({ ...TARGET, polcy: 'strict.json' }), /^polcy is not a context value; the values are target, headersSecretArn, policy, /);
  });

  test('the command prints the sentence without a stack trace, and deploys nothing', () => {
    const output = temporaryDirectory();
    const run = spawnSync('node', ['--import', 'tsx', 'bin/app.ts'], {
      cwd: join(__dirname, '..'),
      env: { ...process.env, CDK_OUTDIR: output, CDK_CONTEXT_JSON: '{"target":"http://example.com"}' },
      encoding: 'utf8',
    });
    assert.deepEqual(
      [run.status, run.stderr],
      [2, 'error: target.url is http://, which is not encrypted; use https://, or set target.allowHttp: true.\n'],
    );
    assert.equal(existsSync(join(output, 'manifest.json')), false);
  });
});

test('staged files are removed when the app ends', () => {
  const [directory, output] = [temporaryDirectory(), temporaryDirectory()];
  const dataSchema = join(directory, 'order.schema.json');
  writeFileSync(dataSchema, '{}');
  const run = spawnSync('node', ['--import', 'tsx', 'bin/app.ts'], {
    cwd: join(__dirname, '..'),
    env: { ...process.env, TMPDIR: directory, CDK_OUTDIR: output, CDK_CONTEXT_JSON: JSON.stringify({ ...TARGET, bundles: fakeBundles(), dataSchema }) },
    encoding: 'utf8',
  });
  assert.deepEqual([run.status, existsSync(join(output, 'manifest.json'))], [0, true], run.stderr);
  assert.deepEqual(readdirSync(directory).filter((name) => name.startsWith('redeliver-')), []);
});

test("the documentation's examples equal the compiled ones", () => {
  const read = (path: string): string => readFileSync(join(__dirname, path), 'utf8');
  const pages = ['cdk', 'own-function', 'async-retry'].map((name) => read(`../../docs/deploy/${name}.md`));
  const examples = pages.flatMap((page) => [...page.matchAll(/```ts\n([^]*?)```/g)].map(([, example]) => example));
  const signing = read('code-signing.test.ts').replaceAll(/^ {2}/gm, '');
  const [apps, parts] = [false, true].map((isPart) => examples.filter((example = '') => signing.includes(example) === isPart));
  assert.deepEqual([apps, parts?.length], [['orders-app', 'charge-app', 'reports-app'].map((name) => read(`../examples/${name}.ts`)), 1]);
  const recipes = [...read('../../docs/producers.md').matchAll(/```ts\n([^]*?)```/g)].map(([, recipe]) => recipe ?? '');
  const compiled = ['../examples/producers-app.ts', 'producers.test.ts'].map(read);
  const found = recipes.filter((recipe) => compiled.some((source) => source.includes(recipe)));
  assert.deepEqual([recipes.length, found], [3, recipes]);
});

test('the documented stack policy denies only updates that leave a queue behind', () => {
  const page = readFileSync(join(__dirname, '../../docs/deploy/upgrade.md'), 'utf8');
  const policy = JSON.parse(/```json\n(\{\n  "Statement"[^]*?)```/.exec(page)?.[1] ?? '{}');
  assert.deepEqual(policy, {
    Statement: [
      { Effect: 'Allow', Action: 'Update:*', Principal: '*', Resource: '*' },
      {
        Effect: 'Deny',
        Action: ['Update:Replace', 'Update:Delete'],
        Principal: '*',
        Resource: '*',
        Condition: { StringEquals: { ResourceType: ['AWS::SQS::Queue'] } },
      },
    ],
  });
});
