import * as lambda from 'aws-cdk-lib/aws-lambda';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';

import { Strategy } from '../lib/index';
import { policyProblems } from '../lib/schemas';
import { type Json, type JsonObject, mergeTemplates, type Template } from '../template/merge';
import { OPTION_NAMES, type OptionName, PARAMETERS, RULES } from '../template/parameters';
import { orderedTemplate, orderedTemplateFile, PARAMETERS as ORDERED_PARAMETERS } from '../template/ordered';
import { ownFunctionTemplateFile, PARAMETERS as OWN_FUNCTION_PARAMETERS } from '../template/own-function';
import { templateFile, type Variant, variantTemplate } from '../template/template';
import { holds, resolveSection } from './cloudformation';
import { makeReadable } from './stack-exact';
import { fakeBundles, HTTP, templateWith } from './stack-support';

const FROM = { architecture: lambda.Architecture.ARM_64, bundles: fakeBundles() };
const FILE = templateFile(FROM);
const ORDERED_FILE = orderedTemplateFile(FROM);
const ZIPS = ['message-processor', 'failed-message-processor', 'final-dlq-annotator'].map((name) => `redeliver-${name}-arm64.zip`);

const TARGETS: Record<Variant['target'], Record<string, string>> = {
  url: { TargetUrl: 'https://orders.example.com/hook' },
  function: { TargetFunctionArn: 'arn:aws:lambda:eu-west-1:111122223333:function:orders' },
};
/** The parameters that add each option. */
const GIVEN: Record<OptionName, Record<string, string>> = {
  HasHeaders: { HeadersSecretArn: 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:headers-AbCdEf' },
  HasKey: { KmsKeyArn: 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000001' },
  HasProducers: { ProducerPrincipals: '444455556666,arn:aws:iam::777788889999:role/shop' },
  IsInVpc: { VpcSubnetIds: 'subnet-0a,subnet-0b', VpcSecurityGroupIds: 'sg-0a' },
  HasBoundary: { PermissionsBoundaryArn: 'arn:aws:iam::111122223333:policy/boundary' },
  IsTraced: { Tracing: 'true' },
  TellsTopic: { AlarmTopicArn: 'arn:aws:sns:eu-west-1:111122223333:alarms' },
  HasArchive: { ArchiveBucket: 'dead-letters-of-the-shop', ArchiveBucketOwner: '444455556666', ArchivePrefix: 'redeliver/', ArchiveOmit: '/customer/email,/card' },
  HasArchiveKey: { ArchiveKeyArn: 'arn:aws:kms:eu-west-1:444455556666:key/0191f3a2-7b1c-7d3e-8f00-000000000002' },
  HasNotices: { NotifyArn: 'arn:aws:sns:eu-west-1:111122223333:notices' },
  HasNotifyKey: { NotifyKeyArn: 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000003' },
  HasLogKey: { LogKeyArn: 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000004' },
  HasEnvironmentKey: { EnvironmentKeyArn: 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000005' },
};
/** The option that each of these options requires. */
const NEEDED: { readonly [K in OptionName]?: OptionName } = { HasArchiveKey: 'HasArchive', HasNotifyKey: 'HasNotices' };

/**
 * Yields each variant with no options and with all; and one variant with each option alone and with each related pair.
 */
function* choices(): Generator<readonly [Variant, readonly OptionName[]]> {
  for (const strategy of [Strategy.DELAYED_RESEND, Strategy.DIRECT_RESEND]) {
    for (const target of ['url', 'function'] as const) {
      yield [{ strategy, target }, []];
      yield [{ strategy, target }, OPTION_NAMES.filter((name) => name !== 'HasHeaders' || target === 'url')];
    }
  }
  for (const name of OPTION_NAMES) {
    const needed = NEEDED[name];
    yield [{ strategy: Strategy.DELAYED_RESEND, target: 'url' }, needed ? [needed, name] : [name]];
  }
  yield [{ strategy: Strategy.DELAYED_RESEND, target: 'url' }, ['HasArchive', 'HasNotices']];
}

test("for each choice of parameters the template equals the construct's output", () => {
  const { Conditions, Resources, Outputs } = parse(FILE, { version: '1.1' });
  const different = new Set<string>();
  for (const [variant, options] of choices()) {
    const made = variantTemplate(FROM, variant, options);
    different.add(JSON.stringify(made));
    const given = Object.assign({ Strategy: variant.strategy, Tracing: 'false', ...TARGETS[variant.target] }, ...options.map((name) => GIVEN[name]));
    const parameters = withDefaults(given);
    assert.deepEqual(refusals(given), []);
    const named = JSON.stringify([variant, options]);
    assert.deepEqual(resolveSection(Resources, Conditions, parameters), resolveSection(made.Resources, made.Conditions, parameters), named);
    assert.deepEqual(resolveSection(Outputs, Conditions, parameters), made.Outputs, named);
  }
  assert.equal(different.size, 8 + OPTION_NAMES.length + 1, 'each is another one');
});

test("for each choice of parameters the ordered template equals the construct's output", () => {
  const { Parameters, Rules, Conditions, Resources, Outputs } = parse(ORDERED_FILE, { version: '1.1' });
  assert.deepEqual([Parameters, Rules], JSON.parse(JSON.stringify([ORDERED_PARAMETERS, RULES])));
  const different = new Set<string>();
  for (const [{ strategy, target }, options] of choices()) {
    if (strategy === Strategy.DELAYED_RESEND) {
      const made = orderedTemplate(FROM, target, options);
      different.add(JSON.stringify(made));
      const parameters = withDefaults(Object.assign({ Tracing: 'false', ...TARGETS[target] }, ...options.map((name) => GIVEN[name])), ORDERED_PARAMETERS);
      const named = JSON.stringify([target, options]);
      assert.deepEqual(resolveSection(Resources, Conditions, parameters), resolveSection(made.Resources, made.Conditions, parameters), named);
      assert.deepEqual(resolveSection(Outputs, Conditions, parameters), made.Outputs, named);
    }
  }
  assert.equal(different.size, 4 + OPTION_NAMES.length + 1, 'each is another one');
});

test("the ordered template has its queues, two functions and the parameters' resources", () => {
  const { Resources } = parse(ORDERED_FILE, { version: '1.1' });
  const ofType = (type: string): any[] => Object.values<any>(Resources).filter(({ Type }) => Type === type).map(({ Properties }) => Properties);
  const names = ofType('AWS::SQS::Queue').filter(({ FifoQueue }) => FifoQueue).map(({ QueueName }) => QueueName['Fn::Sub']);
  assert.deepEqual(names.toSorted().slice(-2), ['${Prefix}-source-dlq.fifo', '${Prefix}-source.fifo']);
  assert.deepEqual(ofType('AWS::Lambda::Function').map(({ Code }) => Code).sort(), ZIPS.filter((zip) => !zip.includes('failed')).sort());
  const { STRATEGY, BATCH_SIZE, RETRY_POLICY } = ofType('AWS::Lambda::Function').find(({ Handler }) => Handler === 'message-processor').Environment.Variables;
  assert.deepEqual([STRATEGY, BATCH_SIZE, RETRY_POLICY], ['ordered', '1', { Ref: 'Policy' }]);
  const limits = ofType('AWS::Lambda::EventSourceMapping').map(({ EventSourceArn, ScalingConfig }) => [makeReadable(EventSourceArn), ScalingConfig.MaximumConcurrency]);
  assert.deepEqual(Object.fromEntries(limits), {
    '{RedeliverSourceQueue.Arn}': { Ref: 'MaxConcurrency' },
    '{RedeliverAnnotationQueue.Arn}': { Ref: 'InnerConcurrency' },
    '{RedeliverSourceDlq.Arn}': 2,
  });
  assert.ok(!ORDERED_FILE.includes('prefix-of-the-template'));
});

test("the ordered template's defaults are the construct's thresholds", () => {
  const { Resources } = parse(ORDERED_FILE, { version: '1.1' });
  const thresholds = (all: Record<string, any>): Record<string, unknown> => {
    const alarms = Object.values(all).filter(({ Type }) => Type === 'AWS::CloudWatch::Alarm').map(({ Properties }) => Properties);
    return Object.fromEntries(alarms.map(({ AlarmName, Threshold }) => [(AlarmName['Fn::Sub'] ?? AlarmName).replace(/^(\$\{Prefix\}|redeliver-prod)-/, ''), Threshold]));
  };
  const made = thresholds(templateWith(() => ({ ...HTTP, strategy: Strategy.ORDERED, bundles: FROM.bundles })).toJSON()['Resources']);
  const given = Object.entries(thresholds(Resources)).filter(([, threshold]) => typeof threshold === 'object');
  assert.deepEqual(Object.fromEntries(given), {
    'source-queue-waits-too-long': { Ref: 'GroupWaitAlarmSeconds' },
    'message-processor-sees-old-messages': { Ref: 'MessageAgeAlarmSeconds' },
  });
  for (const [name, parameter] of given) {
    assert.equal(ORDERED_PARAMETERS[(parameter as { Ref: 'GroupWaitAlarmSeconds' }).Ref].Default, made[name]);
  }
});

test('with every option set, each part follows its parameter', () => {
  const made = variantTemplate(FROM, { strategy: Strategy.DELAYED_RESEND, target: 'url' }, OPTION_NAMES);
  const ofType = (type: string): any[] => Object.values<any>(made.Resources).filter(({ Type }) => Type === type).map(({ Properties }) => Properties);
  const [processor] = ofType('AWS::Lambda::Function').filter(({ Handler }) => Handler === 'message-processor');
  assert.deepEqual(processor.VpcConfig, {
    SecurityGroupIds: { 'Fn::Split': [',', { Ref: 'VpcSecurityGroupIds' }] },
    SubnetIds: { 'Fn::Split': [',', { Ref: 'VpcSubnetIds' }] },
  });
  assert.deepEqual(ofType('AWS::IAM::Role').map(({ PermissionsBoundary }) => PermissionsBoundary), Array(3).fill({ Ref: 'PermissionsBoundaryArn' }));
  assert.deepEqual(ofType('AWS::SQS::Queue').map(({ KmsMasterKeyId }) => KmsMasterKeyId), Array(4).fill({ Ref: 'KmsKeyArn' }));
  const statements = ofType('AWS::SQS::QueuePolicy').flatMap(({ PolicyDocument }) => PolicyDocument.Statement);
  const producers = statements.filter(({ Effect }) => Effect === 'Allow').map(({ Sid, Principal, Action, Resource }) => [Sid, Principal, Action, Resource['Fn::GetAtt'][0]]);
  const [source] = Object.keys(made.Resources).filter((id) => id.includes('SourceQueue') && !id.includes('Policy') && !id.includes('Event'));
  assert.deepEqual(producers, [['ProducersSend', { AWS: { 'Fn::Split': [',', { Ref: 'ProducerPrincipals' }] } }, 'sqs:SendMessage', source]]);
});

test('an archive, notices and both add only what they need', () => {
  const { Conditions, Resources } = parse(FILE, { version: '1.1' });
  const plainly = resolveSection(Resources, Conditions, withDefaults({ ...TARGETS.url })) as Record<string, any>;
  const added = (given: Record<string, string>): unknown => {
    const made = resolveSection(Resources, Conditions, withDefaults({ ...TARGETS.url, ...given })) as Record<string, any>;
    const [annotator, role] = ['AWS::Lambda::Function', 'AWS::IAM::Policy'].map((type) =>
      Object.keys(made).find((id) => made[id].Type === type && id.includes('FinalDlqAnnotator')) ?? assert.fail(type),
    ) as [string, string];
    const statements: any[] = made[role].Properties.PolicyDocument.Statement;
    return {
      resources: Object.keys(made).filter((id) => !(id in plainly)).map((id) => made[id].Type),
      variables: Object.entries(made[annotator].Properties.Environment.Variables).slice(1),
      rights: makeReadable(statements.filter(({ Action }) => !/^(sqs|logs|xray):/.test([Action].flat()[0]))),
      onDashboard: JSON.stringify(made).match(/"Fn::GetAtt":\["\w*Alarm\w*(?=","Arn")/g)?.length,
    };
  };
  const bucket = 'arn:{AWS::Partition}:s3:::{ArchiveBucket}';
  const allow = (Action: unknown, Resource: string): unknown => ({ Action, Effect: 'Allow', Resource });
  const owned = (account: unknown): unknown => ({
    ...(allow('s3:PutObject', `${bucket}/{ArchivePrefix}dead-letters/*`) as object),
    Condition: { Null: { 's3:if-none-match': 'false' }, StringEquals: { 'aws:ResourceAccount': account } },
  });
  const put = owned('{ArchiveBucketOwner}');
  const onlyNotices = { 'ForAllValues:StringEquals': { 'events:source': 'redeliver', 'events:detail-type': 'Redeliver Cause Appeared' } };
  const publish = { ...(allow(['events:PutEvents', 'sns:Publish'], '{NotifyArn}') as object), Condition: onlyNotices };
  const alarm = 'AWS::CloudWatch::Alarm';
  const parameters = { ARCHIVE_BUCKET: 'ArchiveBucket', ARCHIVE_BUCKET_OWNER: 'ArchiveBucketOwner', ARCHIVE_PREFIX: 'ArchivePrefix', ARCHIVE_OMIT: 'ArchiveOmit' };
  const archived = Object.entries(parameters).map(([name, Ref]) => [name, { Ref }]);
  const notified = ['NOTIFY_ARN', { Ref: 'NotifyArn' }];
  const [archiveKey, topicKey] = [allow('kms:GenerateDataKey', '{ArchiveKeyArn}'), allow(['kms:Decrypt', 'kms:GenerateDataKey'], '{NotifyKeyArn}')];
  assert.deepEqual(added({}), { resources: [], variables: [], rights: [], onDashboard: 24 });
  assert.deepEqual(added({ ...GIVEN.HasArchive, ...GIVEN.HasArchiveKey }), { resources: [alarm], variables: archived, rights: [put, archiveKey], onDashboard: 25 });
  assert.deepEqual(added({ ...GIVEN.HasNotices, ...GIVEN.HasNotifyKey }), { resources: [alarm], variables: [notified], rights: [publish, topicKey], onDashboard: 25 });
  assert.deepEqual(added(GIVEN.HasArchive), { resources: [alarm], variables: archived, rights: [put], onDashboard: 25 });
  assert.deepEqual(added(GIVEN.HasNotices), { resources: [alarm], variables: [notified], rights: [publish], onDashboard: 25 });
  assert.deepEqual(added({ ...GIVEN.HasArchive, ...GIVEN.HasNotices }), {
    resources: [alarm, alarm],
    variables: [...archived, notified],
    rights: [put, publish],
    onDashboard: 26,
  });
});

test('the given policy is passed to every deciding function, and no name is fixed', () => {
  const text = JSON.stringify(parse(FILE, { version: '1.1' }));
  assert.equal(text.match(/"RETRY_POLICY":/g)?.length, 2);
  assert.equal(text.match(/"RETRY_POLICY":\{"Ref":"Policy"\}/g)?.length, 2);
  for (const [variable, parameter] of [['TENANT_ISOLATION', 'TenantIsolation'], ['DURABLE', 'DurableFunction']]) {
    assert.deepEqual(text.match(new RegExp(`"TARGET_${variable}":[^}]*}`, 'g')), [
      `"TARGET_${variable}":{"Fn::If":["CallsFunction",{"Ref":"${parameter}"}`,
    ]);
  }
  assert.equal(text.split('"TARGET_ERROR_EXCERPT":{"Fn::If":["CallsFunction",{"Ref":"AWS::NoValue"},{"Ref":"ErrorExcerpt"}]}').length, 2);
  assert.equal(text.match(/"Threshold":\{"Ref":"MessageAgeAlarmSeconds"\}/g)?.length, 2);
  assert.equal(text.match(/A message is older than MessageAgeAlarmSeconds\./g)?.length, 2);
  assert.equal(text.match(/A message is older than 80 %/g)?.length, 1, 'only the annotator, which has no parameter');
  assert.deepEqual([...text.matchAll(/"Code":"(.*?)"/g)].map(([, zip]) => zip).sort(), ZIPS.toSorted());
  assert.ok(!text.includes('prefix-of-the-template'));
});

test('a change of Strategy changes no permission, so no send is refused meanwhile', () => {
  const { Resources } = parse(FILE, { version: '1.1' }) as { Resources: Record<string, any> };
  const rights = Object.values(Resources).filter(({ Type }) => Type === 'AWS::IAM::Policy' || Type === 'AWS::SQS::QueuePolicy');
  assert.ok(rights.length > 0 && !JSON.stringify(rights).includes('IsDirectResend'));
});

test('the given concurrency applies to the mappings and the backlog alarm', () => {
  const made: any[] = Object.values(parse(FILE, { version: '1.1' }).Resources);
  const limits = made.filter(({ Type }) => Type === 'AWS::Lambda::EventSourceMapping').map(({ Properties }) => Properties['ScalingConfig']);
  assert.deepEqual(limits, ['MaxConcurrency', 'InnerConcurrency', 'InnerConcurrency'].map((Ref) => ({ MaximumConcurrency: { Ref } })));
  const [backlog] = made.filter(({ Properties }) => JSON.stringify(Properties['AlarmName'])?.includes('-intermediate-dlq-backlog'));
  assert.deepEqual(backlog.Properties.Threshold, { 'Fn::Sub': '${InnerConcurrency}00' });
});

const PATTERNS: Record<string, { readonly takes: readonly string[]; readonly refuses: readonly string[] }> = {
  Prefix: { takes: ['redeliver', 'Orders-2'], refuses: ['', '2nd', 'orders_eu', 'orders.eu'] },
  TargetUrl: {
    takes: [
      '',
      'https://orders.example.com/hook',
      'https://orders.example.com:8443/?a=b',
      'http://127.0.0.1:8000/hook',
    ],
    refuses: [
      'http://orders.example.com/',
      'https://user:password@example.com/',
      'https://example.com/#here',
      'https://',
      'orders.example.com',
    ],
  },
  TargetFunctionArn: {
    takes: [
      '',
      'arn:aws:lambda:eu-west-1:111122223333:function:orders',
      'arn:aws-cn:lambda:cn-north-1:111122223333:function:orders:live',
    ],
    refuses: ['orders', 'arn:aws:lambda:eu-west-1:1111:function:orders', 'arn:aws:sqs:eu-west-1:111122223333:orders'],
  },
  HeadersSecretArn: {
    takes: ['', 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:team/headers-AbCdEf'],
    refuses: ['headers', 'arn:aws:secretsmanager:eu-west-1:111122223333:secret:headers'],
  },
  ErrorExcerpt: { takes: ['', '/type', '/type,/errors/0/code'], refuses: ['type', '/type, /title', '/a~2', '/a,/b,/c,/d,/e,/f,/g,/h,/i'] },
  Policy: { takes: ['{}', '{\n  "max_attempts": 3\n}', '{}\n'], refuses: ['', 'policy.json', '[]'] },
  MessageIdPointer: { takes: ['', '/id', '/detail/a~1b'], refuses: ['id', '/a~2', 'detail/id'] },
  KmsKeyArn: {
    takes: ['', 'arn:aws-us-gov:kms:us-gov-west-1:111122223333:key/mrk-0123'],
    refuses: ['alias/orders', 'arn:aws:kms:eu-west-1:111122223333:alias/orders'],
  },
  ProducerPrincipals: {
    takes: ['', '111122223333', '111122223333,arn:aws:iam::444455556666:role/team/shop'],
    refuses: ['*', 'sns.amazonaws.com', '111122223333,', '111122223333, 444455556666', 'arn:aws:iam::444455556666:role/*'],
  },
  ArchiveBucket: { takes: ['', 'dead-letters', 'a.b-3'], refuses: ['s3://dead-letters', 'Dead', 'ab', 'arn:aws:s3:::dead-letters', 'dead-letters/'] },
  ArchiveBucketOwner: { takes: ['', '444455556666'], refuses: ['44445555666', '4444555566667', 'amazon'] },
  ArchivePrefix: { takes: ['', 'redeliver/', 'a/b=c/', "!_.'()-/"], refuses: ['redeliver', '/redeliver/', '/', 'a*/', 'a b/'] },
  ArchiveOmit: {
    takes: ['', '/card', '/customer/email,/a~1b', Array(50).fill('/a').join()],
    refuses: ['card', '/a,', '/a, /b', '/a~2', Array(51).fill('/a').join()],
  },
  NotifyArn: {
    takes: ['', 'arn:aws:sns:eu-west-1:111122223333:notices', 'arn:aws-cn:events:cn-north-1:111122223333:event-bus/default', 'arn:aws:events:eu-west-1:111122223333:event-bus/team/ops.1'],
    refuses: ['notices', 'arn:aws:sns:eu-west-1:111122223333:notices.fifo', 'arn:aws:events:eu-west-1:111122223333:rule/notices', 'arn:aws:sqs:eu-west-1:111122223333:notices'],
  },
  VpcSubnetIds: { takes: ['', 'subnet-0a', 'subnet-0a,subnet-0b'], refuses: ['vpc-0a', 'subnet-0a, subnet-0b'] },
  VpcSecurityGroupIds: { takes: ['', 'sg-0a,sg-0b'], refuses: ['default', 'sg-0a,'] },
  PermissionsBoundaryArn: {
    takes: ['', 'arn:aws:iam::aws:policy/PowerUserAccess', 'arn:aws:iam::111122223333:policy/team/boundary'],
    refuses: ['boundary', 'arn:aws:iam::111122223333:role/boundary'],
  },
  AlarmTopicArn: {
    takes: ['', 'arn:aws:sns:eu-west-1:111122223333:alarms'],
    refuses: ['alarms', 'arn:aws:sns:eu-west-1:111122223333:'],
  },
};

test('a parameter that would stop the functions is refused before anything is created', () => {
  for (const [name, { takes, refuses }] of Object.entries(PATTERNS)) {
    const { AllowedPattern } = PARAMETERS[name as 'Prefix'];
    // CloudFormation matches the pattern against the complete value.
    const pattern = new RegExp(`^(?:${AllowedPattern})$`);
    takes.forEach((value) => assert.match(value, pattern, name));
    refuses.forEach((value) => assert.doesNotMatch(value, pattern, `${name}: ${value}`));
  }
  // The longest name that Lambda accepts.
  assert.equal('-failed-message-processor'.length + PARAMETERS.Prefix.MaxLength, 64);
});

test('a target must be exactly one, with headers only for a URL and modes only for a function', () => {
  const { url } = TARGETS;
  const secret = GIVEN.HasHeaders;
  const both = 'Give either TargetUrl or TargetFunctionArn, or neither if the secret of HeadersSecretArn has the URL.';
  assert.deepEqual(refusals(url), []);
  assert.deepEqual(refusals({ ...url, ...secret }), []);
  assert.deepEqual(refusals(secret), [], 'the URL is in the secret');
  assert.deepEqual(refusals({ ...TARGETS.function }), []);
  assert.deepEqual(refusals({}), [both]);
  assert.deepEqual(refusals({ ...url, ...TARGETS.function }), [both]);
  const noHeaders = 'Remove HeadersSecretArn: a Lambda function gets no headers.';
  assert.deepEqual(refusals({ ...TARGETS.function, ...secret }), [noHeaders]);
  const excerpt = { ErrorExcerpt: '/type,/title' };
  const noExcerpt = 'Remove ErrorExcerpt: the error of a Lambda function has a name and a text.';
  assert.deepEqual(refusals({ ...TARGETS.function, ...excerpt }), [noExcerpt]);
  assert.deepEqual([...refusals({ ...url, ...excerpt }), ...refusals({ ...secret, ...excerpt })], []);
  const noModes = 'Remove TenantIsolation and DurableFunction: they are for TargetFunctionArn.';
  for (const mode of ['TenantIsolation', 'DurableFunction'].map((name) => ({ [name]: 'true' }))) {
    assert.deepEqual(refusals({ ...TARGETS.function, ...mode }), []);
    assert.deepEqual(refusals({ ...url, ...mode }), [noModes]);
    assert.deepEqual(refusals({ ...secret, ...mode }), [noModes]);
  }
});

test('ArchivePrefix and ArchiveOmit require a bucket', () => {
  const { url } = TARGETS;
  const bucket = 'Give ArchiveBucket, or remove ArchiveBucketOwner, ArchiveKeyArn, ArchivePrefix and ArchiveOmit.';
  const { ArchiveBucket, ...others } = { ...GIVEN.HasArchive, ...GIVEN.HasArchiveKey };
  for (const [name, value] of Object.entries(others)) {
    assert.deepEqual(refusals({ ...url, [name]: value }), [bucket]);
    assert.deepEqual(refusals({ ...url, [name]: value, ArchiveBucket: ArchiveBucket ?? '' }), []);
  }
});

test("a topic's key requires a topic", () => {
  const { url } = TARGETS;
  const topic = 'Give the topic of NotifyKeyArn as NotifyArn, or remove NotifyKeyArn: an event bus needs no permission on its key.';
  assert.deepEqual(refusals({ ...url, ...GIVEN.HasNotifyKey }), [topic]);
  assert.deepEqual(refusals({ ...url, ...GIVEN.HasNotices, ...GIVEN.HasNotifyKey }), []);
});

test('each log group has the given retention and key, and each function the given key for its variables', () => {
  const { Conditions, Resources } = parse(FILE, { version: '1.1' });
  const made = (given: Record<string, string>): any[] => Object.values(resolveSection(Resources, Conditions, withDefaults({ ...TARGETS.url, ...given })) as JsonObject);
  const ofType = (type: string, given: Record<string, string>): any[] => made(given).filter(({ Type }) => Type === type).map(({ Properties }) => Properties);
  const groups = (given: Record<string, string>): unknown[] => ofType('AWS::Logs::LogGroup', given).map(({ RetentionInDays, KmsKeyId }) => [RetentionInDays, KmsKeyId]);
  const retention = { Ref: 'LogRetentionDays' };
  assert.deepEqual(groups({}), Array(3).fill([retention, undefined]));
  assert.deepEqual(groups(GIVEN.HasLogKey), Array(3).fill([retention, { Ref: 'LogKeyArn' }]));
  const keys = (given: Record<string, string>): unknown[] => ofType('AWS::Lambda::Function', given).map(({ KmsKeyArn }) => KmsKeyArn);
  assert.deepEqual(keys({}), Array(3).fill(undefined));
  assert.deepEqual(keys(GIVEN.HasEnvironmentKey), Array(3).fill({ Ref: 'EnvironmentKeyArn' }));
  const { Default, AllowedValues } = PARAMETERS.LogRetentionDays;
  assert.deepEqual([Default, AllowedValues.length, AllowedValues.at(0), AllowedValues.at(-1)], [30, 22, 1, 3653]);
});

test("the outputs include each function's role", () => {
  const names = (file: string): string[] => Object.keys(parse(file, { version: '1.1' }).Outputs).filter((name) => name.endsWith('RoleArn'));
  assert.deepEqual(names(FILE), ['MessageProcessorRoleArn', 'FailedMessageProcessorRoleArn', 'FinalDlqAnnotatorRoleArn']);
  assert.deepEqual(names(ORDERED_FILE), ['MessageProcessorRoleArn', 'FinalDlqAnnotatorRoleArn']);
  assert.deepEqual(names(ownFunctionTemplateFile(FROM)), ['FailedMessageProcessorRoleArn', 'FinalDlqAnnotatorRoleArn', 'SourceQueueSetterRoleArn']);
});

test('MessageIdPointer requires Envelope optional, and a VPC requires subnets and groups', () => {
  const { url } = TARGETS;
  const envelope = 'Set Envelope to optional, or remove MessageIdPointer: an envelope has its own id.';
  assert.deepEqual(refusals({ ...url, MessageIdPointer: '/id' }), [envelope]);
  assert.deepEqual(refusals({ ...url, MessageIdPointer: '/id', Envelope: 'optional' }), []);
  assert.deepEqual(refusals({ ...url, Envelope: 'optional' }), []);
  const both = 'Give both VpcSubnetIds and VpcSecurityGroupIds, or neither.';
  assert.deepEqual(refusals({ ...url, VpcSubnetIds: 'subnet-0a' }), [both]);
  assert.deepEqual(refusals({ ...url, VpcSecurityGroupIds: 'sg-0a' }), [both]);
});

const PAGE = readFileSync(join(__dirname, '../../docs/template.md'), 'utf8');

test("the page's example is accepted by the template and the functions", () => {
  const [, example = ''] = /```yaml\n(.*?)```/s.exec(PAGE) ?? [];
  const given: Record<string, string> = parse(example);
  assert.deepEqual(Object.keys(given), ['Prefix', 'TargetUrl', 'Policy']);
  assert.deepEqual(refusals(given), []);
  assert.deepEqual(policyProblems(JSON.parse(given['Policy'] ?? '')), []);
});

test('the page lists each parameter with its default', () => {
  const [page = '', ofOwnFunction = '', ofOrdered = ''] = PAGE.split(/\n## (?:Your own function|Ordered)\n/);
  assertExplained(page, PARAMETERS);
  type Parameter = { readonly Type: string; readonly Default?: string | number };
  const first: Record<string, Parameter> = PARAMETERS;
  const own = Object.entries<Parameter>(OWN_FUNCTION_PARAMETERS);
  assertExplained(ofOwnFunction, Object.fromEntries(own.filter(([name, { Default }]) => first[name] === undefined || first[name].Default !== Default)));
  const [, without = ''] = /without\s+(.*?)\. /s.exec(ofOwnFunction.slice(ofOwnFunction.indexOf('The other parameters are the same as'))) ?? [];
  const missing = Object.keys(PARAMETERS).filter((name) => !(name in OWN_FUNCTION_PARAMETERS));
  assert.deepEqual([...without.matchAll(/`(\w+)`/g)].map(([, name]) => name), missing);
  const { MessageAgeAlarmSeconds, GroupWaitAlarmSeconds, ...others } = ORDERED_PARAMETERS;
  assertExplained(ofOrdered, { MessageAgeAlarmSeconds, GroupWaitAlarmSeconds });
  const { MessageAgeAlarmSeconds: _age, Strategy: _strategy, ...same } = PARAMETERS;
  assert.deepEqual(others, same);
});

function assertExplained(page: string, parameters: JsonObject): void {
  const rows = [...page.matchAll(/^\| `(\w+)` \|.*\| (.*) \|$/gm)].map(([, name = '', documented = '']) => [name, documented]);
  assert.deepEqual(rows.map(([name]) => name), Object.keys(parameters));
  for (const [name = '', documented = ''] of rows) {
    const { Default = 'required' } = parameters[name] as { readonly Default?: string | number };
    assert.ok(Default === '' ? !documented.startsWith('`') : documented.replaceAll('`', '').startsWith(String(Default)), name);
  }
}

const TERRAFORM_PAGE = readFileSync(join(__dirname, '../../docs/terraform.md'), 'utf8');
const [TERRAFORM = '', TERRAFORM_OWN = ''] = ['stack', 'own-function'].map((name) => readFileSync(join(__dirname, `../../examples/terraform/${name}.tf`), 'utf8'));
/** The zips that Terraform uploads: for the template, and for the user's own function. */
const [TERRAFORM_NAMES = [], TERRAFORM_OWN_NAMES = []] = [TERRAFORM, TERRAFORM_OWN].map((file) => {
  const [, names = ''] = /toset\(\[(.*?)\]\)/s.exec(file) ?? [];
  return [...names.matchAll(/"(\S+?)"/g)].map(([, name]) => name);
});

/** Returns the zips that Terraform finds in a template. */
function zipsFoundByTerraform(configuration: string, file: string): (string | undefined)[] {
  const [, sought = ''] = /"\/(\(Code\|Content\): .*)\/",/.exec(configuration) ?? [];
  return [...file.matchAll(new RegExp(`^ {6}${sought}$`, 'gm'))].map(([, , name]) => name).toSorted();
}

test("for the user's own function and queue, Terraform has the zips, the parameters and the outputs", () => {
  const file = ownFunctionTemplateFile(FROM);
  const { Outputs, Parameters } = parse(file, { version: '1.1' });
  assert.deepEqual(zipsFoundByTerraform(TERRAFORM_OWN, file), TERRAFORM_OWN_NAMES.toSorted());
  assert.equal(file.match(/[.]zip$/gm)?.length, TERRAFORM_OWN_NAMES.length);
  assert.ok(TERRAFORM_PAGE.includes('`redeliver-own-function-arm64.template.yaml`'));
  assert.ok(TERRAFORM_OWN.includes('/redeliver-own-function-arm64.template.yaml"'));
  const [, given = ''] = /parameters = \{(.*?)\n  \}/s.exec(TERRAFORM_OWN) ?? [];
  const names = [...given.matchAll(/^ +(\w+) +=/gm)].map(([, name = '']) => name);
  assert.ok(names.includes('SourceQueueArn'));
  assert.deepEqual(names.filter((name) => !(name in Parameters)), []);
  const required = Object.entries<any>(Parameters).filter(([, { Default }]) => Default === undefined).map(([name]) => name);
  assert.deepEqual(required.filter((name) => !names.includes(name)), []);
  const outputs = [...TERRAFORM_OWN.matchAll(/outputs\["(\w+)"\]/g)].map(([, name = '']) => name);
  assert.deepEqual(outputs, ['LayerArn', 'FunctionVariables']);
  assert.deepEqual(outputs.filter((name) => !(name in Outputs)), []);
});

test('the file has the name that Terraform expects, and is too large to be passed without a bucket', () => {
  const listed = TERRAFORM_NAMES;
  assert.deepEqual(listed.map((name) => `redeliver-${name}-arm64.zip`), ZIPS);
  assert.deepEqual(zipsFoundByTerraform(TERRAFORM, FILE), listed.toSorted());
  assert.equal(FILE.match(/Code:/g)?.length, listed.length);
  assert.doesNotMatch(FILE, /[:-] [&*]/, 'no aliases');
  // The limits for a template in a request and in a bucket, from "CloudFormation quotas".
  assert.ok(FILE.length > 51_200 && FILE.length < 1_000_000, `${FILE.length} bytes`);
  const [, file = ''] = /`(redeliver-ordered-\S+)`/.exec(TERRAFORM_PAGE) ?? [];
  assert.equal(file, 'redeliver-ordered-arm64.template.yaml');
  assert.deepEqual(zipsFoundByTerraform(TERRAFORM, ORDERED_FILE), listed.filter((name) => name !== 'failed-message-processor').toSorted());
  assert.ok(ORDERED_FILE.length < 1_000_000, `${ORDERED_FILE.length} bytes`);
  assert.ok(Object.keys(parse(ORDERED_FILE, { version: '1.1' }).Resources).length <= 500);
});

test('a merged template keeps one of two templates under either value of the condition', () => {
  const numbers = generator(20_261_123);
  const conditions = { Is: { 'Fn::Equals': [{ Ref: 'Parameter' }, 'yes'] } };
  for (let round = 0; round < 2000; round += 1) {
    const base = randomValue(numbers, 3);
    const [on, off] = [changeValue(base, numbers), changeValue(base, numbers)].map(entity);
    const merged = mergeTemplates('Is', only(on ?? {}), only(off ?? {})).Resources;
    assert.deepEqual(resolveSection(merged, conditions, { Parameter: 'yes' }), resolveSection(on ?? {}, {}, {}));
    assert.deepEqual(resolveSection(merged, conditions, { Parameter: 'no' }), resolveSection(off ?? {}, {}, {}));
  }
});

test('a merged resource depends on its dependencies in both templates', () => {
  const waits = (DependsOn: Json): Template => only({ one: { Type: 'AWS::SQS::Queue', DependsOn } });
  const { Resources } = mergeTemplates('Is', waits('a'), waits(['a', 'b']));
  assert.deepEqual(Resources, { one: { Type: 'AWS::SQS::Queue', DependsOn: ['a', 'b'] } });
});

test('differences that no condition can express are refused', () => {
  const one = { Type: 'AWS::SQS::Queue' };
  assert.throws(() => mergeTemplates('Is', only({}), only({ one })), /one exists only if Is does not hold/);
  const another = { one: { Type: 'AWS::SNS::Topic' } };
  assert.throws(() => mergeTemplates('Is', only({ one }), only(another)), /one\/Type is "AWS::SQS::Queue" in one/);
  assert.throws(() => mergeTemplates('Is', only({ one: { ...one, Condition: 'Was' } }), only({})), /one\/Condition/);
});

/** Returns a template without outputs. */
function only(Resources: JsonObject): Template {
  return { Conditions: {}, Resources, Outputs: {} };
}

function withDefaults(given: Record<string, string>, parameters: Record<string, { Default: string | number }> = PARAMETERS): Record<string, string> {
  const defaults = Object.entries(parameters).map(([name, { Default }]) => [name, String(Default)]);
  return { 'AWS::Partition': 'aws', 'AWS::Region': 'eu-west-1', ...Object.fromEntries(defaults), ...given };
}

function refusals(given: Record<string, string>): string[] {
  const parameters = withDefaults(given);
  return Object.values(RULES)
    .filter((rule) => !('RuleCondition' in rule) || holds(rule.RuleCondition, {}, parameters))
    .flatMap(({ Assertions }) => Assertions)
    .filter(({ Assert }) => !holds(Assert, {}, parameters))
    .map(({ AssertDescription }) => AssertDescription);
}

function entity(properties: Json): JsonObject {
  const Text = { 'Fn::Join': ['', splitIntoParts(properties)] };
  return { Thing: { Type: 'AWS::CloudFormation::WaitConditionHandle', Properties: { Value: properties, Text } } };
}

/** Splits the JSON of properties at its commas, and replaces every third part with a reference. */
function splitIntoParts(properties: Json): Json[] {
  const parts = JSON.stringify(properties).split(',');
  return parts.map((part, index) => (index % 3 === 1 ? { Ref: part.replaceAll(/\W/g, '') || 'Empty' } : part));
}

/** Creates a linear congruential generator ("Numerical Recipes"), which returns the same numbers in every run. */
function generator(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

function randomValue(numbers: (below: number) => number, depth: number): Json {
  const several = <T>(make: () => T): T[] => Array.from({ length: numbers(4) }, make);
  switch (numbers(depth > 0 ? 5 : 3)) {
    case 0:
      return numbers(4);
    case 1:
      return `text ${numbers(4)}`;
    case 2:
      return { Ref: `Resource${numbers(3)}` };
    case 3:
      return several(() => randomValue(numbers, depth - 1));
    default:
      return Object.fromEntries(several(() => [`member${numbers(4)}`, randomValue(numbers, depth - 1)]));
  }
}

/** Returns the value with random changes. */
function changeValue(from: Json, numbers: (below: number) => number): Json {
  if (numbers(8) === 0) {
    return randomValue(numbers, 1);
  }
  if (Array.isArray(from)) {
    const kept = from.flatMap((element: Json) => (numbers(6) === 0 ? [] : [changeValue(element, numbers)]));
    return numbers(4) === 0 ? [...kept, randomValue(numbers, 1)] : kept;
  }
  if (typeof from === 'object' && from !== null && !('Ref' in from)) {
    const kept = Object.entries(from).flatMap(([name, member]) =>
      numbers(8) === 0 ? [] : [[name, changeValue(member, numbers)]],
    );
    return Object.fromEntries(kept);
  }
  return from;
}
