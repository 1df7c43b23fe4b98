/** Whether every message has an envelope. */
export enum Envelope {
  /** Every message is a `{metadata, data}` envelope. */
  REQUIRED = 'required',
  /** Also messages of any producer and in any format (docs/messages.md). */
  OPTIONAL = 'optional',
}

/** The event of one invocation of your own function's handler. */
export enum HandlerEvent {
  /** One message: what the handler answers, or throws, is about this message alone. */
  RECORD = 'record',
  /** All messages of the batch. The handler answers with `batchItemFailures`; without them the whole batch has succeeded. */
  BATCH = 'batch',
}

/**
 * What the functions' logs tell of a batch. What was given up, and what somebody must act on, has a line of its own with either.
 */
export enum LogDetail {
  /** One line with counts. */
  BATCHES = 'batches',
  /** A line for each message, too, which is most of a retry's price. */
  MESSAGES = 'messages',
}

/** What the functions log at all. */
export enum LogLevel {
  /** What `logDetail` says. */
  INFO = 'INFO',
  /** Only what somebody must act on, dead letters, and the line of each batch, which holds the metrics. */
  WARN = 'WARN',
}

/** A retry preset of AWS's durable execution SDKs: its number of retries and its backoff. */
export enum Preset {
  /** Five retries from 5 s on, up to a minute. */
  DURABLE_DEFAULT = 'durable_default',
  /** No retry. */
  DURABLE_NONE = 'durable_none',
  /** Two retries from 5 s on. */
  DURABLE_TRANSIENT = 'durable_transient',
  /** Four retries from 5 s on, up to five minutes. */
  DURABLE_RESOURCE_AVAILABILITY = 'durable_resource_availability',
  /** Nine retries from 1 s on, up to a minute. */
  DURABLE_CRITICAL = 'durable_critical',
}
