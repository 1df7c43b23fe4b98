import * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type { Construct } from 'constructs';

import { addAlarms, type Alarm, deadLetterAlarms, readerAlarms, WAITING_SECONDS_MAX } from './alarm';
import { annotatorAlarms } from './annotator';
import { deadLetterMetric, PERIOD, redeliverMetric } from './metrics';
import type { NormalizedProps } from './normalized-props';
import { INNER_RETENTION, type Plan, RETENTION_SHARE } from './plan';
import { type Loop, readersOf } from './strategy/definition';
import { STRATEGIES } from './strategy/index';
import { targetDownAlarms, targetLoopAlarms } from './target-alarm';

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
    ...targetDownAlarms(plan, loop),
    allInvalidAlarm(loop),
    ...(props.target.kind === 'lambda' ? targetLoopAlarms(scope, props.target.function) : []),
  ]);
}

/** The alarm fires above this number of invalid messages. Fewer may be a single producer's mistake. */
const INVALID_MAX = 9;

/**
 * Returns the alarm that fires when all messages are invalid, for example because a queue's messages have no envelope.
 * The expression is 0 while any other messages are processed, fail, are held, or die for other reasons.
 */
function allInvalidAlarm({ messageProcessor, finalDlqAnnotator }: Loop): Alarm {
  const invalid = 'FILL(notFormat, 0) + FILL(notSchema, 0)';
  return {
    name: 'all-invalid',
    severity: 'page',
    description:
      'All messages of the last five minutes, at least ten, were invalid and are in the final DLQ. If their bodies have no envelope, set envelope: ' +
      'Envelope.OPTIONAL (ENVELOPE=optional, the template: Envelope); if not, their ErrorDetails say which rule they break. Then send them back.',
    metric: new cloudwatch.MathExpression({
      expression: `IF((FILL(called, 0) + FILL(held, 0) + FILL(died, 0)) > (${invalid}), 0, ${invalid})`,
      label: 'invalid messages, if all are',
      usingMetrics: {
        // The age of every processed or failed message is recorded, regardless of the strategy.
        called: redeliverMetric('MessageAgeSeconds', messageProcessor, cloudwatch.Stats.SAMPLE_COUNT),
        held: redeliverMetric('Held', messageProcessor),
        died: redeliverMetric('DeadLettered', finalDlqAnnotator),
        notFormat: deadLetterMetric('INVALID_MESSAGE_FORMAT', finalDlqAnnotator),
        notSchema: deadLetterMetric('INVALID_MESSAGE_SCHEMA', finalDlqAnnotator),
      },
      period: PERIOD,
    }),
    threshold: INVALID_MAX,
  };
}

/**
 * Returns alarms on the time since a message's first send, which the functions measure. A queue's own age metric
 * restarts when SQS moves a message.
 */
function messageAgeAlarms(plan: Plan, loop: Loop): Alarm[] {
  // Hops, holds and redrives can make a message older than any queue's retention, since each re-send is a new message.
  // A message that is older than they can explain is held up by something else.
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
