import type { Stack } from 'aws-cdk-lib';
import type * as events from 'aws-cdk-lib/aws-events';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as sns from 'aws-cdk-lib/aws-sns';

import { keyProblems } from './queue-key';
import { elsewhereProblems } from './region';

/** The destination of notices about causes of dead letters. */
export class Notify {
  /** Publishes notices to a standard SNS topic. E-mail subscribers get plain text, all others the JSON document. */
  public static topic(topic: sns.ITopic): Notify {
    return new Notify({ kind: 'topic', topic });
  }

  /** Sends notices to an EventBridge event bus. Rules on it match the source `redeliver`. */
  public static eventBus(bus: events.IEventBus): Notify {
    return new Notify({ kind: 'eventBus', bus });
  }

  /** @internal */
  public readonly _given: GivenNotify;

  private constructor(given: GivenNotify) {
    this._given = given;
  }
}

/** A destination by its kind. */
export type GivenNotify =
  | { readonly kind: 'topic'; readonly topic: sns.ITopic }
  | { readonly kind: 'eventBus'; readonly bus: events.IEventBus };

/** Returns reasons why notices could not be published, one sentence each. */
export function notifyProblems(notify: Notify | undefined, stack: Stack): string[] {
  if (!notify) {
    return [];
  }
  const { _given: given } = notify;
  if (given.kind === 'eventBus') {
    return elsewhereProblems('notify', 'an event bus', given.bus, stack);
  }
  const { topic } = given;
  const elsewhere = elsewhereProblems('notify', 'a topic', topic, stack);
  return [
    ...(topic.fifo ? ['notify is a FIFO topic, and notices have no message group; use a standard topic or an event bus.'] : []),
    // A topic and its key are in the same region, so one sentence is enough.
    ...(elsewhere.length > 0 ? elsewhere : keyProblems("notify's key", topic.masterKey, stack)),
  ];
}

export function notifyArn(notify: GivenNotify): string {
  return notify.kind === 'topic' ? notify.topic.topicArn : notify.bus.eventBusArn;
}

/**
 * The condition on `events:PutEvents`, which allows no other events, so that the role cannot impersonate another
 * sender. An entry always has both keys ("Example policy: Send events to the custom bus in a different account",
 * EventBridge User Guide).
 */
export const ONLY_NOTICES = {
  'ForAllValues:StringEquals': { 'events:source': 'redeliver', 'events:detail-type': 'Redeliver Cause Appeared' },
};

/** Allows publishing only. The CDK's grants would allow key actions by wildcard. */
export function allowNotices(sender: iam.IGrantable, notify: GivenNotify): void {
  const right = notify.kind === 'topic' ? { actions: ['sns:Publish'] } : { actions: ['events:PutEvents'], conditions: ONLY_NOTICES };
  iam.Grant.addToPrincipal({ grantee: sender, resourceArns: [notifyArn(notify)], ...right });
  if (notify.kind === 'topic') {
    // A publisher needs both ("Securing Amazon SNS data with server-side encryption").
    notify.topic.masterKey?.grant(sender, 'kms:Decrypt', 'kms:GenerateDataKey');
  }
}
