/** The way that failed messages come back. */
export enum Strategy {
  /** Another function re-sends the message with a delay. */
  DELAYED_RESEND = 'delayed-resend',
  /**
   * The message-processor re-sends the message itself. A retry takes half the requests and one invocation instead of
   * two. Choose it if the cost of retries matters. Messages that SQS moved (a crash, a timeout), and retries more than
   * 900 s away, still take the intermediate DLQ.
   */
  DIRECT_RESEND = 'direct-resend',
  /**
   * The message stays on the source queue, hidden for the delay, without an intermediate DLQ and
   * failed-message-processor.
   */
  VISIBILITY = 'visibility',
  /**
   * A failed message stays on the source queue, a FIFO queue, hidden for the delay, and the rest of its message group
   * waits behind it. Producers send a `MessageGroupId` and a `MessageDeduplicationId`. The queue has high throughput:
   * both the deduplication and the quota of requests are per message group.
   */
  ORDERED = 'ordered',
}

/** The message formats that the source queue accepts. */
export enum Envelope {
  /** Only `{metadata, data}` envelopes. */
  REQUIRED = 'required',
  /** Also messages from any producer in any format (docs/messages.md). */
  OPTIONAL = 'optional',
}

/** The event that your own function's handler gets. */
export enum HandlerEvent {
  /** One message: the handler's result or error applies to this message alone. */
  RECORD = 'record',
  /** All messages of the batch. The handler returns `batchItemFailures`; without them the whole batch succeeded. */
  BATCH = 'batch',
}

/**
 * The detail of the functions' logs. Dead letters and problems that need action always have their own line.
 */
export enum LogDetail {
  /** One line with counts for each batch. */
  BATCHES = 'batches',
  /** Also a line for each message, which makes up most of a retry's cost. */
  MESSAGES = 'messages',
}

/** The level of the functions' logs. */
export enum LogLevel {
  /** Everything, as detailed as `logDetail`. */
  INFO = 'INFO',
  /** Only problems that need action, dead letters, and the line of each batch, which holds the metrics. */
  WARN = 'WARN',
}

/** The alarms that are created, unless `alarmSettings` overrides them. */
export enum AlarmPreset {
  /** Every problem, and its cause. */
  ALL = 'all',
  /** Only those without which messages could wait, expire or be lost unseen. */
  ESSENTIAL = 'essential',
}

/** A retry preset of AWS's durable execution SDKs: its number of retries and its backoff. */
export enum Preset {
  /** Five retries, the first after up to 5 s, later ones after up to a minute. */
  DURABLE_DEFAULT = 'durable_default',
  /** No retry. */
  DURABLE_NONE = 'durable_none',
  /** Two retries, the first after up to 5 s. */
  DURABLE_TRANSIENT = 'durable_transient',
  /** Four retries, the first after up to 5 s, later ones after up to five minutes. */
  DURABLE_RESOURCE_AVAILABILITY = 'durable_resource_availability',
  /** Nine retries, the first after up to 1 s, later ones after up to a minute. */
  DURABLE_CRITICAL = 'durable_critical',
}

/** The fate of the rest of a group when one of its messages is given up. */
export enum OnGiveUp {
  /** The group continues without that message. */
  CONTINUE = 'continue',
  /** It waits for your decision with `redeliver unblock`. An alarm reports it. */
  BLOCK = 'block',
}
