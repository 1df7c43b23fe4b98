import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { RetryPolicy } from '../lib/index.ts';
import { longestDelaySeconds, worstCaseDelaySeconds, worstCaseSpanSeconds } from '../lib/policy.ts';
import { policyProblems } from '../lib/schemas.ts';

test('what contradicts is said in the words of the functions', () => {
  const told = (policy: RetryPolicy): string[] => policyProblems(policy);
  const tooLong = 'is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true.';
  assert.deepEqual(told({ backoff: { kind: 'exponential', initial_delay_seconds: 1, offset_seconds: 901 } }), [`policy/backoff/offset_seconds ${tooLong}`]);
  assert.deepEqual(told({ max_age_seconds: 1_209_601 }), [
    'policy/max_age_seconds is more than 1209600, the longest retention of SQS: lower it, or set long_delays to true.',
  ]);
  assert.deepEqual(told({ preset: 'durable_none', backoff: { kind: 'uniform' } }), [
    'policy/backoff stands beside preset, which is a backoff: remove one of them.',
  ]);
  assert.deepEqual(
    told({ backoff: { kind: 'exponential', initial_delay_seconds: 1, max_delay_seconds: 9, jitter: { kind: 'additive', max_seconds: 10 } } }),
    ['policy/backoff/jitter/max_seconds is more than max_delay_seconds (900 unless set); lower it or raise the other.'],
  );
  // Once, not twice, where the schema has said it.
  assert.deepEqual(told({ backoff: { kind: 'fixed', delay_seconds: 43_201 } }), ['policy/backoff/delay_seconds must be <= 43200.']);
});

test('the longest of all, the first ones alone, and with the calls between them', () => {
  const policy: RetryPolicy = { long_delays: true, backoff: { kind: 'schedule', delays_seconds: [43_200, 10, 20] } };
  assert.equal(longestDelaySeconds(policy), 43_200);
  assert.equal(worstCaseDelaySeconds(policy, 2), 43_210);
  assert.equal(worstCaseSpanSeconds(policy, 60), 43_200 + 10 + 3 * 20 + 6 * 60);
  assert.equal(worstCaseSpanSeconds({ ...policy, max_age_seconds: 100 }, 60), 100);
  assert.equal(longestDelaySeconds({ max_attempts: 0 }), 0);
});
