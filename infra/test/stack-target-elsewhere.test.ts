import { App, Fn, Stack } from 'aws-cdk-lib';
import { Annotations, Match, Template } from 'aws-cdk-lib/assertions';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Redeliver, Target } from '../lib/index';
import { makeReadable, referencesOf, resources } from './stack-exact';
import { fakeBundles } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();
const HERE = { account: '111122223333', region: 'eu-west-1' };

interface WatchedTarget {
  /** The function's name and the alarm's condition; `undefined`: no alarm. */
  readonly alarm: readonly [unknown, string | undefined] | undefined;
  readonly conditions: Record<string, unknown>;
  readonly onDashboard: boolean;
  /** The message at synth. */
  readonly said: string[];
}

function watchTarget(target: (stack: Stack) => lambda.IFunction, env?: typeof HERE): WatchedTarget {
  const stack = new Stack(new App(), 'Test', env === undefined ? {} : { env });
  const made = new Redeliver(stack, 'Retries', { bundles, target: Target.lambdaFunction(target(stack)) });
  const template = Template.fromStack(stack);
  const { Resources, Conditions = {} } = template.toJSON();
  const found = resources(template, 'AWS::CloudWatch::Alarm')['Alarmtargetloopstopped'] as any;
  const [dashboard] = Object.values(resources(template, 'AWS::CloudWatch::Dashboard'));
  const alarms = Object.keys(Resources).filter((id) => Resources[id].Type === 'AWS::CloudWatch::Alarm');
  assert.equal(made.alarms.length, alarms.length);
  return {
    alarm: found && [makeReadable(found.Properties.Dimensions[0].Value), found.Condition],
    // Ignore the conditions on the region's features.
    conditions: makeReadable(Object.fromEntries(Object.entries(Conditions).filter(([name]) => !name.startsWith('RedeliverLacks')))),
    onDashboard: referencesOf(dashboard).some((id) => id.includes('targetloopstopped')),
    said: Annotations.fromStack(stack).findInfo('*', Match.anyValue()).map(({ entry }) => String(entry.data)),
  };
}

const imported = (arn: string) => (stack: Stack): lambda.IFunction => lambda.Function.fromFunctionArn(stack, 'Target', arn);

describe('the recursive-loop alarm of a Lambda target', () => {
  const own = 'arn:aws:lambda:eu-west-1:111122223333:function:orders';

  test("exists in the stack's account and region", () => {
    const always = { alarm: ['orders', undefined], conditions: {}, onDashboard: true, said: [] };
    assert.deepEqual(watchTarget(imported(own), HERE), always);
    assert.deepEqual(watchTarget((stack) => userFunction(stack, 'Target'), HERE), { ...always, alarm: ['{Target}', undefined] });
    assert.deepEqual(watchTarget((stack) => userFunction(stack, 'Target')), { ...always, alarm: ['{Target}', undefined] });
  });

  test('is absent if the target allows loops, since Lambda then emits no such metric', () => {
    const allowed = (stack: Stack): lambda.IFunction => userFunction(stack, 'Target', { recursiveLoop: lambda.RecursiveLoop.ALLOW });
    assert.deepEqual(watchTarget(allowed, HERE), { alarm: undefined, conditions: {}, onDashboard: false, said: [] });
    const terminated = (stack: Stack): lambda.IFunction => userFunction(stack, 'Target', { recursiveLoop: lambda.RecursiveLoop.TERMINATE });
    assert.deepEqual(watchTarget(terminated, HERE).alarm, ['{Target}', undefined]);
  });

  const elsewhere: [string, string][] = [
    ['region', 'arn:aws:lambda:us-east-1:111122223333:function:orders'],
    ['account', 'arn:aws:lambda:eu-west-1:444455556666:function:orders:live'],
  ];
  for (const [what, arn] of elsewhere) {
    test(`is absent for another ${what}, where a function of the same name may be a different one`, () => {
      assert.deepEqual(watchTarget(imported(arn), HERE), {
        alarm: undefined,
        conditions: {},
        onDashboard: false,
        said: [
          `target ${arn} is in another account or region, and an alarm of this stack cannot watch metrics there, so there is no alarm ` +
            'target-loop-stopped: watch RecursiveInvocationsDropped where the function is.',
        ],
      });
    });
  }

  test("depends on a condition if the stack's place is known only at deployment", () => {
    for (const arn of [own, ...elsewhere.map(([, arn]) => arn)]) {
      const [, , , region, account] = arn.split(':');
      const { alarm, conditions, ...rest } = watchTarget(imported(arn));
      const [condition = ''] = Object.keys(conditions);
      assert.deepEqual([alarm, rest], [['orders', condition], { onDashboard: false, said: [] }]);
      assert.deepEqual(conditions, {
        [condition]: {
          'Fn::And': [{ 'Fn::Equals': ['{AWS::AccountId}', account] }, { 'Fn::Equals': ['{AWS::Region}', region] }],
        },
      });
    }
  });

  test('exists for a function known only at deployment', () => {
    const { alarm, conditions } = watchTarget((stack) => lambda.Function.fromFunctionArn(stack, 'Target', Fn.importValue('orders')));
    assert.deepEqual([alarm?.[1], conditions], [undefined, {}]);
  });
});
