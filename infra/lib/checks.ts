import { type Stack, Token } from 'aws-cdk-lib';
import { isIPv4 } from 'node:net';

import { topicProblems } from './alarm-topic';
import { existingQueueProblems } from './existing-queue-checks';
import { innerConcurrencyProblems } from './function';
import { functionProblems } from './function-target';
import type { Given } from './given';
import { messageProblems } from './messages';
import { nameProblems, takenProblems } from './names';
import { deliverySeconds, INNER_RETENTION, type Plan, RETENTION_SHARE, VISIBILITY_FACTOR } from './plan';
import { maxAttempts, worstCaseSpanSeconds } from './policy';
import type { ProvisionedPollers } from './props';
import { durationProblems, wholeNumberProblems } from './range';
import { policyProblems } from './schemas';
import { ofThisStack, saidOf } from './source-queue';
import { STRATEGIES } from './strategy/index';
import type { GivenTarget } from './target';

/** Where the durations of the source queue are said, and the numbers of the function that reads it. */
interface Named {
  readonly visibilityTimeout: string;
  readonly retention: string;
  readonly timeout: string;
  readonly reservedConcurrency: string;
}

const OF_OURS = { timeout: 'timeout', reservedConcurrency: 'reservedConcurrency' };
const OF_A_USER = {
  timeout: "target.function's timeout",
  reservedConcurrency: "target.function's reservedConcurrentExecutions",
};

/** Everything that is wrong with a plan, a sentence each. */
export function problemsOf(props: Given, plan: Plan, stack: Stack): string[] {
  const strategy = STRATEGIES[plan.strategy];
  const policy = policyProblems(plan.policy);
  const given = ofThisStack(props.existingSourceQueue, stack);
  const said = saidOf(given);
  const named = {
    visibilityTimeout: said.visibilityTimeout ? "existingSourceQueue's visibilityTimeout" : 'sourceVisibilityTimeout',
    retention: said.retention ? "existingSourceQueue's retentionPeriod" : 'sourceRetention',
    ...(props.target.kind === 'function' ? OF_A_USER : OF_OURS),
  };
  const ranges = [...strategy.rangeProblems(plan), ...rangeProblems(props, plan), ...timeProblems(plan, named)];
  return [
    ...nameProblems(plan.names),
    ...takenProblems(plan.names, stack, given),
    ...policy,
    ...longDelaysProblems(props),
    ...strategy.propProblems(props),
    ...topicProblems(props.alarmTopic, stack),
    ...messageProblems(props),
    ...innerConcurrencyProblems(props),
    ...(props.provisionedPollers && props.maxConcurrency !== undefined
      ? ['maxConcurrency is not for provisionedPollers, which limit the invocations themselves, ten each; remove one of the two.']
      : []),
    ...(props.target.kind === 'http' ? urlProblems(props.target) : []),
    ...functionProblems(props, stack),
    ...(props.existingSourceQueue ? existingQueueProblems(props, props.existingSourceQueue, plan, stack) : []),
    ...ranges,
    // What only follows from a wrong number is not said.
    ...(ranges.length === 0
      ? [...reservationProblems(plan, named), ...batchProblems(plan), ...visibilityProblems(plan, named)]
      : []),
    ...(ranges.length === 0 && policy.length === 0 ? [...spanProblems(plan, named), ...strategy.planProblems(plan)] : []),
  ];
}

function longDelaysProblems({ policy, longDelays }: Given): string[] {
  const said = policy?.long_delays;
  return longDelays !== undefined && said !== undefined && longDelays !== said
    ? [`longDelays is ${longDelays}, but policy/long_delays is ${said}; remove one of the two.`]
    : [];
}

function urlProblems({ url, allowHttp }: Extract<GivenTarget, { kind: 'http' }>): string[] {
  if (Token.isUnresolved(url)) {
    return [];
  }
  if (!URL.canParse(url)) {
    return ['target.url is not a URL; give the https:// URL that messages are POSTed to.'];
  }
  if (url.includes('#')) {
    return ['target.url has a fragment (#…), which no server ever sees; remove it.'];
  }
  const { protocol, username, password, hostname } = new URL(url);
  if (username !== '' || password !== '') {
    return ['target.url has credentials in it, which would be readable by many; put them into target.headersSecret.'];
  }
  const loopback = hostname === 'localhost' || hostname === '[::1]' || (isIPv4(hostname) && hostname.startsWith('127.'));
  if (protocol === 'https:' || (protocol === 'http:' && (allowHttp || loopback))) {
    return [];
  }
  if (protocol === 'http:') {
    return ['target.url is http://, which anybody on the way can read; use https://, or set target.allowHttp: true.'];
  }
  return [`target.url starts with ${protocol}//; use an https:// URL.`];
}

function rangeProblems({ memorySize }: Given, plan: Plan): string[] {
  const whole = wholeNumberProblems;
  return [
    ...whole('batchSize', plan.batchSize, 1, 10, 'also with a batching window: the functions are made for ten'),
    ...whole('maxConcurrentCalls', plan.maxConcurrentCalls, 1, 10_000, "the function's own limit"),
    ...(plan.pollers
      ? pollerProblems(plan.pollers)
      : whole('maxConcurrency', plan.maxConcurrency, 2, 1000, 'what an SQS event source mapping accepts')),
    ...(memorySize === undefined ? [] : whole('memorySize', memorySize, 128, 10_240, 'MiB, as a Lambda function can have')),
  ];
}

function pollerProblems({ minimum, maximum }: Required<ProvisionedPollers>): string[] {
  const problems = [
    ...wholeNumberProblems('provisionedPollers.minimum', minimum, 2, 200, 'what an SQS event source mapping accepts'),
    ...wholeNumberProblems('provisionedPollers.maximum', maximum, 2, 2000, 'what an SQS event source mapping accepts'),
  ];
  return problems.length === 0 && minimum > maximum
    ? [`provisionedPollers.minimum is ${minimum}, more than maximum (${maximum}); lower it or raise the other.`]
    : problems;
}

function timeProblems(plan: Plan, named: Named): string[] {
  const within = durationProblems;
  const { sourceDlqTitle, leastRetention } = STRATEGIES[plan.strategy];
  const retention = within(
    named.retention, plan.sourceRetention, 60, INNER_RETENTION.toSeconds() - 1,
    `: less than the 14 days of the ${sourceDlqTitle}, where a message keeps the age it came with`,
  );
  return [
    ...(plan.userFunction
      ? within(named.timeout, plan.timeout, 11, 900, ": the last five are kept free for hand-offs. Lambda's default is 3 s")
      : within(named.timeout, plan.timeout, 1, 900, ', as a Lambda function can run')),
    ...within('maxBatchingWindow', plan.maxBatchingWindow, 0, 300, ', as an SQS event source mapping can wait'),
    ...(plan.targetTimeout ? within('target.timeout', plan.targetTimeout, 1, 900) : []),
    ...within(named.visibilityTimeout, plan.sourceVisibilityTimeout, 0, Infinity),
    ...retention,
    ...(retention.length === 0 && plan.sourceRetention.toSeconds() < leastRetention.seconds
      ? [`${named.retention} is ${plan.sourceRetention.toSeconds()} s; use at least ${leastRetention.seconds} s: ${leastRetention.why}.`]
      : []),
  ];
}

function visibilityProblems(plan: Plan, named: Named): string[] {
  const window = plan.maxBatchingWindow.toSeconds();
  const visibility = plan.sourceVisibilityTimeout.toSeconds();
  const needed = VISIBILITY_FACTOR * plan.timeout.toSeconds() + window;
  if (visibility >= needed && visibility <= 43_200) {
    return [];
  }
  return [
    `${named.visibilityTimeout} is ${visibility} s; use at least ${VISIBILITY_FACTOR} × ${named.timeout}${window > 0 ? ' + maxBatchingWindow' : ''} = ` +
      `${needed} s, and at most 43200 s (12 hours).`,
  ];
}

/** A receive that Lambda refuses to run counts as one ("Configuring scaling behavior for SQS event source mappings"). */
function reservationProblems({ reservedConcurrency: reserved, maxConcurrency, pollers, strategy }: Plan, named: Named): string[] {
  if (reserved === undefined || (Number.isInteger(reserved) && reserved >= maxConcurrency)) {
    return [];
  }
  const limit = pollers ? '10 × provisionedPollers.maximum' : 'maxConcurrency';
  return [
    `${named.reservedConcurrency} is ${reserved}; use a whole number of at least ${limit} = ${maxConcurrency}: Lambda would refuse the other ` +
      `invocations, and each refused message spends ${STRATEGIES[strategy].unansweredCosts}.`,
  ];
}

/** A batch must be done before the function's time is up, with some seconds for what cannot be done in time. */
function batchProblems(plan: Plan): string[] {
  if (plan.targetTimeout === undefined) {
    return [];
  }
  const [timeout, target] = [plan.timeout.toSeconds(), plan.targetTimeout.toSeconds()];
  const rounds = Math.ceil(plan.batchSize / plan.maxConcurrentCalls);
  const needed = rounds * target + 5;
  if (needed <= timeout) {
    return [];
  }
  return [
    `timeout is ${timeout} s, but a batch of ${plan.batchSize} with ${plan.maxConcurrentCalls} calls at a time may take ` +
      `${rounds} × ${target} s + 5 s = ${needed} s; raise timeout or maxConcurrentCalls, or lower batchSize or ` +
      'target.timeout.',
  ];
}

/**
 * All retries are done within that share of the retention at which a message's age is an alarm, unless more is meant. Not
 * counted are a target's own delay (`Retry-After`), which may be longer than the backoff, and what only an outage adds: holds
 * and redrives. Each of these is a new message with a clock of its own, and the alarm waits for them.
 */
function spanProblems(plan: Plan, named: Named): string[] {
  const { strategy, policy, sourceRetention } = plan;
  const attempts = maxAttempts(policy);
  const meant = STRATEGIES[strategy].mayOutlastRetention(policy);
  const span = worstCaseSpanSeconds(policy, deliverySeconds(plan));
  if (meant || attempts === 0 || span <= RETENTION_SHARE * sourceRetention.toSeconds()) {
    return [];
  }
  const days = (seconds: number): string => `${(seconds / 86_400).toFixed(1)} days`;
  return [
    `policy allows ${attempts} retries over ${days(span)} at worst, more than ${RETENTION_SHARE * 100} % of the time that ` +
      `the source queue keeps a message (${days(sourceRetention.toSeconds())}); lower max_attempts or the delays, set max_age_seconds, or raise ` +
      `${named.retention}.`,
  ];
}
