/** Fixed names: queues allow each other by name, since references to each other would be a cycle. */
export interface Names {
  readonly prefix: string;
  readonly sourceQueue: string;
  readonly intermediateDlq: string;
  readonly annotationQueue: string;
  readonly finalDlq: string;
  readonly messageProcessor: string;
  readonly failedMessageProcessor: string;
  readonly finalDlqAnnotator: string;
  readonly dashboard: string;
}

/** The names of one deployment. */
export function namesOf(prefix = 'redeliver', stage = 'prod'): Names {
  const common = `${prefix}-${stage}`;
  return {
    prefix: common,
    sourceQueue: `${common}-source`,
    intermediateDlq: `${common}-intermediate-dlq`,
    annotationQueue: `${common}-annotation`,
    finalDlq: `${common}-final-dlq`,
    messageProcessor: `${common}-message-processor`,
    failedMessageProcessor: `${common}-failed-message-processor`,
    finalDlqAnnotator: `${common}-final-dlq-annotator`,
    dashboard: common,
  };
}
