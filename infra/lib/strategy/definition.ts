import type * as cloudwatch from 'aws-cdk-lib/aws-cloudwatch';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { Alarm } from '../alarm';
import type { Given } from '../given';
import type { Plan } from '../plan';
import type { PolicyDocument } from '../policy';
import type { DeadLetterQueues } from '../queues';

/** What becomes of a message that failed, and all of the stack that follows from it. */
export interface StrategyDefinition {
  /** How often SQS gives out a message of the source queue before it moves it. */
  maxReceiveCount(props: Given, policy: PolicyDocument): number;
  /** Members that count if a policy does not have them: `Strategy::default_policy` of the functions. */
  readonly defaultPolicy: PolicyDocument;
  /** Where SQS moves it, and it keeps its age: the queue as people call it. */
  readonly sourceDlqTitle: string;
  /**
   * Whether retries are meant to take longer than the source queue keeps a message. SQS does not delete them then: each
   * re-send, and each hop before it, is a new message with a clock of its own.
   */
  mayOutlastRetention(policy: PolicyDocument): boolean;
  /** How long the source queue must keep a message at least, and why. */
  readonly leastRetention: { readonly seconds: number; readonly why: string };
  /**
   * How old a message may become without anything holding it up that should not, in seconds: its retries, and an outage
   * with them. 0 if SQS deletes it before, so that its age must be told before.
   */
  meantAgeSeconds(plan: Plan): number;
  /** What an outage costs whose messages are held, and what to do about it: a sentence. */
  readonly heldCosts: string;
  /** What a message costs that nobody has answered for. */
  readonly unansweredCosts: string;

  /** Props that it has no use for. */
  propProblems(props: Given): string[];
  /** Wrong numbers. */
  rangeProblems(plan: Plan): string[];
  /** What SQS cannot do of a plan whose numbers and whose policy are right. */
  planProblems(plan: Plan): string[];

  /** Creates the queues and the functions, and says what there is to watch. */
  create(scope: Construct, props: Given, plan: Plan): Loop;
}

/** The way of a message from the source queue to the final DLQ. */
export interface Loop extends DeadLetterQueues {
  readonly source: sqs.IQueue;
  /** Where SQS moves what it has given out too often. */
  readonly sourceDlq: sqs.Queue;
  /** Between the source queue and the annotation queue. */
  readonly stages: readonly Stage[];
  readonly messageProcessor: lambda.Function;
  readonly finalDlqAnnotator: lambda.Function;
  /** The functions that decide when a message comes back, and tell of it. */
  readonly schedulers: readonly lambda.Function[];
  /** Members of the construct that not every strategy has. */
  readonly intermediateDlq?: sqs.Queue;
  readonly failedMessageProcessor?: lambda.Function;

  /** Of the queues, and of what only this strategy does. */
  readonly alarms: readonly Alarm[];
  readonly graphs: LoopGraphs;
}

/** A queue of the strategy's own and the function that reads it. */
export interface Stage {
  readonly queue: sqs.Queue;
  /** As people call it. */
  readonly title: string;
  readonly reader: lambda.Function;
  readonly readerName: string;
}

/** What the dashboard shows of a strategy. */
export interface LoopGraphs {
  /** At a glance, between what was processed and what was retried. */
  readonly failed: readonly cloudwatch.IMetric[];
  readonly fromProducers: cloudwatch.IMetric;
  readonly failures: cloudwatch.GraphWidgetProps;
  /** With the delays before retries, on an axis of their own. */
  readonly besideDelays: readonly cloudwatch.IMetric[];
}
