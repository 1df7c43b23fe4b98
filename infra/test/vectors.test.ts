import { App, Duration, Stack } from 'aws-cdk-lib';
import { Template } from 'aws-cdk-lib/assertions';
import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, test } from 'node:test';

import { AsyncRetry, Redeliver, RetryPolicy, type Strategy } from '../lib/index';
import { normalizeProps } from '../lib/normalized-props';
import { planOf } from '../lib/planning';
import { maxAttempts, type PolicyDocument, worstCaseDelaySeconds, worstCaseSpanSeconds } from '../lib/policy';
import { RedeliverPropsError } from '../lib/props-error';
import { policyProblems, schemaProblems } from '../lib/schemas';
import { secretParameter } from '../lib/secret-parameter';
import { STRATEGIES } from '../lib/strategy/index';
import { fakeBundles, HTTP, temporaryDirectory } from './stack-support';
import { userFunction } from './stack-variants';
import { type Accepted, BACKOFFS, CALL_SECONDS, PATTERNS, POLICIES, QUEUES, type QueuesVector, SECRET_PARAMETERS, STRATEGY_POLICIES, type StrategyVector } from './vectors';

/** Returns the pointers of all violations in a document, each once, sorted. */
function violationPointers(policy: PolicyDocument): string[] {
  const pointers = policyProblems(policy).map((sentence) => {
    const [, pointer = '', unknown] = sentence.match(/^policy(\S*) (?:has the unknown member (.*)\.)?/) ?? [];
    const [, missing] = sentence.match(/must have required property '(\w+)'/) ?? [];
    const member = unknown ?? missing;
    return member === undefined ? pointer : `${pointer}/${member.replaceAll('~', '~0').replaceAll('/', '~1')}`;
  });
  return [...new Set(pointers)].sort();
}

/** Returns the longest delay before a retry. */
function longestDelay(policy: PolicyDocument, retry: number): number {
  return worstCaseDelaySeconds(policy, retry) - worstCaseDelaySeconds(policy, retry - 1);
}

const STACK = new Stack();

/** True if the stack accepts these retries with this retention of the source queue. */
function fits(policy: PolicyDocument, seconds: number): boolean {
  assert.equal(CALL_SECONDS, 60, "the default of the stack's timeout, which a call takes at worst");
  try {
    // The vectors count only the calls.
    const props = { ...HTTP, maxBatchingWindow: Duration.seconds(0), sourceRetention: Duration.seconds(seconds) };
    planOf(normalizeProps({ ...props, policy: RetryPolicy.fromJson(policy) }), STACK);
    return true;
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    assert.match(error.message, /^policy allows \d+ retries over .* at worst, more than 80 % .*$/);
    return false;
  }
}

function assertMeans(policy: PolicyDocument, { means, worst_case_span_seconds, least_retention_seconds: least }: Accepted): void {
  for (const same of [policy, means]) {
    assert.deepEqual(policyProblems(same), []);
    assert.equal(maxAttempts(same), means.max_attempts);
    assert.equal(worstCaseSpanSeconds(same, CALL_SECONDS), worst_case_span_seconds);
  }
  // The shortest retention must cover a delay of 900 s, regardless of the policy.
  const [shortest, longest] = [1125, Duration.days(14).toSeconds() - 1];
  if (least === null || least <= shortest) {
    assert.ok(fits(policy, shortest));
    return;
  }
  assert.equal(fits(policy, Math.min(least, longest)), least <= longest);
  assert.ok(!fits(policy, Math.min(least - 1, longest)));
}

test('vectors exist for every difference', () => {
  const sorted = (names: readonly (string | undefined)[]): string[] => [...new Set(names)].filter((name) => name !== undefined).sort();
  const kinds = ['exponential', 'fixed', 'schedule', 'uniform'];
  const accepted = POLICIES.filter((vector) => vector.accepted).map(({ document }) => document);
  const { preset: presets } = JSON.parse(readFileSync(join(__dirname, '../../schemas/retry-policy.schema.json'), 'utf8')).properties;
  assert.deepEqual(sorted(accepted.map(({ backoff }) => backoff?.kind)), kinds);
  assert.deepEqual(sorted(accepted.map(({ preset }) => preset)), [...presets.enum].sort());
  assert.ok(POLICIES.some(({ refused }) => refused));
  assert.deepEqual(sorted(BACKOFFS.map(({ policy }) => policy.backoff?.kind)), kinds);
  assert.ok(BACKOFFS.every(({ longest_seconds }) => Object.keys(longest_seconds).length > 0));
  assert.deepEqual(sorted(QUEUES.map(({ strategy }) => strategy)), ['async-retry', ...Object.keys(STRATEGIES)].sort());
});

describe('policies', () => {
  for (const { name, document, accepted, refused } of POLICIES) {
    test(name, () => (accepted ? assertMeans(document, accepted) : assert.deepEqual(violationPointers(document), refused)));
  }
});

describe("the longest delays equal the functions'", () => {
  for (const { name, policy, longest_seconds } of BACKOFFS) {
    test(name, () => {
      for (const [retry, longest] of Object.entries(longest_seconds)) {
        assert.equal(longestDelay(policy, Number(retry)), longest, `retry ${retry}`);
      }
    });
  }
});

function stackWith({ strategy, policy }: Pick<StrategyVector, 'strategy' | 'policy'>): Stack {
  const stack = new Stack(new App(), 'Test');
  const props = { bundles: fakeBundles(), prefix: 'p', stage: 's', policy: RetryPolicy.fromJson(policy) };
  if (strategy === 'async-retry') {
    new AsyncRetry(stack, 'Retries', { ...props, functions: [userFunction(stack, 'Report')] });
  } else {
    new Redeliver(stack, 'Retries', { ...props, ...HTTP, strategy: strategy as Strategy });
  }
  return stack;
}

/** Returns the pointers of all violations that the strategy reports. */
function strategyViolations(vector: StrategyVector): string[] {
  try {
    stackWith(vector);
    return [];
  } catch (error) {
    assert.ok(error instanceof RedeliverPropsError, String(error));
    return error.message.split('\n').map((sentence) => sentence.match(/^policy(\/\S+) /)?.[1] ?? sentence).sort();
  }
}

describe('a data schema is accepted if the functions can use its patterns', () => {
  for (const { name, schema, refused } of PATTERNS) {
    test(name, () => {
      const path = join(temporaryDirectory(), 'data.json');
      writeFileSync(path, JSON.stringify(schema));
      const pointers = schemaProblems('dataSchema', path).map((sentence) => sentence.match(/ cannot be used: (\/\S.*?) (?:has|takes) /)?.[1] ?? sentence);
      assert.deepEqual(pointers, refused === null ? [] : [refused]);
    });
  }
});

describe('policies that a strategy accepts or refuses', () => {
  for (const vector of STRATEGY_POLICIES) {
    test(vector.name, () => assert.deepEqual(strategyViolations(vector), vector.refused));
  }
});

test("absent policy members have the functions' defaults for the strategy", () => {
  // Members missing from its definition belong to another strategy.
  const inRust = (name: string): unknown => {
    const rust = readFileSync(join(__dirname, `../../crates/core/src/strategy/${name.replaceAll('-', '_')}.rs`), 'utf8');
    const own = rust.match(/default_policy: r?#?"(\{.*\})"#?,/)?.[1];
    return own === undefined ? inRust(rust.match(/\.\.(\w+)::DEFINITION/)?.[1] ?? '') : JSON.parse(own);
  };
  for (const [name, { defaultPolicy }] of Object.entries(STRATEGIES)) {
    assert.deepEqual(defaultPolicy, inRust(name), name);
  }
});

/** Returns a template's queues in the vectors' terms. */
function queuesOf(vector: QueuesVector): QueuesVector['queues'] {
  const stack = stackWith(vector);
  const queues = Template.fromStack(stack).findResources('AWS::SQS::Queue');
  const name = (id: string): string => queues[id]?.['Properties'].QueueName.replace('p-s-', '');
  return Object.fromEntries(
    Object.entries(queues).map(([id, { Properties: { MessageRetentionPeriod, RedrivePolicy: redrive } }]) => [
      name(id),
      {
        retention_seconds: MessageRetentionPeriod,
        ...(redrive && { max_receive_count: redrive.maxReceiveCount, dead_letter_queue: name(redrive.deadLetterTargetArn['Fn::GetAtt'][0]) }),
      },
    ]),
  );
}

describe('queues', () => {
  for (const vector of QUEUES) {
    test(vector.name, () => assert.deepEqual(queuesOf(vector), vector.queues));
  }
});

describe('secret parameters of a URL', () => {
  for (const { url, parameter } of SECRET_PARAMETERS) {
    test(url, () => assert.equal(secretParameter(url) ?? null, parameter));
  }
});
