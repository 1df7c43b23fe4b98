import { App, Stack, type StackProps, Stage } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import type { Construct } from 'constructs';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { AsyncRetry, Redeliver } from '../lib/index';
import { RedeliverPropsError } from '../lib/props-error';
import { RedeliverStack } from '../lib/stack';
import { cdkJson } from './fakes';
import { makeReadable } from './stack-exact';
import { fakeBundles, HTTP } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();

interface Place {
  readonly account: string;
  readonly region: string;
}

/** The scope in which a type's names must be unique: account or region. Types without a property have no names. */
const NAMES: Record<string, { in: 'account' | 'region'; property?: string }> = {
  'AWS::CloudWatch::Alarm': { in: 'region', property: 'AlarmName' },
  'AWS::CloudWatch::Dashboard': { in: 'account', property: 'DashboardName' },
  // Part of a role, without its own name.
  'AWS::IAM::Policy': { in: 'account' },
  'AWS::IAM::Role': { in: 'account', property: 'RoleName' },
  'AWS::Lambda::EventInvokeConfig': { in: 'region' },
  'AWS::Lambda::EventSourceMapping': { in: 'region' },
  'AWS::Lambda::Function': { in: 'region', property: 'FunctionName' },
  'AWS::Logs::LogGroup': { in: 'region', property: 'LogGroupName' },
  'AWS::Logs::QueryDefinition': { in: 'region', property: 'Name' },
  'AWS::SQS::Queue': { in: 'region', property: 'QueueName' },
  'AWS::SQS::QueuePolicy': { in: 'region' },
};

/** Returns the physical names in a template for one account and region: `TYPE NAME`, with the region if it matters. */
function namesIn(template: Template, { account, region }: Place): string[] {
  const names = Object.values(template.toJSON().Resources as Record<string, any>).flatMap(({ Type, Properties }) => {
    const scope = NAMES[Type];
    assert.ok(scope, `a test must know where names of ${Type} are unique`);
    const name = scope.property === undefined ? undefined : Properties[scope.property];
    return name === undefined ? [] : [`${scope.in === 'region' ? `${region} ` : ''}${Type} ${makeReadable(name)}`];
  });
  return names.map((name) => name.replaceAll('{AWS::Region}', region).replaceAll('{AWS::AccountId}', account));
}

function assertUnique(names: string[]): void {
  assert.deepEqual(names.filter((name, index) => names.indexOf(name) !== index), []);
}

/** Creates a stack without an account and region, as `cargo xtask cdk deploy` does. */
function appTemplate(context: Record<string, string> = {}): Template {
  const given = { ...cdkJson().context, bundles, target: 'https://orders.example.com/', ...context };
  return Template.fromStack(new RedeliverStack(new App({ context: given }), '.'));
}

describe('names do not collide in one account', () => {
  const [here, there] = ['eu-west-1', 'us-east-1'].map((region) => ({ account: '111122223333', region })) as [Place, Place];

  test('one template in two regions', () => {
    assertUnique([...namesIn(appTemplate(), here), ...namesIn(appTemplate(), there)]);
  });

  test('stacks of two regions in one app', () => {
    const app = new App();
    const stacks = [here, there].map((env) => {
      const stack = new Stack(app, `Orders-${env.region}`, { env });
      new Redeliver(stack, 'Retries', { ...HTTP, bundles });
      new AsyncRetry(stack, 'Async', { functions: [userFunction(stack, 'Report')], bundles });
      return { stack, env };
    });
    assertUnique(stacks.flatMap(({ stack, env }) => namesIn(Template.fromStack(stack), env)));
  });

  test('two stages', () => {
    assertUnique([{ stage: 'prod' }, { stage: 'test' }].flatMap((context) => namesIn(appTemplate(context), here)));
  });

  test('two orchestrators and an AsyncRetry in one stack', () => {
    const stack = new Stack(new App(), 'Test');
    new Redeliver(stack, 'Orders', { ...HTTP, bundles, prefix: 'orders' });
    new Redeliver(stack, 'Mails', { ...HTTP, bundles, prefix: 'mails' });
    new AsyncRetry(stack, 'Async', { functions: [userFunction(stack, 'Report')], bundles });
    const names = namesIn(Template.fromStack(stack), here);
    assertUnique(names);
    assert.deepEqual(
      names.filter((name) => name.startsWith('AWS::')),
      ['orders', 'mails'].map((prefix) => `AWS::CloudWatch::Dashboard ${prefix}-prod-eu-west-1`),
    );
  });

  describe('equal names are refused at synth', () => {
    /** Returns the error for a construct created after `Test/Orders`, in a stack with this environment. */
    const refused = (make: (stack: Stack) => void, env = {}): string => {
      const stack = new Stack(new App(), 'Test', { env });
      new Redeliver(stack, 'Orders', { ...HTTP, bundles });
      try {
        make(stack);
        return '';
      } catch (error) {
        assert.ok(error instanceof RedeliverPropsError, String(error));
        return error.message;
      }
    };
    const sentence = (path: string): string =>
      `prefix and stage make the name "redeliver-prod" for ${path}, which Test/Orders uses in the same account and region; change one of them.`;

    test('in one stack', () => {
      assert.equal(refused((stack) => new Redeliver(stack, 'Mails', { ...HTTP, bundles })), sentence('Test/Mails'));
      const retries = (stack: Stack) => new AsyncRetry(stack, 'Async', { functions: [userFunction(stack, 'Report')], bundles, prefix: 'redeliver' });
      assert.equal(refused(retries), sentence('Test/Async'));
      assert.equal(refused((stack) => new Redeliver(stack, 'Mails', { ...HTTP, bundles, stage: 'test' })), '');
    });

    test('in two stacks of the same account and region, but not if these may differ', () => {
      const beside = (props: StackProps, parent?: (app: Construct) => Construct) => (stack: Stack) => {
        const app = stack.node.root as App;
        new Redeliver(new Stack(parent?.(app) ?? app, 'Other', props), 'Mails', { ...HTTP, bundles });
      };
      assert.equal(refused(beside({ env: here }), here), sentence('Other/Mails'));
      assert.equal(refused(beside({})), sentence('Other/Mails'));
      assert.equal(refused(beside({ env: there }), here), '');
      assert.equal(refused(beside({}), here), '');
      assert.equal(refused(beside({}, (app) => new Stage(app, 'Beta'))), '');
    });
  });
});
