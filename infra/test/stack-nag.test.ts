import { App, Stack, Validations } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import { AwsSolutionsChecks } from 'cdk-nag';
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { OnGiveUp, Redeliver, RetryPolicy, Strategy, Target } from '../lib/index';
import { fakeBundles } from './stack-support';
import { VARIANT_NAMES, variant } from './stack-variants';

/** Our own warning, which applies to most variants. */
const NO_TOPIC = 'Annotation::@redeliver/cdk:alarmsNotifyNobody';

/** Returns the findings of AwsSolutions, as `rule at construct`. */
function findings(app: App): string[] {
  Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
  let directory = app.outdir;
  try {
    directory = app.synth().directory;
  } catch {
    // A finding fails the synth, but the report is still written.
  }
  const report = JSON.parse(readFileSync(join(directory, 'validation-report.json'), 'utf8'));
  return report.pluginReports
    .flatMap((plugin: any) => (plugin.violations ?? []).map((violation: any) => violation.ruleName ?? JSON.stringify(violation)))
    .filter((rule: string) => rule !== NO_TOPIC);
}

describe('AwsSolutions finds nothing without a documented reason', () => {
  for (const name of VARIANT_NAMES) {
    test(name, () => assert.deepEqual(findings(variant(name, fakeBundles()).app), []));
  }

  test('with blocked groups', () => {
    const app = new App();
    const policy = RetryPolicy.of({ onGiveUp: OnGiveUp.BLOCK });
    const target = Target.http('https://orders.example.com/hook');
    new Redeliver(new Stack(app, 'Blocking'), 'Orders', { target, policy, strategy: Strategy.ORDERED, bundles: fakeBundles() });
    assert.deepEqual(findings(app), []);
  });

  test('every acknowledged finding has a reason', () => {
    const acknowledged = VARIANT_NAMES.flatMap((name) =>
      variant(name, fakeBundles())
        .stack.node.findAll()
        .flatMap((construct) => construct.node.metadata)
        .filter(({ type }) => type === Validations.ACKNOWLEDGED_RULES_METADATA_KEY)
        .flatMap(({ data }) => Object.entries(data as Record<string, unknown>)),
    );
    assert.ok(acknowledged.length >= 10, JSON.stringify(acknowledged));
    for (const [rule, reason] of acknowledged) {
      assert.ok(JSON.stringify(reason).length > 30, rule);
    }
  });

  test('the check detects a planted finding', () => {
    const app = new App();
    const stack = new Stack(app, 'Careless');
    const role = new iam.Role(stack, 'Role', { assumedBy: new iam.ServicePrincipal('lambda.amazonaws.com') });
    role.addToPolicy(new iam.PolicyStatement({ actions: ['sqs:*'], resources: ['*'] }));
    assert.notDeepEqual(findings(app), []);
  });
});
