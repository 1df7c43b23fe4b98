import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';

import { addAlarms, type Alarm, deadLetterAlarms, readerAlarms, WAITING_SECONDS_MAX } from './alarm';
import { annotatorAlarms } from './annotator';
import { redeliverMetric } from './metrics';
import type { NormalizedProps } from './normalized-props';
import { INNER_RETENTION, type Plan, RETENTION_SHARE } from './plan';
import { type Loop, readersOf } from './strategy/definition';
import { STRATEGIES } from './strategy/index';
import { targetDown, targetLoop } from './target-alarm';

/** Creates all alarms of a `Redeliver`. */
export function createAlarms(
  scope: Construct,
  props: NormalizedProps,
  plan: Plan,
  loop: Loop,
): cloudwatch.Alarm[] {
  return addAlarms(scope, plan.names.prefix, props, [
    ...deadLetterAlarms(loop),
    ...annotatorAlarms(plan, loop.finalDlqAnnotator),
    ...loop.alarms,
    ...messageAgeAlarms(plan, loop),
    ...readersOf(loop).flatMap(({ readerName, reader }) => readerAlarms(readerName, reader)),
    ...targetDown(plan, loop),
    ...(props.target.kind === 'lambda' ? targetLoop(scope, props.target.function) : []),
  ]);
}

/**
 * Alarms on the time since a message's first send, which the functions measure. A queue's own age metric restarts when SQS
 * moves a message.
 */
function messageAgeAlarms(plan: Plan, loop: Loop): Alarm[] {
  // Hops, holds and redrives may make a message older than any queue's retention, since each re-send is a new message.
  // One that is older than all of them can make it is held up by something else.
  const expected = STRATEGIES[plan.strategy].expectedAgeSecondsMax(plan);
  const late = expected === 0 ? 0 : expected + WAITING_SECONDS_MAX;
  return readersOf(loop).map(({ readerName, reader }) => {
    // Only the annotator reads from a queue with the inner retention.
    const retention = reader === loop.finalDlqAnnotator ? INNER_RETENTION : plan.sourceRetention;
    const early = RETENTION_SHARE * retention.toSeconds();
    return {
      name: `${readerName}-sees-old-messages`,
      severity: 'page',
      description:
        late > early
          ? 'A message is older than 80 % of the time that its queue keeps messages, and than all its retries, their ' +
            'delays and an outage can make it. Find out what holds it up.'
          : 'A message is older than 80 % of the time that its queue keeps messages. Find out what holds it up, before SQS ' +
            'deletes it.',
      metric: redeliverMetric('MessageAgeSeconds', reader, cloudwatch.Stats.MAXIMUM),
      threshold: Math.max(early, late),
    };
  });
}
