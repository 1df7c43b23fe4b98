import { Stack } from 'aws-cdk-lib';
import type * as lambda from 'aws-cdk-lib/aws-lambda';

import { RedeliverPropsError } from './props-error';

/** The quota for the total size of a function's environment variables ("Lambda quotas"). */
export const ENVIRONMENT_BYTES_MAX = 4096;

/**
 * Rejects a function whose environment variables are too large: immediately for the variables it is created with, and
 * at synthesis for variables added later.
 *
 * @throws RedeliverPropsError if the initial variables are too large.
 */
export function refuseLargeEnvironment(
  made: lambda.Function,
  { functionName, environment }: { readonly functionName: string; readonly environment: Readonly<Record<string, string>> },
): void {
  const stack = Stack.of(made);
  const problems = environmentProblems(functionName, stack.resolve(environment));
  if (problems.length > 0) {
    throw new RedeliverPropsError(problems);
  }
  const { environment: atSynth } = made.node.defaultChild as lambda.CfnFunction;
  made.node.addValidation({ validate: () => environmentProblems(functionName, stack.resolve(atSynth)?.variables ?? {}) });
}

/**
 * Returns the problem if the variables are too large. Lambda measures them as one JSON object, so a quotation mark in a
 * value counts twice. Tokens are not counted.
 */
function environmentProblems(functionName: string, resolved: Readonly<Record<string, unknown>>): string[] {
  const known = Object.entries(resolved).map(([name, value]) => [name, literalText(value)] as const);
  const bytes = bytesInEnvironment(Object.fromEntries(known));
  if (bytes <= ENVIRONMENT_BYTES_MAX) {
    return [];
  }
  const [longest, value] = known.reduce((one, other) => (bytesInEnvironment(other[1]) > bytesInEnvironment(one[1]) ? other : one));
  return [
    `the environment variables of ${functionName} have at least ${bytes} bytes as JSON, but Lambda allows ${ENVIRONMENT_BYTES_MAX}; shorten ` +
      `${longest}, which has ${bytesInEnvironment(value)}${longest === 'RETRY_POLICY' ? " (the policy's lists)" : ''}.`,
  ];
}

/**
 * Returns the size of variables as measured by Lambda, whose error message contains `String measured:` followed by
 * their JSON.
 */
export function bytesInEnvironment(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Returns the literal text of a resolved value, without references. */
function literalText(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'Fn::Join' in value) {
    const [separator, parts] = value['Fn::Join'] as [string, unknown[]];
    return parts.map(literalText).join(separator);
  }
  return typeof value === 'string' ? value : '';
}
