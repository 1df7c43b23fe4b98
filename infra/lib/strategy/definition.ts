import type * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { Alarm } from '../alarm';
import type { NormalizedProps } from '../normalized-props';
import { INNER_RETENTION, type Plan } from '../plan';
import type { PolicyDocument } from '../policy';
import type { DeadLetterQueues } from '../queues';

/** A strategy for redelivering failed messages, and the parts of the stack that depend on it. */
export interface StrategyDefinition {
  /** True if the source queue is a FIFO queue. */
  readonly isFifo: boolean;
  /** Returns the number of receives of a message on the source queue before SQS moves it. */
  maxReceiveCount(props: NormalizedProps, policy: PolicyDocument): number;
  /** The defaults of policy members; `Strategy::default_policy` in the functions. */
  readonly defaultPolicy: PolicyDocument;
  /**
   * Returns true if retries may take longer than the source queue's retention. SQS does not delete such messages, since
   * each re-send and each hop is a new message with a new retention period.
   */
  mayOutlastRetention(policy: PolicyDocument): boolean;
  /** The shortest retention of the source queue. */
  readonly minRetention: Limit;
  /** The longest retention of the source queue. */
  readonly maxRetention: Limit;
  /**
   * Returns the highest age of a message, in seconds, that its retries and an outage can explain, or 0 if SQS would
   * delete the message earlier, so that the alarm must fire earlier.
   */
  expectedAgeSecondsMax(plan: Plan): number;
  /** A sentence for an alarm: the cost of held messages during an outage, and the recommended action. */
  readonly holdAdvice: string;
  /** The cost of a delivery that gets no response, for example because of a crash or a throttle. */
  readonly unansweredCost: string;
  /** Variables of the message-processor with common names, which a user's function must leave to this strategy. */
  readonly reservedVariables: readonly string[];

  /** Returns problems with props that the strategy does not support. */
  propProblems(props: NormalizedProps): string[];
  /** Returns problems with numbers that are out of range. */
  rangeProblems(plan: Plan): string[];
  /** Returns problems with a plan that has valid numbers and a valid policy but exceeds limits of SQS. */
  planProblems(plan: Plan): string[];

  /** Creates the queues and the functions, with their alarms and graphs. */
  create(scope: Construct, props: NormalizedProps, plan: Plan): Loop;
}

/** A limit and its reason, which is the end of a sentence. */
export interface Limit {
  readonly seconds: number;
  readonly why: string;
}

/**
 * Returns the longest retention of a source queue whose messages keep their age when SQS moves them to this inner
 * queue.
 */
export function innerRetentionLimit(title: string): Limit {
  return {
    seconds: INNER_RETENTION.toSeconds() - 1,
    why: `: less than the 14 days of the ${title}, where a moved message keeps its age`,
  };
}

/** The queues and functions between the source queue and the final DLQ. */
export interface Loop extends DeadLetterQueues {
  readonly source: sqs.IQueue;
  /** The queue to which SQS moves messages after too many receives. */
  readonly sourceDlq: sqs.Queue;
  /** The source queue's DLQ if the final-dlq-annotator reads it directly; only with strategy `ordered`. */
  readonly annotatedDlq?: sqs.Queue;
  /** The queue with a notice for each blocked group; only with strategy `ordered`. */
  readonly blockedQueue?: sqs.Queue;
  /** Queues between the source queue and the annotation queue, with their readers. */
  readonly stages: readonly Stage[];
  readonly messageProcessor: lambda.Function;
  readonly finalDlqAnnotator: lambda.Function;
  /** The functions that schedule retries and write their metrics. */
  readonly schedulers: readonly lambda.Function[];
  /** Only with strategies that re-send. */
  readonly intermediateDlq?: sqs.Queue;
  readonly failedMessageProcessor?: lambda.Function;

  /** The alarms of the queues and of this strategy. */
  readonly alarms: readonly Alarm[];
  readonly graphs: LoopGraphs;
}

/** A function that reads a queue. */
export interface QueueReader {
  readonly reader: lambda.Function;
  readonly readerName: string;
}

/** A queue that only this strategy has, and its reader. */
export interface Stage extends QueueReader {
  readonly queue: sqs.Queue;
  /** The display name. */
  readonly title: string;
}

/** Returns the functions that read queues. */
export function readersOf({ messageProcessor, stages, finalDlqAnnotator }: Loop): QueueReader[] {
  return [
    { readerName: 'message-processor', reader: messageProcessor },
    ...stages,
    { readerName: 'final-dlq-annotator', reader: finalDlqAnnotator },
  ];
}

/** The metrics and graphs of a strategy on the dashboard. */
export interface LoopGraphs {
  /** Shown in the summary, between processed and retried messages. */
  readonly failed: readonly cloudwatch.IMetric[];
  readonly fromProducers: cloudwatch.IMetric;
  readonly failures: cloudwatch.GraphWidgetProps;
  /** Shown in the graph of delays, on the right axis. */
  readonly hops: readonly cloudwatch.IMetric[];
}
