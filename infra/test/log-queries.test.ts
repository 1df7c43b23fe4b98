import { Duration } from 'aws-cdk-lib';
import type { Template } from 'aws-cdk-lib/assertions';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { Strategy, Target } from '../lib/index';
import { makeReadable, resources } from './stack-exact';
import { HTTP, templateWith } from './stack-support';
import { userFunction } from './stack-variants';

const PAGE = readFileSync(join(__dirname, '../../docs/operate/logs.md'), 'utf8');

/** Returns the log groups of every query. */
function logGroups(template: Template): unknown[] {
  return Object.values(resources(template, 'AWS::Logs::QueryDefinition')).map(({ Properties }) => makeReadable(Properties['LogGroupNames']));
}

describe('saved queries', () => {
  test("equal those of the docs page, in the deployment's folder", () => {
    const queries = Object.values(resources(templateWith(() => ({ ...HTTP, prefix: 'orders' })), 'AWS::Logs::QueryDefinition')).map(({ Properties }) => Properties);
    assert.deepEqual(queries.map(({ Name }) => Name), ['orders-prod/what died, and why', 'orders-prod/the story of one message', 'orders-prod/when the target was down']);
    for (const { QueryString } of queries) {
      assert.ok(PAGE.includes(`\`\`\`sql\n${QueryString}\n\`\`\``), QueryString);
    }
  });

  test("read the logs of all functions", () => {
    const each = ['{MessageProcessorLogs}', '{FailedMessageProcessorLogs}', '{FinalDlqAnnotatorLogs}'];
    assert.deepEqual(logGroups(templateWith(() => HTTP)), [each, each, each]);
    const two = ['{MessageProcessorLogs}', '{FinalDlqAnnotatorLogs}'];
    assert.deepEqual(logGroups(templateWith(() => ({ ...HTTP, strategy: Strategy.VISIBILITY }))), [two, two, two]);
  });

  test("include the user's own function without creating its log group", () => {
    const inner = ['{FailedMessageProcessorLogs}', '{FinalDlqAnnotatorLogs}'];
    const own = (logGroup: boolean): Template =>
      templateWith((stack) => {
        const props = { timeout: Duration.seconds(60), architecture: lambda.Architecture.ARM_64, ...(logGroup && { logGroup: new logs.LogGroup(stack, 'OwnLogs') }) };
        return { target: Target.ownFunction(userFunction(stack, 'Own', props)) };
      });
    const [given] = logGroups(own(true));
    assert.deepEqual(given, ['{OwnLogs}', ...inner]);
    const without = own(false);
    assert.deepEqual(logGroups(without)[0], ['/aws/lambda/{Own}', ...inner]);
    assert.ok(!Object.keys(resources(without, 'Custom::LogRetention')).length);
  });
});
