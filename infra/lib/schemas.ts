import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';

import type { RetryPolicy } from './policy.ts';

/** "Lambda quotas": all environment variables of a function together are at most 4 KB; the rest is for the others. */
const POLICY_BYTES_MAX = 3 * 1024;

const POLICY_SCHEMA = new URL('../../schemas/retry-policy.schema.json', import.meta.url);

/** What is wrong with a policy: what the functions would refuse when they start. */
export function policyProblems(policy: RetryPolicy): string[] {
  const validate = compiled(readJson(POLICY_SCHEMA));
  if (!validate(policy)) {
    return violations(validate).map((violation) => `policy${sentence(violation)}`);
  }
  const problems = contradictions(policy);
  const bytes = Buffer.byteLength(JSON.stringify(policy));
  if (bytes > POLICY_BYTES_MAX) {
    problems.push(
      `policy has ${bytes} bytes as JSON, more than the ${POLICY_BYTES_MAX} that fit into a function's environment; ` +
        'shorten its lists.',
    );
  }
  return problems;
}

/** What is wrong with a user's schema for `data`. */
export function dataSchemaProblems(path: string): string[] {
  try {
    const schema = readJson(path);
    if (typeof schema !== 'boolean' && (typeof schema !== 'object' || schema === null || Array.isArray(schema))) {
      throw new Error('a JSON Schema is an object');
    }
    compiled(schema);
    return [];
  } catch (error) {
    return [`dataSchema ${path} cannot be used: ${(error as Error).message}; give a JSON Schema 2020-12 without remote references.`];
  }
}

function compiled(schema: object | boolean): ValidateFunction {
  return new Ajv2020({ strict: false, validateFormats: false, allErrors: true, logger: false }).compile(schema);
}

function readJson(path: string | URL): object | boolean {
  return JSON.parse(readFileSync(path, 'utf8')) as object | boolean;
}

/** Rules between members, which the schema cannot say; the functions have the same. */
function contradictions({ backoff, retryable, non_retryable }: RetryPolicy): string[] {
  const problems: string[] = [];
  if (backoff?.kind === 'exponential' && backoff.initial_delay_seconds > (backoff.max_delay_seconds ?? Infinity)) {
    problems.push('policy/backoff/initial_delay_seconds is more than max_delay_seconds; lower it or raise the other.');
  }
  for (const [index, pattern] of (non_retryable ?? []).entries()) {
    if (retryable?.includes(pattern)) {
      problems.push(`policy/non_retryable/${index} stands in retryable too; remove one of the two.`);
    }
  }
  return problems;
}

/** Without the branches that only say that something inside them is wrong. */
function violations(validate: ValidateFunction): ErrorObject[] {
  const told = (validate.errors ?? []).filter(({ keyword }) => keyword !== 'if');
  // One for each place: the others follow from it.
  return told.filter(
    ({ instancePath, keyword }, index) =>
      keyword === 'additionalProperties' || told.findIndex((other) => other.instancePath === instancePath) === index,
  );
}

function sentence({ instancePath, keyword, params, message }: ErrorObject): string {
  const rule = keyword === 'additionalProperties' ? `has the unknown member ${String(params.additionalProperty)}` : message;
  const known = keyword === 'enum' ? ` (${(params.allowedValues as string[]).join(', ')})` : '';
  const why = params.limit === 900 ? ': DelaySeconds of SQS cannot express a longer delay' : '';
  return `${instancePath} ${rule}${known}${why}.`;
}
