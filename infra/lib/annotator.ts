import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { Construct } from 'constructs';

import type { Alarm } from './alarm';
import { allowArchive, archiveEnvironment } from './archive';
import type { CommonSettings } from './common-settings';
import { allowSend, createFunction, innerEventSource } from './function';
import { redeliverMetric } from './metrics';
import { allowNotices, notifyArn } from './notify';
import { type DeadLetterQueues, INNER_TIMEOUT } from './queues';

/** Creates the final-dlq-annotator and subscribes it to the annotation queue. */
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
    allowArchive(annotator, archive);
  }
  if (notify) {
    allowNotices(annotator, notify);
  }
  annotator.addEventSource(innerEventSource(annotation, plan));
  return annotator;
}

/** Returns alarms that fire when S3 or the destination of notices rejects the annotator's requests. */
export function annotatorAlarms({ archive, notify }: CommonSettings, annotator: lambda.Function): Alarm[] {
  return [
    ...(archive
      ? [
          {
            name: 'archive-refused',
            severity: 'page',
            isEssential: true,
            description:
              'S3 does not store dead letters, so they wait in the annotation queue, and after 110 receives they are not archived. Check the ' +
              "final-dlq-annotator's log for archive_refused: usually a permission of its role, the bucket's policy or its key.",
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
              "Notices of dead letters do not arrive; the dead letters do. Check the final-dlq-annotator's log for notice_refused: usually a " +
              "permission of its role, or the policy or the key of notify's topic.",
            metric: redeliverMetric('NoticeRefused', annotator),
            threshold: 0,
          } as const,
        ]
      : []),
  ];
}
