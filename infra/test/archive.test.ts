import { App, CfnParameter, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as events from 'aws-cdk-lib/aws-events';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as sns from 'aws-cdk-lib/aws-sns';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AlarmPreset, AsyncRetry, type CommonProps, Notify, Redeliver, Strategy } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { cdkJson } from './fakes';
import { grants, makeReadable, resources, shortId } from './stack-exact';
import { fakeBundles, HTTP } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();
const ACCOUNT = 'eu-west-1:111122223333';
const KEY = `arn:aws:kms:${ACCOUNT}:key/0191f3a2-7b1c-7d3e-8f00-00000000000a`;
const BUS = `arn:aws:events:${ACCOUNT}:event-bus/ops`;
const PUT_EVENTS = `Allow events:PutEvents on ${BUS} if {"ForAllValues:StringEquals":{"events:source":"redeliver","events:detail-type":"Redeliver Cause Appeared"}}`;
const TOPIC = `arn:aws:sns:${ACCOUNT}:notices`;

type MakeProps = (stack: Stack) => Partial<CommonProps>;

const bucket: MakeProps = (stack) => ({ archive: new s3.Bucket(stack, 'Archive') });
const ownKey: MakeProps = (stack) => ({ archive: new s3.Bucket(stack, 'Archive', { encryptionKey: new kms.Key(stack, 'ArchiveKey') }) });
const byName: MakeProps = (stack) => ({ archive: s3.Bucket.fromBucketName(stack, 'Archive', 'dead-letters') });
const ofOtherAccount: MakeProps = (stack) => ({
  archive: s3.Bucket.fromBucketAttributes(stack, 'Archive', { bucketName: 'dead-letters', account: '444455556666' }),
});
const withKeyArn: MakeProps = (stack) => ({
  archive: s3.Bucket.fromBucketAttributes(stack, 'Archive', { bucketName: 'dead-letters', encryptionKey: kms.Key.fromKeyArn(stack, 'ArchiveKey', KEY) }),
});
const topic: MakeProps = (stack) => ({ notify: Notify.topic(new sns.Topic(stack, 'Notices')) });
const topicWithKey: MakeProps = (stack) => ({ notify: Notify.topic(new sns.Topic(stack, 'Notices', { masterKey: new kms.Key(stack, 'NoticesKey') })) });
const bus: MakeProps = (stack) => ({ notify: Notify.eventBus(events.EventBus.fromEventBusArn(stack, 'Bus', BUS)) });
const all = (...given: MakeProps[]): MakeProps => (stack) => Object.assign({}, ...given.map((each) => each(stack)));

function createTemplate(given: MakeProps, strategy = Strategy.DELAYED_RESEND): Template {
  const stack = new Stack(new App({ context: cdkJson().context }), 'Test');
  new Redeliver(stack, 'Retries', { ...HTTP, bundles, strategy, ...given(stack) });
  return Template.fromStack(stack);
}

function createAsyncRetryTemplate(given: MakeProps): Template {
  const stack = new Stack(new App({ context: cdkJson().context }), 'Test');
  new AsyncRetry(stack, 'Retries', { functions: [userFunction(stack, 'Report')], bundles, ...given(stack) });
  return Template.fromStack(stack);
}

/** Returns the permissions that an archive or notices add to each role. */
function addedPermissions(template: Template, usual: Template): Record<string, string[]> {
  const roles = Object.keys(resources(usual, 'AWS::IAM::Role'));
  const more = roles.map((role) => [role, grants(template, role).filter((right) => !grants(usual, role).includes(right))] as const);
  return Object.fromEntries(more.filter(([, rights]) => rights.length > 0));
}

const NOTHING = createTemplate(() => ({}));
/** Returns a permission that cannot overwrite objects or write to another account. */
const creates = (objects: string, account = '{AWS::AccountId}'): string =>
  `Allow s3:PutObject on ${objects} if {"Null":{"s3:if-none-match":"false"},"StringEquals":{"aws:ResourceAccount":"${account}"}}`;
const IMPORTED = 'arn:{AWS::Partition}:s3:::dead-letters';

describe('only the annotator gets exactly these permissions', () => {
  const cases: [string, MakeProps, string[]][] = [
    ['bucket: only writing below the prefix', all(bucket, () => ({ archivePrefix: 'redeliver' })), [creates('{Archive.Arn}/redeliver/dead-letters/*')]],
    ['imported bucket without a prefix', byName, [creates(`${IMPORTED}/dead-letters/*`)]],
    ["bucket's key", ownKey, ['Allow kms:GenerateDataKey on {ArchiveKey.Arn}', creates('{Archive.Arn}/dead-letters/*')]],
    ["imported bucket's key", withKeyArn, [`Allow kms:GenerateDataKey on ${KEY}`, creates(`${IMPORTED}/dead-letters/*`)]],
    ["another account's bucket", ofOtherAccount, [creates(`${IMPORTED}/dead-letters/*`, '444455556666')]],
    ['topic', topic, ['Allow sns:Publish on {Notices}']],
    ['topic and its key', topicWithKey, ['Allow kms:Decrypt on {NoticesKey.Arn}', 'Allow kms:GenerateDataKey on {NoticesKey.Arn}', 'Allow sns:Publish on {Notices}']],
    ['event bus', bus, [PUT_EVENTS]],
    [
      'bucket, its key and an event bus',
      all(withKeyArn, bus, () => ({ archivePrefix: 'a/b/' })),
      [PUT_EVENTS, `Allow kms:GenerateDataKey on ${KEY}`, creates(`${IMPORTED}/a/b/dead-letters/*`)],
    ],
    [
      'on a bucket with a prefix whose * is no wildcard',
      all(bucket, topic, () => ({ archivePrefix: 'a*b/' })),
      [creates('{Archive.Arn}/a${*}b/dead-letters/*'), 'Allow sns:Publish on {Notices}'],
    ],
  ];
  for (const [name, given, rights] of cases) {
    test(name, () => assert.deepEqual(addedPermissions(createTemplate(given), NOTHING), { FinalDlqAnnotatorRole: rights.sort() }));
  }

  test('the same permissions with each strategy and with AsyncRetry', () => {
    const given = all(bucket, topic);
    const { FinalDlqAnnotatorRole: rights = [] } = addedPermissions(createTemplate(given), NOTHING);
    assert.equal(rights.length, 2);
    for (const strategy of [Strategy.DIRECT_RESEND, Strategy.VISIBILITY]) {
      assert.deepEqual(addedPermissions(createTemplate(given, strategy), createTemplate(() => ({}), strategy)), { FinalDlqAnnotatorRole: rights });
    }
    assert.deepEqual(addedPermissions(createAsyncRetryTemplate(given), createAsyncRetryTemplate(() => ({}))), { FinalDlqAnnotatorRole: rights });
  });
});

describe('only the annotator gets environment variables', () => {
  function variables(template: Template): Record<string, unknown> {
    const functions = Object.entries(resources(template, 'AWS::Lambda::Function'));
    const found = functions.map(([id, { Properties }]): [string, [string, unknown][]] => [id, Object.entries(makeReadable(Properties['Environment']?.Variables ?? {}))]);
    const ours = found.map(([id, all]) => [id, Object.fromEntries(all.filter(([name]) => /^(ARCHIVE|NOTIFY)_/.test(name)))] as const);
    return Object.fromEntries(ours.filter(([, some]) => Object.keys(some).length > 0));
  }

  const owner = (account = '{AWS::AccountId}'): Record<string, string> => ({ ARCHIVE_BUCKET_OWNER: account });

  test("the bucket owner defaults to the stack's account", () => {
    const of = (given: MakeProps): unknown => (variables(createTemplate(given)) as Record<string, Record<string, unknown>>)['FinalDlqAnnotator']?.['ARCHIVE_BUCKET_OWNER'];
    assert.equal(of(bucket), '{AWS::AccountId}');
    assert.equal(of(byName), '{AWS::AccountId}');
    assert.equal(of(ofOtherAccount), '444455556666');
  });

  test('a prefix gets its missing slash, and absent options set no variable', () => {
    assert.deepEqual(variables(NOTHING), {});
    assert.deepEqual(variables(createTemplate(all(bucket, () => ({ archivePrefix: '', archiveOmit: [] })))), { FinalDlqAnnotator: { ARCHIVE_BUCKET: '{Archive}', ...owner() } });
    const prefix = (archivePrefix: string): unknown => variables(createTemplate(all(byName, () => ({ archivePrefix }))));
    for (const given of ['a/b', 'a/b/']) {
      assert.deepEqual(prefix(given), { FinalDlqAnnotator: { ARCHIVE_BUCKET: 'dead-letters', ...owner(), ARCHIVE_PREFIX: 'a/b/' } });
    }
    // Its value, with or without a slash, is known only at deployment.
    const parameter = createTemplate(all(byName, (stack) => ({ archivePrefix: new CfnParameter(stack, 'Prefix').valueAsString })));
    assert.deepEqual(variables(parameter), { FinalDlqAnnotator: { ARCHIVE_BUCKET: 'dead-letters', ...owner(), ARCHIVE_PREFIX: '{Prefix}' } });
    const everything = { FinalDlqAnnotator: { ARCHIVE_BUCKET: '{Archive}', ...owner(), ARCHIVE_OMIT: '/customer/email,/a~1b', NOTIFY_ARN: '{Notices}' } };
    const given = all(bucket, topic, () => ({ archiveOmit: ['/customer/email', '/a~1b'] }));
    assert.deepEqual(variables(createTemplate(given)), everything);
    assert.deepEqual(variables(createAsyncRetryTemplate(given)), everything);
    assert.deepEqual(variables(createTemplate(bus)), { FinalDlqAnnotator: { NOTIFY_ARN: BUS } });
  });
});

describe('alarms', () => {
  function addedAlarms(template: Template, usual: Template): unknown[] {
    const before = Object.keys(resources(usual, 'AWS::CloudWatch::Alarm'));
    const more = Object.entries(resources(template, 'AWS::CloudWatch::Alarm')).filter(([id]) => !before.includes(id));
    return more.map(([, { Properties }]) => {
      const { AlarmName, Namespace, MetricName, Dimensions, Statistic, Threshold } = makeReadable(Properties);
      return [AlarmName.replace(/^redeliver-(async-)?prod-/, ''), Namespace, MetricName, Dimensions, Statistic, Threshold];
    });
  }
  const ofAnnotator = [{ Name: 'Function', Value: '{FinalDlqAnnotator}' }];
  const archive = ['archive-refused', 'Redeliver', 'ArchiveRefused', ofAnnotator, 'Sum', 0];
  const notices = ['notices-refused', 'Redeliver', 'NoticeRefused', ofAnnotator, 'Sum', 0];

  test('alarms cover what is configured', () => {
    assert.deepEqual(addedAlarms(createTemplate(bucket), NOTHING), [archive]);
    assert.deepEqual(addedAlarms(createTemplate(bus), NOTHING), [notices]);
    assert.deepEqual(addedAlarms(createTemplate(all(bucket, bus)), NOTHING), [archive, notices]);
    assert.deepEqual(addedAlarms(createAsyncRetryTemplate(all(bucket, topic)), createAsyncRetryTemplate(() => ({}))), [archive, notices]);
  });

  test('archive-refused is an essential alarm', () => {
    const essential = (given: MakeProps): Template => createTemplate(all(given, () => ({ alarmPreset: AlarmPreset.ESSENTIAL })));
    assert.deepEqual(addedAlarms(essential(all(bucket, topic)), essential(() => ({}))), [archive]);
  });

  test('archive-refused pages, notices-refused opens a ticket', () => {
    const topicOf = (stack: Stack, name: string): sns.ITopic => sns.Topic.fromTopicArn(stack, name, `arn:aws:sns:${ACCOUNT}:${name}`);
    const template = createTemplate(all(bucket, bus, (stack) => ({ pageTopic: topicOf(stack, 'page'), ticketTopic: topicOf(stack, 'ticket') })));
    const severities = Object.entries(resources(template, 'AWS::CloudWatch::Alarm')).filter(([id]) => id.includes('refused'));
    assert.deepEqual(severities.map(([id, { Properties }]) => [shortId(id), Properties['AlarmActions'][0].replace(/.*:/, '')]), [
      ['Alarmarchiverefused', 'page'],
      ['Alarmnoticesrefused', 'ticket'],
    ]);
  });
});

describe('an invalid prop is refused with one sentence', () => {
  /** Returns the problems found by both constructs, which must be the same. */
  function collectProblems(given: MakeProps, env = {}): string[] {
    const [ofRedeliver, ofAsyncRetry] = [Redeliver, AsyncRetry].map((construct) => {
      const stack = new Stack(new App(), 'Test', { env });
      try {
        new construct(stack, 'Retries', {
          ...(construct === Redeliver ? HTTP : { functions: [userFunction(stack, 'Report')] }), bundles, ...given(stack),
        } as any);
        return [];
      } catch (error) {
        assert.ok(error instanceof RedeliverPropsError, String(error));
        return error.message.replaceAll('redeliver-async-prod', 'redeliver-prod').split('\n');
      }
    });
    assert.deepEqual(ofRedeliver, ofAsyncRetry);
    return ofRedeliver ?? [];
  }
  const prefix = (archivePrefix: string): string[] => collectProblems(all(bucket, () => ({ archivePrefix })));
  const omit = (...archiveOmit: string[]): string[] => collectProblems(all(bucket, () => ({ archiveOmit })));

  test('an archive option without an archive', () => {
    const sentence = (name: string): string => `${name} only applies to an archive; set archive to its bucket, or remove ${name}.`;
    assert.deepEqual(collectProblems(() => ({ archivePrefix: 'a/' })), [sentence('archivePrefix')]);
    assert.deepEqual(collectProblems(() => ({ archiveOmit: ['/a'] })), [sentence('archiveOmit')]);
  });

  test('a prefix that S3 or the function would refuse', () => {
    const sentence = (given: string): string =>
      `archivePrefix is "${given}"; use at most 256 of A-Z a-z 0-9 ! _ . * ' ( ) / = and -, with a / at the end, but not at the start.`;
    for (const wrong of ['/a', '/', 'a b', 'ä', 'a\\b', 'a:b', 'a'.repeat(256), `${'a'.repeat(256)}/`]) {
      assert.deepEqual(prefix(wrong), [sentence(wrong)]);
    }
    for (const right of ['a', "A1!_.*'()=-/b//", 'a'.repeat(255), `${'a'.repeat(255)}/`]) {
      assert.deepEqual(prefix(right), []);
    }
  });

  test('an invalid JSON Pointer, or one that the variable cannot hold', () => {
    const no = (given: string): string =>
      `archiveOmit[1] is "${given}", which is not a JSON Pointer to a member; it must start with /, such as /customer/email.`;
    for (const wrong of ['', 'a', '/a~', '/a~2', 'a/b']) {
      assert.deepEqual(omit('/a', wrong), [no(wrong)]);
    }
    assert.deepEqual(omit('/a,b'), [
      'archiveOmit[0] is "/a,b", but commas separate the pointers in the function\'s environment; give the pointer to a member above it.',
    ]);
    assert.deepEqual(omit('/a', '/', '/a~0b~1c/0', '/ä b'), []);
  });

  test("more pointers than the function's limit", () => {
    const pointers = Array.from({ length: 51 }, (_, index) => `/${index}`);
    assert.deepEqual(omit(...pointers), ['archiveOmit has 51 entries; give at most 50: the pointer to an object omits all its members.']);
    assert.deepEqual(omit(...pointers.slice(1)), []);
  });

  test('pointers that exceed the size of the environment', () => {
    const pointers = Array.from({ length: 50 }, (_, index) => `/${index}`.padEnd(90, 'x'));
    const [sentence = '', ...others] = collectProblems(all(byName, () => ({ archiveOmit: pointers })));
    assert.deepEqual(others, []);
    assert.match(sentence, /^the environment variables of redeliver-prod-final-dlq-annotator have at least \d+ bytes as JSON, but Lambda allows 4096; shorten ARCHIVE_OMIT, which has 4551\.$/);
  });

  test('a FIFO topic, created or imported', () => {
    const sentence = 'notify is a FIFO topic, and notices have no message group; use a standard topic or an event bus.';
    assert.deepEqual(collectProblems((stack) => ({ notify: Notify.topic(new sns.Topic(stack, 'Notices', { fifo: true })) })), [sentence]);
    assert.deepEqual(collectProblems((stack) => ({ notify: Notify.topic(sns.Topic.fromTopicArn(stack, 'Notices', `${TOPIC}.fifo`)) })), [sentence]);
  });

  test('a destination that the functions cannot reach', () => {
    const env = { account: '111122223333', region: 'us-east-1' };
    const elsewhere = (prop: string, what: string): string => `${prop} is ${what} of eu-west-1, but the functions are in us-east-1; use one of us-east-1.`;
    const imported: MakeProps = (stack) => ({ archive: s3.Bucket.fromBucketAttributes(stack, 'Archive', { bucketName: 'dead-letters', region: 'eu-west-1' }) });
    assert.deepEqual(collectProblems(imported, env), [elsewhere('archive', 'a bucket')]);
    assert.deepEqual(collectProblems(bus, env), [elsewhere('notify', 'an event bus')]);
    assert.deepEqual(collectProblems((stack) => ({ notify: Notify.topic(sns.Topic.fromTopicArn(stack, 'Notices', TOPIC)) }), env), [elsewhere('notify', 'a topic')]);
    assert.deepEqual(collectProblems(all(imported, bus), { ...env, region: 'eu-west-1' }), []);
    assert.deepEqual(collectProblems(all(imported, bus)), [], 'the region is known at deployment');
  });

  test('a key that the annotator cannot use', () => {
    const alias = (name: string): MakeProps => (stack) => ({
      archive: s3.Bucket.fromBucketAttributes(stack, 'Archive', { bucketName: 'dead-letters', encryptionKey: kms.Alias.fromAliasName(stack, 'Alias', name) }),
    });
    const [sentence = '', ...others] = collectProblems(alias('alias/mine'));
    assert.deepEqual(others, []);
    assert.match(sentence, /^archive's key is an alias that was imported by its name, /);
    assert.deepEqual(collectProblems(alias('alias/aws/s3')), []);
  });
});
