import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  longestDelaySeconds,
  type PolicyDocument,
  worstCaseDelaySeconds,
  worstCaseHoldSeconds,
  worstCaseRedriveSeconds,
  worstCaseSpanSeconds,
} from '../lib/policy';
import { policyProblems } from '../lib/schemas';

test("a contradiction is reported in the functions' words", () => {
  const tooLong = 'is more than 900, the longest DelaySeconds of SQS: lower it, or set long_delays to true.';
  assert.deepEqual(policyProblems({ backoff: { kind: 'exponential', initial_delay_seconds: 1, offset_seconds: 901 } }), [`policy/backoff/offset_seconds ${tooLong}`]);
  assert.deepEqual(policyProblems({ max_age_seconds: 1_209_601 }), [
    'policy/max_age_seconds is more than 1209600, the longest retention of SQS: lower it, or set long_delays to true.',
  ]);
  assert.deepEqual(policyProblems({ preset: 'durable_none', backoff: { kind: 'uniform' } }), [
    'policy/backoff cannot be combined with preset, which sets a backoff: remove one of them.',
  ]);
  assert.deepEqual(
    policyProblems({ backoff: { kind: 'exponential', initial_delay_seconds: 1, max_delay_seconds: 9, jitter: { kind: 'additive', max_seconds: 10 } } }),
    ['policy/backoff/jitter/max_seconds is more than max_delay_seconds (900 unless set); lower it or raise the other.'],
  );
  assert.deepEqual(policyProblems({ circuit_breaker: { failure_ratio: 1 } as any }), ['policy/circuit_breaker has the unknown member failure_ratio.']);
  for (const wrong of ['attribute:', 'Group', 5, null, 'attribute:a b', `attribute:${'x'.repeat(257)}`] as any[]) {
    assert.deepEqual(policyProblems({ circuit_breaker: { per: wrong } }), [
      'policy/circuit_breaker/per must be "group", "target", or "attribute:" and an attribute\'s name (up to 256 of A-Z a-z 0-9 _ - .).',
    ]);
  }
  for (const wrong of [true, null, '', [], 1] as any[]) {
    assert.deepEqual(policyProblems({ circuit_breaker: wrong }), ['policy/circuit_breaker must be an object, or false: {} turns it on with all defaults.']);
  }
  // A problem that the schema already reports is not repeated.
  assert.deepEqual(policyProblems({ backoff: { kind: 'fixed', delay_seconds: 43_201 } }), ['policy/backoff/delay_seconds must be <= 43200.']);
});

test('the longest delay, the first delays and the span with calls are computed', () => {
  const policy: PolicyDocument = { long_delays: true, backoff: { kind: 'schedule', delays_seconds: [43_200, 10, 20] } };
  assert.equal(longestDelaySeconds(policy), 43_200);
  assert.equal(worstCaseDelaySeconds(policy, 2), 43_210);
  assert.equal(worstCaseSpanSeconds(policy, 60), 43_200 + 10 + 3 * 20 + 6 * 60);
  assert.equal(worstCaseSpanSeconds({ ...policy, max_age_seconds: 100 }, 60), 100);
  assert.equal(longestDelaySeconds({ max_attempts: 0 }), 0);
});

test('an outage of the target adds the hold limit and the shortest hold', () => {
  // A day has 153.6 holds of 562.5 s, after 35 shorter ones; each ends with an invocation.
  assert.equal(worstCaseHoldSeconds({}, 60), 86_400 + 1 + (35 + 154) * 60);
  assert.equal(worstCaseHoldSeconds({ circuit_breaker: { hold_seconds_max: 3600 } }, 1), 3600 + 1 + (35 + 7));
  assert.equal(worstCaseHoldSeconds({ circuit_breaker: false }, 60), 0);
});

test('an outage of redeliver adds all redrives with their visibility timeouts', () => {
  // 5, 10 … 640: eight delays; then twelve of the longest.
  const delays = 5 * 255 + 12 * 900;
  assert.equal(worstCaseRedriveSeconds({}, 360), delays + 20 * 360);
  assert.equal(worstCaseRedriveSeconds({ max_redrives: 3 }, 10), 5 + 10 + 20 + 30);
  assert.equal(worstCaseRedriveSeconds({ max_redrives: 0 }, 360), 0);
});
