import { App, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as sns from 'aws-cdk-lib/aws-sns';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';

import { AlarmPreset, AsyncRetry, Notify, OnGiveUp, Redeliver, type RedeliverProps, RetryPolicy, Strategy, Target } from '../lib/index';
import { asyncNamesOf, namesOf } from '../lib/names';
import { resources } from './stack-exact';
import { fakeBundles, HTTP, templateWith } from './stack-support';
import { userFunction, VARIANT_NAMES, variant } from './stack-variants';

const page = (name: string): string => readFileSync(join(__dirname, `../../docs/${name}`), 'utf8');

/** Returns the names of all alarms, without the prefix. */
function alarms(template: Template): string[] {
  return Object.values(resources(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) =>
    [asyncNamesOf(), namesOf()].reduce((name, { prefix }) => name.replace(`${prefix}-`, ''), Properties['AlarmName']),
  );
}

/** Returns the quoted names in the first column of a page's tables with the heading `alarm`; `…` matches anything. */
function explainedAlarms(markdown: string): string[] {
  const tables = [...markdown.matchAll(/^\| alarm \|.*\n((?:\|.*\n)*)/gm)].map(([, rows = '']) => rows);
  return tables.flatMap((rows) => rows.split('\n').flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)));
}

const BLOCKING = RetryPolicy.of({ onGiveUp: OnGiveUp.BLOCK });
const blocking = templateWith(() => ({ ...HTTP, strategy: Strategy.ORDERED, policy: BLOCKING }));
const all = new Set([blocking, ...VARIANT_NAMES.map((name) => Template.fromStack(variant(name, fakeBundles()).stack))].flatMap(alarms));

for (const name of ['on-call.md', 'operate/alarms.md']) {
  test(`${name} explains every possible alarm and no other`, () => {
    const entries = explainedAlarms(page(name));
    const explains = (entry: string, alarm: string): boolean => (entry.startsWith('…') ? alarm.endsWith(entry.slice(1)) : alarm === entry);
    assert.deepEqual([...all].filter((alarm) => !entries.some((entry) => explains(entry, alarm))), []);
    assert.deepEqual(entries.filter((entry) => ![...all].some((alarm) => explains(entry, alarm))), []);
  });
}

test("the page lists each alarm's severity and whether it is essential", () => {
  const rows = [...page('operate/alarms.md').matchAll(/^\| `([^`]+)` \| (page|ticket) \| (yes|) \|/gm)].map(([, name = '', severity, essential]) => ({ name, severity, essential }));
  const severities = (preset: AlarmPreset): Record<string, string> => {
    const stack = new Stack(new App(), 'Test');
    const props = {
      bundles: fakeBundles(),
      alarmPreset: preset,
      pageTopic: sns.Topic.fromTopicArn(stack, 'Pager', 'arn:aws:sns:eu-west-1:111122223333:page'),
      ticketTopic: sns.Topic.fromTopicArn(stack, 'Desk', 'arn:aws:sns:eu-west-1:111122223333:ticket'),
    };
    const target = Target.lambdaFunction(userFunction(stack, 'Target'));
    const archive = s3.Bucket.fromBucketName(stack, 'Archive', 'dead-letters');
    const notify = Notify.topic(props.ticketTopic);
    new Redeliver(stack, 'Retries', { ...props, target, archive, notify });
    new Redeliver(stack, 'Hidden', { ...props, target, stage: 'hidden', strategy: Strategy.VISIBILITY });
    new Redeliver(stack, 'Ordered', { ...props, target, stage: 'ordered', strategy: Strategy.ORDERED, policy: BLOCKING });
    new AsyncRetry(stack, 'Async', { ...props, functions: [userFunction(stack, 'Report')] });
    const found = Object.values(resources(Template.fromStack(stack), 'AWS::CloudWatch::Alarm'));
    return Object.fromEntries(found.map(({ Properties }) => [
      Properties['AlarmName'].replace(/^redeliver-(async-prod|prod|hidden|ordered)-/, ''),
      Properties['AlarmActions'][0].replace(/.*:/, ''),
    ]));
  };
  const rowOf = (alarm: string): (typeof rows)[number] | undefined =>
    rows.find(({ name }) => (name.startsWith('…') ? alarm.endsWith(name.slice(1)) : alarm === name));
  const [every, essential] = [severities(AlarmPreset.ALL), severities(AlarmPreset.ESSENTIAL)];
  assert.equal(Object.keys(every).length, 37);
  for (const [alarm, severity] of Object.entries(every)) {
    const { severity: ofPage, essential: mark } = rowOf(alarm) ?? assert.fail(alarm);
    assert.deepEqual([ofPage, mark], [severity, alarm in essential ? 'yes' : ''], alarm);
  }
});

test("a quiet deployment costs the page's total", () => {
  const prices = JSON.parse(readFileSync(join(__dirname, '../../crates/sim/src/cost/prices.json'), 'utf8')).prices;
  const month = page('deploy/cost.md');
  const essential = alarms(templateWith(() => ({ ...HTTP, alarmPreset: AlarmPreset.ESSENTIAL, dashboard: false }))).length;
  const costs = {
    polling: (3 * 5 * 720 * 180 * prices.sqs_million_requests.dollars) / 1e6,
    alarms: essential * prices.alarm_month.dollars,
    metrics: (15 * prices.metric_month.dollars * 32) / 720,
    messages: 0.26 / 30,
  };
  const dollars = (value: number): string => `$${value.toFixed(2)}`;
  for (const row of [
    `| idle polling | as above | ${dollars(costs.polling)} |`,
    `| alarms | ${essential} essential ones, at $0.10 | ${dollars(costs.alarms)} |`,
    `| metrics | 15 × $0.30 × 32/720 | ${dollars(costs.metrics)} |`,
    `| messages | a thousand of the 30,000 in [the first month below](#what-makes-it-cheaper), for $0.26 | ${dollars(costs.messages)} |`,
    `| **total** | | **${dollars(Object.values(costs).reduce((one, other) => one + other))}** |`,
    '| 1,000 | $0.26 |',
  ]) {
    assert.ok(month.includes(row), row);
  }
});

test('the cost of the alarms is the cost of their metrics', () => {
  const counts = (props: RedeliverProps): [number, number] => {
    const found = Object.values(resources(templateWith(() => props), 'AWS::CloudWatch::Alarm')).map(({ Properties }) => Properties['Metrics'] ?? [{ MetricStat: {} }]);
    return [found.length, found.flat().filter(({ MetricStat }: any) => MetricStat).length];
  };
  const [[resending, watched], [hiding, watchedThere]] = [counts(HTTP), counts({ ...HTTP, strategy: Strategy.VISIBILITY })];
  const [row] = page('deploy/cost.md').match(/^\| alarms \|.*$/m) ?? [];
  assert.equal(
    row,
    `| alarms | ${resending} on ${watched} metrics, at $0.10 (${hiding} on ${watchedThere} with \`visibility\`) | $${(watched / 10).toFixed(2)} |`,
  );
});

test('the bug form lists every strategy', () => {
  const form = parse(readFileSync(join(__dirname, '../../.github/ISSUE_TEMPLATE/bug.yml'), 'utf8'));
  const { options } = form.body.find(({ id }: { id?: string }) => id === 'strategy').attributes;
  assert.deepEqual(options, [...Object.values(Strategy), 'async-retry', 'I do not know']);
});
