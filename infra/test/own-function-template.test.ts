import * as lambda from 'aws-cdk-lib/aws-lambda';
import { Template } from 'aws-cdk-lib/assertions';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parse } from 'yaml';

import { OWN_OPTIONS, ownFunctionTemplate, ownFunctionTemplateFile, PARAMETERS } from '../template/own-function';
import type { JsonObject } from '../template/merge';
import { holds, resolveSection } from './cloudformation';
import { grants, makeReadable, referencesOf } from './stack-exact';
import { fakeBundles } from './stack-support';

const FROM = { architecture: lambda.Architecture.ARM_64, bundles: fakeBundles() };
const FILE: any = parse(ownFunctionTemplateFile(FROM), { version: '1.1' });
const { Conditions, Resources, Outputs } = FILE;

const ofType = (type: string): any[] => Object.values<any>(Resources).filter(({ Type }) => Type === type);
const properties = (type: string): any[] => ofType(type).map(({ Properties }) => Properties);

/** Removes the settings' fingerprint from the id of the resource that checks a queue: the file has all settings. */
function withoutFingerprint(section: any): any {
  return JSON.parse(JSON.stringify(section).replaceAll(/Check[0-9a-f]{8}[0-9A-F]{8}"/g, 'Check"'));
}

/** Parameters that add all options, or only these. */
function parametersOf(all: boolean, others: Record<string, string> = {}): Record<string, string> {
  const given = [
    'AlarmTopicArn', 'KmsKeyArn', 'ProducerPrincipals', 'PermissionsBoundaryArn', 'VpcSubnetIds', 'ArchiveBucket', 'ArchiveKeyArn', 'NotifyArn',
    'NotifyKeyArn', 'LogKeyArn', 'EnvironmentKeyArn',
  ].map((name) => [name, all ? 'given' : '']);
  return { ...Object.fromEntries(given), Tracing: String(all), ReadsQueue: 'true', SourceQueueArn: '', ...others };
}

test("with and without options, the file equals the construct's output for a new and an existing queue, without the function", () => {
  for (const [options, source] of [[OWN_OPTIONS, 'new'], [[], 'new'], [OWN_OPTIONS, 'existing'], [[], 'existing']] as const) {
    const made = ownFunctionTemplate(FROM, options, source);
    const parameters = parametersOf(options.length > 0, { SourceQueueArn: source === 'existing' ? 'given' : '' });
    const resources = (section: JsonObject) => withoutFingerprint(resolveSection(section, Conditions, parameters));
    assert.deepEqual(resources(Resources), resources(made.Resources));
    assert.deepEqual(resolveSection(Outputs, Conditions, parameters), resolveSection(made.Outputs, Conditions, parameters));
  }
});

test('the template neither creates nor references the function, its role or its log group', () => {
  const withNewQueue = ofType('AWS::Lambda::Function').filter(({ Condition }) => Condition !== 'TakesQueue');
  assert.deepEqual(withNewQueue.map(({ Properties }) => Properties.Code).sort(), [
    'redeliver-failed-message-processor-arm64.zip',
    'redeliver-final-dlq-annotator-arm64.zip',
  ]);
  // The third role and the third log group belong to the function that sets an existing queue's attributes.
  assert.equal(ofType('AWS::IAM::Role').length, 3);
  assert.equal(ofType('AWS::Logs::LogGroup').length, 3);
  const known = [...Object.keys(Resources), ...Object.keys(PARAMETERS), 'AWS'];
  assert.deepEqual(referencesOf(Resources).filter((id) => !known.includes(id.split('::')[0] ?? id)), []);
  assert.ok(!JSON.stringify(FILE).includes('prefix-of-the-template'));
});

test("the function's role gets a message-processor's permissions in a policy of this deployment", () => {
  const [rights, ...others] = properties('AWS::IAM::Policy').filter(({ Roles }) => JSON.stringify(Roles) === '[{"Ref":"RoleName"}]');
  assert.equal(others.length, 0);
  assert.deepEqual(rights.PolicyName, { 'Fn::Sub': '${Prefix}-messages' });
  const role = { Type: 'AWS::IAM::Role', Properties: {} };
  const rightsWith = (KmsKeyArn: string): string[] => {
    const ofOptions = resolveSection(Resources, Conditions, parametersOf(false, { KmsKeyArn })) as JsonObject;
    return grants(Template.fromJSON(JSON.parse(JSON.stringify({ Resources: { ...ofOptions, RoleName: role } }))), 'RoleName');
  };
  assert.deepEqual(rightsWith('given').filter((right) => right.includes('kms')), ['Allow kms:Decrypt on {KmsKeyArn}', 'Allow kms:GenerateDataKey on {KmsKeyArn}']);
  assert.deepEqual(rightsWith(''), [
    'Allow sqs:ChangeMessageVisibility on {RedeliverSourceQueue.Arn}',
    'Allow sqs:DeleteMessage on {RedeliverSourceQueue.Arn}',
    'Allow sqs:GetQueueAttributes on {RedeliverSourceQueue.Arn}',
    'Allow sqs:GetQueueUrl on {RedeliverSourceQueue.Arn}',
    'Allow sqs:ReceiveMessage on {RedeliverSourceQueue.Arn}',
    'Allow sqs:SendMessage on {RedeliverAnnotationQueue.Arn}',
    'Allow sqs:SendMessage on {RedeliverIntermediateDlq.Arn}',
    'Allow sqs:SendMessage on {RedeliverSourceQueue.Arn}',
  ]);
  const denied = JSON.stringify(properties('AWS::SQS::QueuePolicy'));
  assert.equal(denied.match(/"Fn::Sub":"arn:\$\{AWS::Partition\}:iam::\$\{AWS::AccountId\}:role\$\{RolePath\}\$\{RoleName\}"/g)?.length, 2);
});

test('an existing queue gets its attributes before it is read', () => {
  const setters = ofType('Custom::RedeliverSourceQueue');
  assert.deepEqual(setters.map(({ Properties }) => [Properties.Step, Properties.QueueArn, Properties.VisibilityTimeout]), [
    ['check', { Ref: 'SourceQueueArn' }, { Ref: 'VisibilityTimeoutSeconds' }],
    ['set', { Ref: 'SourceQueueArn' }, { Ref: 'VisibilityTimeoutSeconds' }],
  ]);
  const hasKey = (KmsKeyArn: string) => setters.map(({ Properties }) => resolveSection(Properties.HasKey, Conditions, { KmsKeyArn }));
  assert.deepEqual([hasKey('given'), hasKey('')], [['true', 'true'], ['false', 'false']]);
  const [mapping] = ofType('AWS::Lambda::EventSourceMapping').filter(({ Properties }) => Properties.FunctionName.Ref === 'FunctionName');
  const { Ref: id } = resolveSection(mapping.Properties.EventSourceArn, Conditions, { SourceQueueArn: 'given' }) as { Ref: string };
  assert.equal(Resources[id].Properties.Step, 'set');
  const withQueue = parametersOf(false, { SourceQueueArn: 'given' });
  const { SourceQueueUrl } = resolveSection(Outputs, Conditions, withQueue) as any;
  assert.ok(JSON.stringify(SourceQueueUrl.Value).includes('SourceQueueArn'));
  const queues = Object.values<any>(resolveSection(Resources, Conditions, withQueue) as JsonObject).filter(({ Type }) => Type === 'AWS::SQS::Queue');
  assert.deepEqual(queues.map(({ Properties }) => Properties.QueueName['Fn::Sub']).sort(), ['${Prefix}-annotation', '${Prefix}-final-dlq', '${Prefix}-intermediate-dlq']);
});

test('ProducerPrincipals is refused with an existing queue', () => {
  const [rule] = FILE.Rules.ProducersAreOfANewQueue.Assertions;
  const isRefused = (parameters: Record<string, string>) => holds(FILE.Rules.ProducersAreOfANewQueue.RuleCondition, Conditions, parameters) && !holds(rule.Assert, Conditions, parameters);
  assert.equal(isRefused({ SourceQueueArn: 'arn:aws:sqs:eu-west-1:111122223333:orders', ProducerPrincipals: '444455556666' }), true);
  assert.equal(isRefused({ SourceQueueArn: '', ProducerPrincipals: '444455556666' }), false);
  assert.equal(isRefused({ SourceQueueArn: 'arn:aws:sqs:eu-west-1:111122223333:orders', ProducerPrincipals: '' }), false);
});

test('the function reads the source queue only with ReadsQueue, and has permission before', () => {
  const [mapping, ...others] = ofType('AWS::Lambda::EventSourceMapping').filter(({ Properties }) => Properties.FunctionName.Ref === 'FunctionName');
  assert.equal(others.length, 0);
  assert.deepEqual(makeReadable(resolveSection(mapping.Properties, Conditions, { SourceQueueArn: '', ReadsQueue: 'true' })), {
    FunctionName: '{FunctionName}',
    EventSourceArn: '{RedeliverSourceQueue.Arn}',
    BatchSize: 10,
    MaximumBatchingWindowInSeconds: 1,
    ScalingConfig: { MaximumConcurrency: '{MaxConcurrency}' },
    FunctionResponseTypes: ['ReportBatchItemFailures'],
  });
  assert.equal(PARAMETERS.ReadsQueue.Default, 'false');
  const hasMapping = (ReadsQueue: string) => holds({ Condition: mapping.Condition }, Conditions, { ReadsQueue });
  assert.deepEqual(['true', 'false'].map(hasMapping), [true, false]);
  assert.deepEqual(mapping.DependsOn.map((id: string) => Resources[id].Type), ['AWS::IAM::Policy']);
  const timeouts = properties('AWS::SQS::Queue').map(({ QueueName, VisibilityTimeout }) => [QueueName['Fn::Sub'], VisibilityTimeout]);
  assert.deepEqual(Object.fromEntries(timeouts)['${Prefix}-source'], { Ref: 'VisibilityTimeoutSeconds' });
});

test('the layer comes from the zip and is retained', () => {
  const [layer] = ofType('AWS::Lambda::LayerVersion');
  assert.deepEqual([layer.Properties.Content, layer.Properties.CompatibleArchitectures], ['redeliver-layer-arm64.zip', ['arm64']]);
  assert.deepEqual([layer.DeletionPolicy, layer.UpdateReplacePolicy], ['Retain', 'Retain']);
  assert.equal(Resources[Outputs.LayerArn.Value.Ref], layer);
});

test("the outputs list the function's variables, with the policy last because it may have several lines", () => {
  const text = makeReadable(resolveSection(Outputs.FunctionVariables.Value, Conditions, { SourceQueueArn: '' }));
  assert.deepEqual(text.split('\n').toSorted(), [
    'ANNOTATION_QUEUE_URL={RedeliverAnnotationQueue}',
    'AWS_LAMBDA_EXEC_WRAPPER=/opt/redeliver',
    'ENVELOPE={Envelope}',
    'INTERMEDIATE_DLQ_URL={RedeliverIntermediateDlq}',
    'MESSAGE_ID_POINTER={MessageIdPointer}',
    'RESEND_SENDER_IDS={RoleId},{RedeliverFailedMessageProcessorRole.RoleId}',
    'RETRY_POLICY={Policy}',
    'SOURCE_QUEUE_URL={RedeliverSourceQueue}',
    'STRATEGY=delayed-resend',
  ]);
  assert.match(text, /\nRETRY_POLICY=\{Policy\}$/);
});

test('messages without an envelope are accepted by default', () => {
  assert.deepEqual([PARAMETERS.Envelope.Default, PARAMETERS.Envelope.AllowedValues], ['optional', ['required', 'optional']]);
});

test("the alarm on invalid messages watches the function's own metrics", () => {
  const [alarm] = properties('AWS::CloudWatch::Alarm').filter(({ AlarmName }) => AlarmName['Fn::Sub'] === '${Prefix}-all-invalid');
  const functions = alarm.Metrics.flatMap(({ Id, MetricStat }: any) => (MetricStat ? [[Id, makeReadable(MetricStat.Metric.Dimensions.find(({ Name }: any) => Name === 'Function').Value)]] : []));
  assert.deepEqual(Object.fromEntries(functions), {
    called: '{FunctionName}',
    held: '{FunctionName}',
    died: '{RedeliverFinalDlqAnnotator}',
    notFormat: '{RedeliverFinalDlqAnnotator}',
    notSchema: '{RedeliverFinalDlqAnnotator}',
  });
});

test('an invalid function or role name is refused before anything is created', () => {
  const takes = (name: 'FunctionName' | 'RoleName' | 'RoleId' | 'RolePath', value: string): boolean => new RegExp(`^(?:${PARAMETERS[name].AllowedPattern})$`).test(value);
  assert.deepEqual(['orders', 'arn:aws:lambda:eu-west-1:111122223333:function:orders', 'orders:live', ''].map((value) => takes('FunctionName', value)), [true, false, false, false]);
  assert.deepEqual(['orders-role-a1b2', 'service-role/orders', ''].map((value) => takes('RoleName', value)), [true, false, false]);
  assert.deepEqual(['AROAEXAMPLEEXAMPLE123', 'AIDAEXAMPLEEXAMPLE123', 'orders-role', ''].map((value) => takes('RoleId', value)), [true, false, false, false]);
  assert.deepEqual(['/', '/service-role/', '/a/b/', 'service-role', '/service-role', ''].map((value) => takes('RolePath', value)), [true, true, true, false, false, false]);
});
