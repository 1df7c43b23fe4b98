import { Duration } from 'aws-cdk-lib';
import * as events from 'aws-cdk-lib/aws-events';
import { LambdaFunction } from 'aws-cdk-lib/aws-events-targets';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import type { Alarm } from './alarm';
import { allowArchive, archiveEnvironment } from './archive';
import type { CommonSettings } from './common-settings';
import { allowSend, createFunction, innerEventSource } from './function';
import { redeliverMetric } from './metrics';
import { allowNotices, notifyArn } from './notify';
import { type DeadLetterQueues, INNER_TIMEOUT } from './queues';

/** Creates the final-dlq-annotator, subscribed to the annotation queue. */
export function createAnnotator(
  scope: Construct,
  plan: CommonSettings,
  functionName: string,
  { annotation, finalDlq }: DeadLetterQueues,
): lambda.Function {
  const { archive, notify } = plan;
  const annotator = createFunction(scope, 'FinalDlqAnnotator', plan, {
    functionName,
    description: 'Puts each message that was given up into the final DLQ, with the reason.',
    program: 'final-dlq-annotator',
    timeout: INNER_TIMEOUT,
    reservedConcurrency: plan.innerReservedConcurrency,
    environment: {
      FINAL_DLQ_URL: finalDlq.queueUrl,
      ...(archive && archiveEnvironment(archive)),
      ...(notify && { NOTIFY_ARN: notifyArn(notify) }),
    },
  });
  allowSend(annotator, plan.encryptionKey, finalDlq);
  if (archive) {
    allowArchive(annotator, archive, { hasNotices: notify !== undefined });
  }
  if (notify) {
    allowNotices(annotator, notify);
  }
  if (archive && notify) {
    invokeHourly(scope, annotator);
  }
  annotator.addEventSource(innerEventSource(annotation, plan));
  return annotator;
}

/** Invokes the annotator for the notices that no dead letter causes: those of causes that continue, and that are over. */
function invokeHourly(scope: Construct, annotator: lambda.Function): void {
  const interval = Duration.hours(1);
  new events.Rule(scope, 'NoticeSchedule', {
    description: 'Invokes the final-dlq-annotator for notices of causes that continue or are over.',
    schedule: events.Schedule.rate(interval),
    // EventBridge would retry 185 times within a day, and the next event is as good as this one.
    targets: [new LambdaFunction(annotator, { retryAttempts: 2, maxEventAge: interval })],
  });
}

/** S3 or the destination of notices refuses what the annotator writes. */
export function annotatorAlarms({ archive, notify }: CommonSettings, annotator: lambda.Function): Alarm[] {
  return [
    ...(archive
      ? [
          {
            name: 'archive-refused',
            severity: 'page',
            isEssential: true,
            description:
              'S3 does not store dead letters, so they wait in the annotation queue, and after 110 receives they are in no archive. Look at the ' +
              "final-dlq-annotator's log for archive_refused: usually a right of its role, the bucket's policy or its key.",
            metric: redeliverMetric('ArchiveRefused', annotator),
            threshold: 0,
          } as const,
        ]
      : []),
    ...(notify
      ? [
          {
            name: 'notices-refused',
            severity: 'ticket',
            description:
              "Notices of dead letters are lost; the dead letters are not. Look at the final-dlq-annotator's log for notice_refused: usually a " +
              "right of its role, or the policy or the key of notify's topic.",
            metric: redeliverMetric('NoticeRefused', annotator),
            threshold: 0,
          } as const,
        ]
      : []),
  ];
}
