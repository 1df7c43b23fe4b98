import type { Stack } from 'aws-cdk-lib';

/** "Lambda quotas": all environment variables of a function together. */
export const ENVIRONMENT_BYTES_MAX = 4096;

/**
 * What is wrong with a function's environment variables: a sentence, if what is known of them is too much already. Lambda
 * measures them as one JSON object, so that a quotation mark in a value counts twice. A token counts nothing.
 */
export function environmentProblems(stack: Stack, functionName: string, variables: Readonly<Record<string, unknown>>): string[] {
  const known = Object.entries(stack.resolve(variables) as Record<string, unknown>).map(
    ([name, value]) => [name, literal(value)] as const,
  );
  const bytes = bytesOf(Object.fromEntries(known));
  if (bytes <= ENVIRONMENT_BYTES_MAX) {
    return [];
  }
  const [longest, value] = known.reduce((one, other) => (bytesOf(other[1]) > bytesOf(one[1]) ? other : one));
  return [
    `the environment variables of ${functionName} have ${bytes} bytes or more as JSON, and Lambda takes ${ENVIRONMENT_BYTES_MAX}; shorten ` +
      `${longest}, which has ${bytesOf(value)}${longest === 'RETRY_POLICY' ? " (the policy's lists)" : ''}.`,
  ];
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** The text of a resolved value without what CloudFormation puts in. */
function literal(value: unknown): string {
  if (typeof value === 'object' && value !== null && 'Fn::Join' in value) {
    const [separator, parts] = value['Fn::Join'] as [string, unknown[]];
    return parts.map(literal).join(separator);
  }
  return typeof value === 'string' ? value : '';
}
