import { Aws, CfnCondition, Fn, type IResource, Stack, Token, TokenComparison } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { RegionInfo } from 'aws-cdk-lib/region-info';
import type { Construct } from 'constructs';

/**
 * A feature that Lambda lacks in some regions. It is assumed to exist in unknown regions, and in an emulator without
 * partitions.
 */
interface Feature {
  /** The name of the condition that is true if the stack's region lacks the feature. */
  readonly condition: string;
  /** Partitions without the feature. */
  readonly partitions: readonly string[];
  /** Regions of other partitions without the feature. */
  readonly regions: readonly string[];
}

/** Available in all but two commercial regions ("Supported Regions for Lambda recursive loop detection"). */
const LOOP_DETECTION: Feature = {
  condition: 'RedeliverLacksLoopDetection',
  partitions: ['aws-cn', 'aws-us-gov', 'aws-eusc', 'aws-iso', 'aws-iso-b', 'aws-iso-e', 'aws-iso-f'],
  regions: ['mx-central-1', 'ap-southeast-6'],
};
/** Not available in China (Lambda in "Getting Started with Amazon Web Services in China"). */
const X_RAY: Feature = { condition: 'RedeliverLacksXRay', partitions: ['aws-cn'], regions: [] };

/**
 * Allows a function to be part of a loop. If a message passes through the same function about 16 times, Lambda assumes
 * an infinite loop and drops the message. This loop is intended, and it ends: the policy limits the number of attempts.
 */
export function allowLoop(resource: lambda.CfnFunction): void {
  resource.recursiveLoop = chooseByRegion(LOOP_DETECTION, resource, lambda.RecursiveLoop.ALLOW);
}

/** Enables traces of a function's invocations. */
export function trace(resource: lambda.CfnFunction): void {
  resource.tracingConfig = { mode: chooseByRegion(X_RAY, resource, lambda.Tracing.ACTIVE, lambda.Tracing.PASS_THROUGH) };
}

/** Returns false if the stack's region is known at synthesis and has no X-Ray. */
export function mayTrace(stack: Stack): boolean {
  return lacks(stack.region, X_RAY) !== true;
}

/** Returns problems with props that the stack's region does not support. */
export function regionProblems(
  { tracing, provisionedPollers }: { readonly tracing?: boolean; readonly provisionedPollers?: object },
  stack: Stack,
): string[] {
  const { region } = stack;
  return [
    ...(tracing === true && !mayTrace(stack) ? [`tracing is true, but Lambda has no X-Ray in ${region}; remove it.`] : []),
    // See "Getting Started with Amazon Web Services in China".
    ...(provisionedPollers && !Token.isUnresolved(region) && region.startsWith('cn-')
      ? [`provisionedPollers do not exist in ${region}; remove them, and use maxConcurrency.`]
      : []),
  ];
}

/** Returns the problem if a resource is in another region, which the functions' clients cannot reach. */
export function elsewhereProblems(prop: string, what: string, { env: { region } }: IResource, stack: Stack): string[] {
  return Token.compareStrings(stack.region, region) === TokenComparison.DIFFERENT
    ? [`${prop} is ${what} of ${region}, but the functions are in ${stack.region}; use one of ${stack.region}.`]
    : [];
}

/**
 * Returns one of two values: immediately if the stack's region is known, otherwise through a condition at deployment.
 */
function chooseByRegion(feature: Feature, scope: Construct, there: string, elsewhere?: string): string | undefined {
  const stack = Stack.of(scope);
  const known = lacks(stack.region, feature);
  if (known !== undefined) {
    return known ? elsewhere : there;
  }
  const { condition, partitions, regions } = feature;
  if (!stack.node.tryFindChild(condition)) {
    const expression = Fn.conditionOr(
      ...partitions.map((partition) => Fn.conditionEquals(Aws.PARTITION, partition)),
      ...regions.map((region) => Fn.conditionEquals(Aws.REGION, region)),
    );
    new CfnCondition(stack, condition, { expression });
  }
  return Token.asString(Fn.conditionIf(condition, elsewhere ?? Aws.NO_VALUE, there));
}

/** Returns true if the region lacks the feature, or `undefined` if the region is only known at deployment. */
function lacks(region: string, { partitions, regions }: Feature): boolean | undefined {
  return Token.isUnresolved(region) ? undefined : partitions.includes(RegionInfo.get(region).partition ?? 'aws') || regions.includes(region);
}
