/** The way that failed messages are redelivered. */
export enum Strategy {
  /** A separate function re-sends the message with a delay. */
  DELAYED_RESEND = 'delayed-resend',
  /**
   * The message-processor re-sends the message itself. A retry needs half the requests, and one invocation instead of
   * two. Choose this strategy if the cost of retries matters. Messages moved by SQS (after a crash or a timeout) and
   * retries more than 900 s away still pass through the intermediate DLQ.
   */
  DIRECT_RESEND = 'direct-resend',
  /**
   * The message stays on the source queue, hidden for the delay. There is no intermediate DLQ and no
   * failed-message-processor.
   */
  VISIBILITY = 'visibility',
  /**
   * A failed message stays on the source queue, a FIFO queue, hidden for the delay, and the rest of its message group
   * waits behind it. Producers send a `MessageGroupId` and a `MessageDeduplicationId`. The queue has high throughput:
   * deduplication and the request quota both apply per message group.
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

/** The event that is passed to your own function's handler. */
export enum HandlerEvent {
  /** One message: the handler's result or error applies to this message alone. */
  RECORD = 'record',
  /**
   * All messages of the batch. The handler returns `batchItemFailures`; without them, the complete batch has succeeded.
   */
  BATCH = 'batch',
}

/** The detail of the functions' logs. Dead letters and problems that require action always have their own line. */
export enum LogDetail {
  /** One line with counts per batch. */
  BATCHES = 'batches',
  /** Also one line per message, which makes up most of a retry's cost. */
  MESSAGES = 'messages',
}

/** The level of the functions' logs. */
export enum LogLevel {
  /** All lines, as detailed as `logDetail`. */
  INFO = 'INFO',
  /** Only problems that require action, dead letters, and the line of each batch, which contains the metrics. */
  WARN = 'WARN',
}

/** The alarms that are created, unless `alarmSettings` overrides them. */
export enum AlarmPreset {
  /** Alarms for every problem and its cause. */
  ALL = 'all',
  /** Only the alarms without which messages could wait, expire or be lost unnoticed. */
  ESSENTIAL = 'essential',
}

/** A retry preset of AWS's durable execution SDKs, which sets the number of retries and the backoff. */
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

/** The handling of the rest of a group when one of its messages is given up. */
export enum OnGiveUp {
  /** The group continues without that message. */
  CONTINUE = 'continue',
  /** The group waits for your decision with `redeliver unblock`. An alarm reports it. */
  BLOCK = 'block',
}
