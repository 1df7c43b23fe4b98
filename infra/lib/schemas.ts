import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js';
import { readFileSync } from 'node:fs';

import { bytesInEnvironment } from './environment';
import { POLICY_SCHEMA } from './package-files';
import { patternProblems } from './patterns';
import { DELAY_SECONDS_MAX, type PolicyDocument } from './policy';

/** The policy's share of a function's environment, as measured by Lambda. */
const POLICY_BYTES_MAX = 3 * 1024;

/** The longest retention, 14 days ("Amazon SQS message quotas"). */
const RETENTION_SECONDS_MAX = 1_209_600;

/** Returns the problems with a policy that the functions would also report at startup. */
export function policyProblems(policy: PolicyDocument): string[] {
  const validate = (policySchema ??= compileSchema(readJson(POLICY_SCHEMA)));
  const bySchema = validate(policy) ? [] : violations(validate);
  const problems = [
    ...bySchema.map((violation) => `policy${describeViolation(violation)}`),
    // A member that violates the schema is reported only once.
    ...contradictions(policy)
      .filter(([pointer]) => !bySchema.some(({ instancePath }) => instancePath === pointer))
      .map(([pointer, rule]) => `policy${pointer} ${rule}.`),
  ];
  const bytes = bytesInEnvironment(JSON.stringify(policy));
  if (bytes > POLICY_BYTES_MAX) {
    problems.push(
      `policy has ${bytes} bytes as an environment variable, more than the ${POLICY_BYTES_MAX} that fit into a function's environment; ` +
        'shorten its lists.',
    );
  }
  return problems;
}

/** Returns problems with a user's schema, whose path is given in a prop. */
export function schemaProblems(prop: string, path: string): string[] {
  try {
    const schema = readJson(path);
    if (typeof schema !== 'boolean' && (typeof schema !== 'object' || schema === null || Array.isArray(schema))) {
      throw new Error('a JSON Schema is an object');
    }
    compileSchema(schema);
    return patternProblems(schema).map((problem) => `${prop} ${path} cannot be used: ${problem}.`);
  } catch (error) {
    return [`${prop} ${path} cannot be used: ${(error as Error).message}; give a JSON Schema 2020-12 without remote references.`];
  }
}

/** The policy schema, compiled once per app: compiling takes longer than all other checks. */
let policySchema: ValidateFunction | undefined;

function compileSchema(schema: object | boolean): ValidateFunction {
  return new Ajv2020({ strict: false, validateFormats: false, allErrors: true, logger: false }).compile(schema);
}

function readJson(path: string | URL): object | boolean {
  return JSON.parse(readFileSync(path, 'utf8')) as object | boolean;
}

/** A JSON Pointer to a member, and the rule that the member breaks. */
type Contradiction = readonly [pointer: string, rule: string];

/**
 * Returns violations of rules between members that the schema cannot express. The functions enforce the same rules
 * (schemas/vectors/policies.json).
 */
function contradictions(policy: any): Contradiction[] {
  const found: Contradiction[] = [];
  const backoff = policy?.backoff;
  if (policy?.preset !== undefined && backoff !== undefined) {
    found.push(['/backoff', 'cannot be combined with preset, which sets a backoff: remove one of them']);
  }
  if (policy?.long_delays !== true) {
    found.push(...longDelayContradictions(policy));
  }
  // The default cap of an exponential backoff is 900 s, even with long delays.
  const isDefault = policy?.long_delays === true && backoff?.kind === 'exponential';
  const max = backoff?.max_delay_seconds ?? (isDefault ? DELAY_SECONDS_MAX : undefined);
  if (backoff?.initial_delay_seconds > max) {
    found.push(['/backoff/initial_delay_seconds', 'is more than max_delay_seconds (900 unless set); lower it or raise the other']);
  }
  if (backoff?.jitter?.max_seconds > max) {
    found.push(['/backoff/jitter/max_seconds', 'is more than max_delay_seconds (900 unless set); lower it or raise the other']);
  }
  const [retryable, nonRetryable] = [policy?.retryable, policy?.non_retryable].map((list) => (Array.isArray(list) ? list : []));
  for (const [index, pattern] of (nonRetryable ?? []).entries()) {
    if (retryable?.includes(pattern)) {
      found.push([`/non_retryable/${index}`, 'is also in retryable; remove one of the two']);
    }
  }
  return found;
}

/** Returns delays and ages that require `long_delays`. */
function longDelayContradictions(policy: any): Contradiction[] {
  const backoff = policy?.backoff;
  const named = ['max_delay_seconds', 'initial_delay_seconds', 'offset_seconds', 'delay_seconds'];
  const listed: unknown[] = Array.isArray(backoff?.delays_seconds) ? backoff.delays_seconds : [];
  const delays: [string, unknown][] = [
    ...named.map((name): [string, unknown] => [`/backoff/${name}`, backoff?.[name]]),
    ...listed.map((delay, index): [string, unknown] => [`/backoff/delays_seconds/${index}`, delay]),
    ['/backoff/jitter/max_seconds', backoff?.jitter?.max_seconds],
  ];
  const more = (value: unknown, than: number): boolean => typeof value === 'number' && value > than;
  const found = delays
    .filter(([, delay]) => more(delay, DELAY_SECONDS_MAX))
    .map(([pointer]): Contradiction => [pointer, 'is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true']);
  if (more(policy?.max_age_seconds, RETENTION_SECONDS_MAX)) {
    found.push(['/max_age_seconds', 'is more than 1209600, the longest retention of SQS: lower it, or set long_delays to true']);
  }
  return found;
}

/** Returns the schema violations, without those that follow from another. */
function violations(validate: ValidateFunction): ErrorObject[] {
  const errors = (validate.errors ?? []).filter(({ keyword }) => keyword !== 'if');
  // Only the first violation for each pointer: the others follow from it.
  return errors.filter(
    ({ instancePath, keyword }, index) =>
      keyword === 'additionalProperties' || errors.findIndex((other) => other.instancePath === instancePath) === index,
  );
}

/** Messages that replace the library's, by keyword. */
const RULES: Readonly<Record<string, (params: ErrorObject['params']) => string>> = {
  additionalProperties: ({ additionalProperty }) => `has the unknown member ${String(additionalProperty)}`,
  // The schema's only constant is `false`, which turns the circuit breaker off.
  const: ({ allowedValue }) => `must be an object, or ${JSON.stringify(allowedValue)}: {} turns it on with all defaults`,
};
const PER_RULE = 'must be "group", "target", or "attribute:" and an attribute\'s name (up to 256 of A-Z a-z 0-9 _ - .)';

function describeViolation({ instancePath, keyword, params, message }: ErrorObject): string {
  const rule = instancePath === '/circuit_breaker/per' ? PER_RULE : (RULES[keyword]?.(params) ?? message);
  const known = keyword === 'enum' ? ` (${(params.allowedValues as string[]).join(', ')})` : '';
  return `${instancePath} ${rule}${known}.`;
}
