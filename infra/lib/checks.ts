import { Stack, Token } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';
import { isIPv4 } from 'node:net';

import { topicProblems } from './alarm-topic';
import { archiveProblems } from './archive';
import { existingQueueProblems } from './existing-queue-checks';
import { innerConcurrencyProblems } from './function';
import { functionProblems } from './function-target';
import { messageProblems, pointerProblems } from './messages';
import { duplicateNameProblems, nameProblems } from './names';
import type { NormalizedProps } from './normalized-props';
import { notifyProblems } from './notify';
import { deliverySeconds, type Plan, RETENTION_SHARE, VISIBILITY_FACTOR } from './plan';
import { maxAttempts, worstCaseSpanSeconds } from './policy';
import { producerProblems } from './producers';
import type { ProvisionedPollers } from './props';
import { keyProblems } from './queue-key';
import { durationProblems, wholeNumberProblems } from './range';
import { elsewhereProblems, regionProblems } from './region';
import { policyProblems } from './schemas';
import { durationsInTemplate, keyOf, queueOfThisStack } from './source-queue';
import type { StrategyDefinition } from './strategy/definition';
import { STRATEGIES } from './strategy/index';
import type { GivenTarget } from './target';

/** The names used in error messages for the source queue's durations and its reader's settings. */
interface SettingNames {
  readonly visibilityTimeout: string;
  readonly retention: string;
  readonly timeout: string;
  readonly reservedConcurrency: string;
}

const OUR_READER = { timeout: 'timeout', reservedConcurrency: 'reservedConcurrency' };
const USER_READER = {
  timeout: "target.function's timeout",
  reservedConcurrency: "target.function's reservedConcurrentExecutions",
};

/** Returns all problems with a plan, one sentence each. */
export function problemsOf(props: NormalizedProps, plan: Plan, scope: Construct): string[] {
  const stack = Stack.of(scope);
  const strategy = STRATEGIES[plan.strategy];
  const policy = policyProblems(plan.policy);
  const existing = queueOfThisStack(props.existingSourceQueue, stack);
  const inTemplate = durationsInTemplate(existing);
  const names = {
    visibilityTimeout: inTemplate.visibilityTimeout ? "existingSourceQueue's visibilityTimeout" : 'sourceVisibilityTimeout',
    retention: inTemplate.retention ? "existingSourceQueue's retentionPeriod" : 'sourceRetention',
    ...(props.target.kind === 'function' ? USER_READER : OUR_READER),
  };
  const ranges = [
    ...strategy.rangeProblems(plan),
    ...rangeProblems(props, plan),
    ...timeProblems(plan, strategy, names),
  ];
  return [
    ...nameProblems(plan.names),
    ...duplicateNameProblems(plan.names, scope, existing),
    ...policy,
    ...longDelaysProblems(props),
    ...strategy.propProblems(props),
    ...topicProblems(props, stack),
    ...archiveProblems(props, stack),
    ...notifyProblems(props.notify, stack),
    ...keyProblems('encryptionKey', props.encryptionKey, stack),
    ...(props.logEncryptionKey ? elsewhereProblems('logEncryptionKey', 'a key', props.logEncryptionKey, stack) : []),
    ...(props.environmentEncryptionKey ? elsewhereProblems('environmentEncryptionKey', 'a key', props.environmentEncryptionKey, stack) : []),
    ...keyProblems("existingSourceQueue's key", keyOf(props.existingSourceQueue), stack),
    ...producerProblems(props.producers, props.existingSourceQueue),
    ...messageProblems(props),
    ...innerConcurrencyProblems(plan),
    ...regionProblems(props, stack),
    ...(props.provisionedPollers && props.maxConcurrency !== undefined
      ? ['maxConcurrency cannot be used with provisionedPollers, which limit the invocations themselves, ten each; remove one of the two.']
      : []),
    ...(props.target.kind === 'http' ? urlProblems(props.target) : []),
    ...(props.target.kind === 'http' || props.target.kind === 'httpFromSecret' ? [...proxyProblems(props.target), ...excerptProblems(props.target)] : []),
    ...(props.target.kind === 'lambda' ? [...durableProblems(props.target), ...modeProblems(props.target)] : []),
    ...functionProblems(props, strategy, stack),
    ...(props.existingSourceQueue ? existingQueueProblems(props, props.existingSourceQueue, plan, stack) : []),
    ...ranges,
    // A number out of range would cause further problems here, so these checks are skipped until it is fixed.
    ...(ranges.length === 0
      ? [...reservationProblems(plan, strategy, names), ...batchProblems(plan), ...visibilityProblems(plan, names)]
      : []),
    ...(ranges.length === 0 && policy.length === 0
      ? [...spanProblems(plan, strategy, names), ...strategy.planProblems(plan)]
      : []),
  ];
}

function longDelaysProblems({ policy, longDelays }: NormalizedProps): string[] {
  const inPolicy = policy?.long_delays;
  return longDelays !== undefined && inPolicy !== undefined && longDelays !== inPolicy
    ? [`longDelays is ${longDelays}, but policy/long_delays is ${inPolicy}; remove one of the two.`]
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
    return ['target.url has a fragment (#…), which is never sent to the server; remove it.'];
  }
  const { protocol, username, password, hostname } = new URL(url);
  if (username !== '' || password !== '') {
    return ['target.url contains credentials, which the template would expose; put an Authorization header into target.headersSecret, or use Target.httpFromSecret.'];
  }
  const loopback = hostname === 'localhost' || hostname === '[::1]' || (isIPv4(hostname) && hostname.startsWith('127.'));
  if (protocol === 'https:' || (protocol === 'http:' && (allowHttp || loopback))) {
    return [];
  }
  if (protocol === 'http:') {
    return ['target.url is http://, which is not encrypted; use https://, or set target.allowHttp: true.'];
  }
  return [`target.url starts with ${protocol}//; use an https:// URL.`];
}

function proxyProblems(target: Extract<GivenTarget, { kind: 'http' | 'httpFromSecret' }>): string[] {
  const { proxy } = target;
  if (proxy === undefined || Token.isUnresolved(proxy)) {
    return [];
  }
  const { protocol, username, password } = URL.canParse(proxy) ? new URL(proxy) : { protocol: '', username: '', password: '' };
  if (protocol !== 'http:' && protocol !== 'https:') {
    return ['target.proxy is not the address of a proxy; give http://HOST:PORT or https://HOST:PORT.'];
  }
  if (username !== '' || password !== '') {
    return ['target.proxy contains credentials, which the template would expose; let the proxy identify its clients by their network.'];
  }
  const isPlain = target.kind === 'http' ? target.url.startsWith('http://') : target.allowHttp;
  return isPlain ? ['target.proxy is set, but the target may be http://, which does not go through a proxy; use https://, or remove target.proxy.'] : [];
}

function excerptProblems({ errorExcerpt = [] }: Extract<GivenTarget, { kind: 'http' | 'httpFromSecret' }>): string[] {
  return [
    ...(errorExcerpt.length > 8 ? [`target.errorExcerpt has ${errorExcerpt.length} entries; give at most 8.`] : []),
    ...errorExcerpt.flatMap((pointer, index) => pointerProblems(pointer, `target.errorExcerpt[${index}]`)),
    ...errorExcerpt.flatMap((pointer, index) =>
      Buffer.byteLength(pointer) > 128 ? [`target.errorExcerpt[${index}] has more than 128 bytes; name another value.`] : [],
    ),
  ];
}

/**
 * Returns the problem if a durable function is not given as a version or an alias, which Lambda requires ("Invoking
 * durable Lambda functions").
 */
function durableProblems({ durable, function: target }: Extract<GivenTarget, { kind: 'lambda' }>): string[] {
  const { functionArn } = target;
  const isQualified = Token.isUnresolved(functionArn) ? !(target instanceof lambda.Function) : functionArn.split(':').length > 7;
  return durable && !isQualified
    ? ['target.durable is true, but target.function is neither a version nor an alias, which Lambda needs to invoke a durable function; give one, such as function.currentVersion.']
    : [];
}

/**
 * Returns a problem for each mode of the target that needs an option. An imported function may not expose its modes.
 */
function modeProblems({ durable, tenantIsolation, function: target }: Extract<GivenTarget, { kind: 'lambda' }>): string[] {
  const { tenancyConfig } = target;
  const { defaultChild } = (target instanceof lambda.Alias || target instanceof lambda.Version ? target.lambda : target).node;
  const resource = defaultChild instanceof lambda.CfnFunction ? defaultChild : undefined;
  return [
    ...((resource?.tenancyConfig ?? tenancyConfig) !== undefined && !tenantIsolation
      ? [`target.function (${target.node.path}) is in tenant isolation mode, so Lambda refuses calls without a tenant id; set tenantIsolation: true, and send each message with its tenant as MessageGroupId.`]
      : []),
    ...(resource?.durableConfig !== undefined && !durable
      ? [`target.function (${target.node.path}) is a durable function, so each copy of an attempt would be an execution of its own; set durable: true, and give a version or an alias.`]
      : []),
  ];
}

function rangeProblems({ memorySize }: NormalizedProps, plan: Plan): string[] {
  const whole = wholeNumberProblems;
  return [
    ...whole('batchSize', plan.batchSize, 1, 10, 'also with a batching window: the functions are built for ten'),
    ...whole('maxConcurrentCalls', plan.maxConcurrentCalls, 1, 10_000, "the function's own limit"),
    ...(plan.pollers
      ? pollerProblems(plan.pollers)
      : whole('maxConcurrency', plan.maxConcurrency, 2, 1000, 'what an SQS event source mapping accepts')),
    ...(memorySize === undefined ? [] : whole('memorySize', memorySize, 128, 10_240, 'MiB, the range of Lambda')),
  ];
}

function pollerProblems({ minimum, maximum }: Required<ProvisionedPollers>): string[] {
  const problems = [
    ...wholeNumberProblems('provisionedPollers.minimum', minimum, 2, 200, 'what an SQS event source mapping accepts'),
    // Lambda accepts 10,000 ("ProvisionedPollerConfig") and the CDK 2,000, which is enough for 200,000 messages per
    // second in batches of ten.
    ...wholeNumberProblems('provisionedPollers.maximum', maximum, 2, 2000, 'what the CDK accepts'),
  ];
  return problems.length === 0 && minimum > maximum
    ? [`provisionedPollers.minimum is ${minimum}, more than maximum (${maximum}); lower it or raise the other.`]
    : problems;
}

function timeProblems(plan: Plan, { minRetention, maxRetention }: StrategyDefinition, names: SettingNames): string[] {
  const within = durationProblems;
  const retention = within(names.retention, plan.sourceRetention, 60, maxRetention.seconds, maxRetention.why);
  return [
    ...(plan.userFunction
      ? within(names.timeout, plan.timeout, 11, 900, ": the last five are reserved for hand-offs. Lambda's default is 3 s")
      : within(names.timeout, plan.timeout, 1, 900, ', the range of Lambda')),
    ...within('maxBatchingWindow', plan.maxBatchingWindow, 0, 300, ', the range of an SQS event source mapping'),
    ...(plan.targetTimeout ? within('target.timeout', plan.targetTimeout, 1, 900) : []),
    ...within(names.visibilityTimeout, plan.sourceVisibilityTimeout, 0, Infinity),
    ...retention,
    ...(retention.length === 0 && plan.sourceRetention.toSeconds() < minRetention.seconds
      ? [`${names.retention} is ${plan.sourceRetention.toSeconds()} s; use at least ${minRetention.seconds} s: ${minRetention.why}.`]
      : []),
  ];
}

function visibilityProblems(plan: Plan, names: SettingNames): string[] {
  const window = plan.maxBatchingWindow.toSeconds();
  const visibility = plan.sourceVisibilityTimeout.toSeconds();
  const needed = VISIBILITY_FACTOR * plan.timeout.toSeconds() + window;
  if (visibility >= needed && visibility <= 43_200) {
    return [];
  }
  return [
    `${names.visibilityTimeout} is ${visibility} s; use at least ${VISIBILITY_FACTOR} × ${names.timeout}${window > 0 ? ' + maxBatchingWindow' : ''} = ` +
      `${needed} s, and at most 43200 s (12 hours).`,
  ];
}

/**
 * Returns the problem if the reserved concurrency is too low. A throttled message counts as received ("Configuring
 * scaling behavior for SQS event source mappings").
 */
function reservationProblems(
  { reservedConcurrency: reserved, maxConcurrency, pollers }: Plan,
  { unansweredCost }: StrategyDefinition,
  names: SettingNames,
): string[] {
  if (reserved === undefined || (Number.isInteger(reserved) && reserved >= maxConcurrency)) {
    return [];
  }
  const limit = pollers ? '10 × provisionedPollers.maximum' : 'maxConcurrency';
  return [
    `${names.reservedConcurrency} is ${reserved}; use a whole number of at least ${limit} = ${maxConcurrency}: Lambda would throttle the other ` +
      `invocations, and each throttled message spends ${unansweredCost}.`,
  ];
}

/**
 * Returns the problem if a batch may exceed the function's timeout. A batch must end 5 s earlier, so that messages
 * whose calls did not end in time can be handed off.
 */
function batchProblems(plan: Plan): string[] {
  if (plan.targetTimeout === undefined) {
    return [];
  }
  const [timeout, target] = [plan.timeout.toSeconds(), plan.targetTimeout.toSeconds()];
  const calls = plan.isFifo ? 1 : plan.maxConcurrentCalls;
  const rounds = Math.ceil(plan.batchSize / calls);
  const needed = rounds * target + 5;
  if (needed <= timeout) {
    return [];
  }
  const [callOrder, settingToRaise] = plan.isFifo
    ? ['that is one message group, called one after the other,', 'timeout']
    : [`with ${calls} calls at a time`, 'timeout or maxConcurrentCalls'];
  return [
    `timeout is ${timeout} s, but a batch of ${plan.batchSize} ${callOrder} may take ` +
      `${rounds} × ${target} s + 5 s = ${needed} s; raise ${settingToRaise}, or lower batchSize or target.timeout.`,
  ];
}

/**
 * Returns the problem if the retries take too long. Unless the strategy allows more, all retries must end within
 * {@link RETENTION_SHARE} of the retention, before the alarm on a message's age fires. A target's `Retry-After`, holds
 * and redrives do not count: each re-send is a new message with a new retention period, and the alarm allows for them.
 */
function spanProblems(plan: Plan, { mayOutlastRetention }: StrategyDefinition, names: SettingNames): string[] {
  const { fullPolicy: policy, sourceRetention } = plan;
  const attempts = maxAttempts(policy);
  const span = worstCaseSpanSeconds(policy, deliverySeconds(plan));
  if (mayOutlastRetention(policy) || attempts === 0 || span <= RETENTION_SHARE * sourceRetention.toSeconds()) {
    return [];
  }
  const days = (seconds: number): string => `${(seconds / 86_400).toFixed(1)} days`;
  return [
    `policy allows ${attempts} retries over ${days(span)} at worst, more than ${RETENTION_SHARE * 100} % of the time that ` +
      `the source queue keeps a message (${days(sourceRetention.toSeconds())}); lower max_attempts or the delays, set max_age_seconds, or raise ` +
      `${names.retention}.`,
  ];
}
