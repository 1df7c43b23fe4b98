import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import { type Alarm, deadLetters, loopStopped, raise, readerFails, WAITING_SECONDS_MAX } from './alarm';
import type { Given } from './given';
import { own } from './metrics';
import { INNER_RETENTION, type Plan, RETENTION_SHARE } from './plan';
import type { Loop } from './strategy/definition';
import { STRATEGIES } from './strategy/index';
import { targetDown, targetLoop } from './target-alarm';

/** Creates the alarms, named after what they mean. */
export function createAlarms(
  scope: Construct,
  props: Given,
  plan: Plan,
  loop: Loop,
): cloudwatch.Alarm[] {
  return raise(scope, plan.names.prefix, props, [
    ...deadLetters(loop),
    ...loop.alarms,
    ...messageAges(plan, loop),
    ...readers(loop).flatMap(({ name, reader }) => readerFails(name, reader)),
    ...readers(loop).map(({ name, reader }) => loopStopped(name, reader)),
    ...targetDown(plan, loop),
    ...(props.target.kind === 'lambda' ? targetLoop(scope, props.target.function) : []),
  ]);
}

/** The functions by their names. */
function readers({ messageProcessor, stages, finalDlqAnnotator }: Loop): { readonly name: string; readonly reader: lambda.Function }[] {
  return [
    { name: 'message-processor', reader: messageProcessor },
    ...stages.map(({ readerName, reader }) => ({ name: readerName, reader })),
    { name: 'final-dlq-annotator', reader: finalDlqAnnotator },
  ];
}

/** A queue's own age restarts when SQS moves a message; the functions' is the time since the very first send. */
function messageAges(plan: Plan, loop: Loop): Alarm[] {
  // No queue keeps a message for that long that hops, is held or was moved: each re-send is a new one. If it is older than
  // all of that can make it, something else holds it up.
  const meant = STRATEGIES[plan.strategy].meantAgeSeconds(plan);
  const late = meant === 0 ? 0 : meant + WAITING_SECONDS_MAX;
  return readers(loop).map(({ name, reader }) => {
    // The annotator alone reads what another queue has kept all the time.
    const retention = reader === loop.finalDlqAnnotator ? INNER_RETENTION : plan.sourceRetention;
    const early = RETENTION_SHARE * retention.toSeconds();
    return {
      name: `${name}-sees-old-messages`,
      description:
        late > early
          ? 'A message is older than 80 % of the time that its queue keeps messages, and than all its retries, their ' +
            'delays and an outage can make it. Find out what holds it up.'
          : 'A message is older than 80 % of the time that its queue keeps messages. Find out what holds it up, before SQS ' +
            'deletes it.',
      metric: own('MessageAgeSeconds', reader, cloudwatch.Stats.MAXIMUM),
      threshold: Math.max(early, late),
    };
  });
}
