import { Template } from 'aws-cdk-lib/assertions';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { resources } from './stack-exact';
import { HTTP, templateWith } from './stack-support';

const QUEUES = 4;

/** The retention and `maxReceiveCount` of each queue, in the order of the loop. */
function ofTheStack(template: Template): string[] {
  const queues = Object.values(resources(template, 'AWS::SQS::Queue'));
  const facts = queues.map(({ Properties }) => `${Properties['MessageRetentionPeriod']} ${Properties['RedrivePolicy']?.maxReceiveCount ?? '-'}`);
  return facts.sort();
}

test('the queues for `redeliver work` keep and move messages as those of the stack do', () => {
  const text = readFileSync(join(__dirname, '../../examples/queues.yaml'), 'utf8');
  const queues = text.split('Type: AWS::SQS::Queue').slice(1);
  const facts = queues.map((queue) => `${queue.match(/MessageRetentionPeriod: (\d+)/)?.[1]} ${queue.match(/maxReceiveCount: (\d+)/)?.[1] ?? '-'}`);
  assert.equal(facts.length, QUEUES);
  assert.deepEqual(facts.sort(), ofTheStack(templateWith(() => HTTP)));
});
