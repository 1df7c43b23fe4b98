import { App, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { AsyncRetry, Redeliver, type RedeliverProps, Target } from '../lib/index';
import type { Json } from '../template/merge';
import { holds } from './cloudformation';
import { ALLOWED_LOOP, makeReadable, resources } from './stack-exact';
import { fakeBundles, HTTP } from './stack-support';
import { userFunction } from './stack-variants';

const bundles = fakeBundles();

function stackIn(region?: string): Stack {
  return new Stack(new App(), 'Test', region === undefined ? {} : { env: { account: '111122223333', region } });
}

/**
 * Returns the recursive-loop setting and tracing mode that all functions share, and whether any role may send traces.
 */
function features(stack: Stack): unknown {
  const template = Template.fromStack(stack);
  const functions = Object.values(template.findResources('AWS::Lambda::Function')).map(({ Properties }) =>
    JSON.stringify([makeReadable(Properties.RecursiveLoop ?? null), makeReadable(Properties.TracingConfig?.Mode ?? null)]),
  );
  const [only, ...others] = new Set(functions);
  assert.deepEqual(others, []);
  return [...JSON.parse(only ?? ''), JSON.stringify(template.toJSON()).includes('xray:')];
}

function createStack(props: Partial<RedeliverProps>, region?: string): Stack {
  const stack = stackIn(region);
  new Redeliver(stack, 'Retries', { ...HTTP, bundles, ...props });
  return stack;
}

const FEATURES: Record<string, unknown> = {
  'eu-west-1': ['Allow', 'Active', true],
  'mx-central-1': [null, 'Active', true],
  'ap-southeast-6': [null, 'Active', true],
  'us-gov-west-1': [null, 'Active', true],
  'cn-north-1': [null, null, false],
};

test('in a known region, a function uses only supported features', () => {
  const found = Object.keys(FEATURES).map((region) => [region, features(createStack({}, region))]);
  assert.deepEqual(Object.fromEntries(found), FEATURES);
});

test('in an unknown region, conditions decide at deployment', () => {
  const stack = createStack({});
  const traces = { 'Fn::If': ['RedeliverLacksXRay', 'PassThrough', 'Active'] };
  assert.deepEqual(features(stack), [ALLOWED_LOOP, traces, true]);
  const { Conditions } = Template.fromStack(stack).toJSON();
  const lacks = (partition: string, region: string): boolean[] =>
    Object.values<Json>(Conditions).map((condition) => holds(condition, {}, { 'AWS::Partition': partition, 'AWS::Region': region }));
  assert.deepEqual(Object.keys(Conditions), ['RedeliverLacksLoopDetection', 'RedeliverLacksXRay']);
  assert.deepEqual(lacks('aws', 'eu-west-1'), [false, false]);
  assert.deepEqual(lacks('aws', 'mx-central-1'), [true, false]);
  assert.deepEqual(lacks('aws', 'ap-southeast-6'), [true, false]);
  assert.deepEqual(lacks('aws-us-gov', 'us-gov-west-1'), [true, false]);
  assert.deepEqual(lacks('aws-cn', 'cn-north-1'), [true, true]);
  assert.deepEqual(lacks('aws-iso', 'us-iso-east-1'), [true, false]);
});

test("a user's own function gets its region's recursive-loop setting, also from two constructs", () => {
  for (const [region, loop] of [['eu-west-1', 'Allow'], ['cn-north-1', undefined], [undefined, ALLOWED_LOOP]] as const) {
    const stack = stackIn(region);
    const own = userFunction(stack, 'Own', { architecture: lambda.Architecture.ARM_64, timeout: Duration.seconds(60) });
    new Redeliver(stack, 'Retries', { target: Target.ownFunction(own), bundles });
    new AsyncRetry(stack, 'Async', { functions: [own], bundles });
    assert.deepEqual(makeReadable(resources(Template.fromStack(stack), 'AWS::Lambda::Function')['Own']?.Properties['RecursiveLoop']), loop, region);
  }
});

test('a prop that the region does not support', () => {
  const refused = (props: Partial<RedeliverProps>, region?: string): string => {
    try {
      createStack(props, region);
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };
  assert.equal(refused({ tracing: true }, 'cn-north-1'), 'tracing is true, but Lambda has no X-Ray in cn-north-1; remove it.');
  const pollers = { provisionedPollers: { maximum: 2 } };
  assert.equal(refused(pollers, 'cn-northwest-1'), 'provisionedPollers do not exist in cn-northwest-1; remove them, and use maxConcurrency.');
  assert.deepEqual([refused({ tracing: true, ...pollers }, 'us-gov-east-1'), refused({ tracing: true, ...pollers })], ['', '']);
  const stack = stackIn('cn-north-1');
  assert.throws(() => new AsyncRetry(stack, 'Async', { functions: [userFunction(stack, 'Own')], bundles, tracing: true }), {
    message: 'tracing is true, but Lambda has no X-Ray in cn-north-1; remove it.',
  });
});
