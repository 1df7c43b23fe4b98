import { Template } from 'aws-cdk-lib/assertions';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { RetryPolicy, Strategy } from '../lib/index';
import { asyncNamesOf, namesOf } from '../lib/names';
import { resources } from './stack-exact';
import { fakeBundles, HTTP, templateWith } from './stack-support';
import { VARIANT_NAMES, variant } from './stack-variants';

const page = (name: string): string => readFileSync(join(__dirname, `../../docs/${name}`), 'utf8');

/** Alarms by the ends of their names. */
function alarms(template: Template): string[] {
  return Object.values(resources(template, 'AWS::CloudWatch::Alarm')).map(({ Properties }) =>
    [asyncNamesOf(), namesOf()].reduce((name, { prefix }) => name.replace(`${prefix}-`, ''), Properties['AlarmName']),
  );
}

/** The quoted names in the first column of a page's tables with the head `alarm`; `…` matches anything. */
function explained(markdown: string): string[] {
  const tables = [...markdown.matchAll(/^\| alarm \|.*\n((?:\|.*\n)*)/gm)].map(([, rows = '']) => rows);
  return tables.flatMap((rows) => rows.split('\n').flatMap((row) => [...(row.split('|')[1] ?? '').matchAll(/`([^`]+)`/g)].map(([, name = '']) => name)));
}

const paced = templateWith(() => ({ ...HTTP, policy: RetryPolicy.fromJson({ max_redelivery_per_second: 1 }) }));
const all = new Set([paced, ...VARIANT_NAMES.map((name) => Template.fromStack(variant(name, fakeBundles()).stack))].flatMap(alarms));

for (const name of ['on-call.md', 'operate/alarms.md']) {
  test(`${name} explains every alarm that there can be, and no other`, () => {
    const told = explained(page(name));
    const tells = (entry: string, alarm: string): boolean => (entry.startsWith('…') ? alarm.endsWith(entry.slice(1)) : alarm === entry);
    assert.deepEqual([...all].filter((alarm) => !told.some((entry) => tells(entry, alarm))), []);
    assert.deepEqual(told.filter((entry) => ![...all].some((alarm) => tells(entry, alarm))), []);
  });
}

test('the cost of the alarms is that of as many as there are', () => {
  const [resending, hiding] = [HTTP, { ...HTTP, strategy: Strategy.VISIBILITY } as const].map((props) => alarms(templateWith(() => props)).length);
  const [row] = page('deploy/cost.md').match(/^\| alarms \|.*$/m) ?? [];
  assert.equal(row, `| alarms | ${resending}, at $0.10 (${hiding} with \`visibility\`) | $${((resending ?? 0) / 10).toFixed(2)} |`);
});
