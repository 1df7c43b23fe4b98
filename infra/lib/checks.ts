import { type Duration, type Stack, Token } from 'aws-cdk-lib';
import { isIPv4 } from 'node:net';

import { topicProblems } from './alarm-topic.ts';
import { existingQueueProblems } from './existing-queue-checks.ts';
import { type Names, takenProblems } from './names.ts';
import { longestDelaySeconds, LONG_DELAY_SECONDS_MAX, maxAttempts, worstCaseSpanSeconds } from './policy.ts';
import { INNER_RETENTION, type Plan, RETENTION_SHARE, SPARE_RECEIVES, VISIBILITY_FACTOR } from './plan.ts';
import type { HttpTarget, RedeliverProps } from './props.ts';
import { dataSchemaProblems, policyProblems } from './schemas.ts';
import { ofThisStack, saidOf } from './source-queue.ts';

/** The largest `maxReceiveCount` of SQS. */
const RECEIVES_MAX = 1000;

/** Where the source queue's durations are said. */
interface Named {
  readonly visibilityTimeout: string;
  readonly retention: string;
}

/** Everything that is wrong with a plan, a sentence each. */
export function problemsOf(props: RedeliverProps, plan: Plan, stack: Stack): string[] {
  const policy = policyProblems(plan.policy);
  const given = ofThisStack(props.existingSourceQueue, stack);
  const said = saidOf(given);
  const named = {
    visibilityTimeout: said.visibilityTimeout ? "existingSourceQueue's visibilityTimeout" : 'sourceVisibilityTimeout',
    retention: said.retention ? "existingSourceQueue's retentionPeriod" : 'sourceRetention',
  };
  const ranges = [...rangeProblems(plan), ...durationProblems(plan, named)];
  return [
    ...nameProblems(plan.names),
    ...takenProblems(plan.names, stack, given),
    ...policy,
    ...strategyProblems(props),
    ...topicProblems(props.alarmTopic, stack),
    ...(props.dataSchema === undefined ? [] : dataSchemaProblems(props.dataSchema)),
    ...(props.target.kind === 'http' ? urlProblems(props.target) : []),
    ...(props.existingSourceQueue ? existingQueueProblems(props, props.existingSourceQueue, plan, stack) : []),
    ...ranges,
    // What only follows from a wrong number is not said.
    ...(ranges.length === 0
      ? [...reservationProblems(plan), ...batchProblems(plan), ...visibilityProblems(plan, named)]
      : []),
    ...(ranges.length === 0 && policy.length === 0 ? [...spanProblems(plan, named), ...hidingProblems(plan)] : []),
  ];
}

/** The names must do for queues, stacks and functions, which are the shortest: 64 characters ("CreateFunction"). */
export function nameProblems({ prefix }: Pick<Names, 'prefix'>): string[] {
  const room = 64 - '-failed-message-processor'.length;
  if (/^[A-Za-z][A-Za-z0-9-]*$/.test(prefix) && prefix.length <= room) {
    return [];
  }
  return [
    `prefix and stage make the name "${prefix}", which must start with a letter and be at most ${room} letters, digits ` +
      'and hyphens; shorten or change them.',
  ];
}

function strategyProblems({ strategy, policy, longDelays, maxReceiveCount }: RedeliverProps): string[] {
  const problems: string[] = [];
  const said = policy?.long_delays;
  if (longDelays !== undefined && said !== undefined && longDelays !== said) {
    problems.push(`longDelays is ${longDelays}, but policy/long_delays is ${said}; remove one of the two.`);
  }
  if (strategy === 'visibility' && maxReceiveCount !== undefined) {
    problems.push(
      'maxReceiveCount is for strategy delayed-resend; remove it: with visibility each retry is a receive, and SQS moves a ' +
        `message after max_attempts + ${SPARE_RECEIVES} of them.`,
    );
  }
  return problems;
}

function urlProblems({ url, allowHttp }: HttpTarget): string[] {
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

function rangeProblems(plan: Plan): string[] {
  const whole = (name: string, value: number, min: number, max: number, why: string): string[] =>
    Number.isInteger(value) && value >= min && value <= max
      ? []
      : [`${name} is ${value}; use a whole number from ${min} to ${max} (${why}).`];
  return [
    // With visibility it follows from the policy, and is looked at with it.
    ...(plan.strategy === 'visibility'
      ? []
      : whole('maxReceiveCount', plan.maxReceiveCount, 1, 10, 'each receive counts as a retry spent')),
    ...whole('batchSize', plan.batchSize, 1, 10, 'more would need a batching window, which delays every message'),
    ...whole('maxConcurrentCalls', plan.maxConcurrentCalls, 1, 10_000, "the function's own limit"),
    ...whole('maxConcurrency', plan.maxConcurrency, 2, 1000, 'what an SQS event source mapping accepts'),
  ];
}

/** Whole seconds, within what AWS takes. */
function durationProblems(plan: Plan, named: Named): string[] {
  const inner = INNER_RETENTION.toSeconds();
  const dlq = plan.strategy === 'visibility' ? 'annotation queue' : 'intermediate DLQ';
  const within = (name: string, value: Duration | undefined, min: number, max: number, why: string): string[] => {
    const seconds = (value?.toMilliseconds() ?? min * 1000) / 1000;
    return Number.isInteger(seconds) && seconds >= min && seconds <= max
      ? []
      : [`${name} is ${seconds} s; use ${min} s to ${max} s, in whole seconds${why}.`];
  };
  return [
    ...within('timeout', plan.timeout, 1, 900, ', as a Lambda function can run'),
    ...within('target.timeout', plan.targetTimeout, 1, 900, ''),
    ...within(named.visibilityTimeout, plan.sourceVisibilityTimeout, 0, Infinity, ''),
    ...within(
      named.retention, plan.sourceRetention, 60, inner - 1,
      `: less than the 14 days of the ${dlq}, where a message keeps the age it came with`,
    ),
  ];
}

function visibilityProblems(plan: Plan, named: Named): string[] {
  const timeout = plan.timeout.toSeconds();
  const visibility = plan.sourceVisibilityTimeout.toSeconds();
  if (visibility >= VISIBILITY_FACTOR * timeout && visibility <= 43_200) {
    return [];
  }
  return [
    `${named.visibilityTimeout} is ${visibility} s; use at least ${VISIBILITY_FACTOR} × timeout = ` +
      `${VISIBILITY_FACTOR * timeout} s, and at most 43200 s (12 hours).`,
  ];
}

/** A receive that Lambda refuses to run counts as one ("Configuring scaling behavior for SQS event source mappings"). */
function reservationProblems({ reservedConcurrency: reserved, maxConcurrency }: Plan): string[] {
  if (reserved === undefined || (Number.isInteger(reserved) && reserved >= maxConcurrency)) {
    return [];
  }
  return [
    `reservedConcurrency is ${reserved}; use a whole number of at least maxConcurrency = ${maxConcurrency}: Lambda would refuse the other ` +
      'invocations, and each refused message spends an attempt.',
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
 * With visibility a message has one clock for all its retries: SQS deletes what outlasts the retention. Each re-send
 * starts a new clock, so there retries that outlast it are not lost by that; but nobody can tell them from messages that
 * are stuck, and the alarm on the messages' age, at this share of the retention, could not be believed. With long delays
 * they are meant, and the alarm waits for them. A target's own delay (`Retry-After`), which may be longer than the
 * backoff, is not counted.
 */
function spanProblems({ strategy, policy, sourceRetention, timeout }: Plan, named: Named): string[] {
  const attempts = maxAttempts(policy);
  const meant = strategy === 'delayed-resend' && policy.long_delays;
  const span = worstCaseSpanSeconds(policy, timeout.toSeconds());
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

/** What SQS can do of a policy by hiding a message ("Amazon SQS message quotas"). */
function hidingProblems({ strategy, policy, maxReceiveCount, sourceVisibilityTimeout }: Plan): string[] {
  if (strategy !== 'visibility') {
    return [];
  }
  const problems: string[] = [];
  // The annotation queue's count is higher still: a moved message brings its receives along.
  if (maxReceiveCount + SPARE_RECEIVES > RECEIVES_MAX) {
    problems.push(
      `policy/max_attempts is ${maxAttempts(policy)}; use at most ${RECEIVES_MAX - 2 * SPARE_RECEIVES} with strategy visibility: SQS moves a ` +
        `message after max_attempts + ${SPARE_RECEIVES} receives, the annotation queue keeps it for ${SPARE_RECEIVES} more, and SQS counts to ${RECEIVES_MAX}.`,
    );
  }
  if (policy.max_redelivery_per_second !== undefined) {
    problems.push('policy/max_redelivery_per_second is for strategy delayed-resend; remove it: with visibility nothing is sent again.');
  }
  const visibility = sourceVisibilityTimeout.toSeconds();
  const longest = longestDelaySeconds(policy);
  if (longest > LONG_DELAY_SECONDS_MAX - visibility) {
    problems.push(
      `policy has a delay of ${longest} s; use at most ${LONG_DELAY_SECONDS_MAX - visibility} s with strategy visibility: SQS hides a message for ` +
        `${LONG_DELAY_SECONDS_MAX} s (12 hours) from its receive, of which the visibility timeout (${visibility} s) may have passed.`,
    );
  }
  return problems;
}
