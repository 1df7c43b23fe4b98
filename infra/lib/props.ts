import type { Duration, RemovalPolicy } from 'aws-cdk-lib';
import type * as ec2 from 'aws-cdk-lib/aws-ec2';
import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type * as sns from 'aws-cdk-lib/aws-sns';

import type { Envelope, LogDetail, LogLevel } from './choices';
import type { SourceQueue } from './existing-queue';
import type { RetryPolicy } from './retry-policy';
import type { Strategy } from './strategy/index';
import type { Target } from './target';

/**
 * A place in a VPC, for targets that can be reached only from there. It needs a way to SQS, too, and to Lambda for a Lambda
 * target or Secrets Manager for `headersSecret`: NAT, or an interface endpoint for each.
 */
export interface VpcPlacement {
  /** The VPC. */
  readonly vpc: ec2.IVpc;
  /** Default: the VPC's private subnets. */
  readonly subnets?: ec2.SubnetSelection;
  /** Default: a new group that allows all traffic out. */
  readonly securityGroups?: ec2.ISecurityGroup[];
}

/** What to change about an alarm. */
export interface AlarmSetting {
  /** `false`: there is no such alarm. Default: true. */
  readonly enabled?: boolean;
  /** It goes off above this. Default: what docs/operate/alarms.md says. */
  readonly threshold?: number;
}

/**
 * Pollers that Lambda keeps for the source queue, and that are paid for by the hour. Each invokes up to ten times at the same time.
 */
export interface ProvisionedPollers {
  /** The fewest, 2 to 200. Default: 2. */
  readonly minimum?: number;
  /** The most, 2 to 2000. Default: 200. */
  readonly maximum?: number;
}

/** What every construct here can be given. */
export interface CommonProps {
  /** Second part of all names, so that several can live in one account. Default: `prod`. */
  readonly stage?: string;
  /** A key for the queues. Default: keys that SQS manages (SSE-SQS). */
  readonly encryptionKey?: kms.IKey;
  /** What happens to queues and logs when the stack is deleted: `RETAIN` or `DESTROY`. Default: they are kept. */
  readonly removalPolicy?: RemovalPolicy;
  /** What the functions run on; the bundles must be built for it. Default: arm64. */
  readonly architecture?: lambda.Architecture;
  /** Where `cargo xtask bundle` has put the functions, a folder each. Default: what is inside of the package. */
  readonly bundles?: string;
  /** How long logs are kept. Default: a month. */
  readonly logRetention?: RetentionDays;
  /** What the functions' logs tell of a batch. Default: `LogDetail.BATCHES`. */
  readonly logDetail?: LogDetail;
  /** What the functions log at all; with `LogLevel.WARN` `logDetail` has no effect. Default: `LogLevel.INFO`. */
  readonly logLevel?: LogLevel;
  /**
   * Whether the functions send traces to X-Ray: a sample of one invocation a second, and 5 % of the rest. With much traffic
   * traces are paid for more than the requests of retries. Default: true.
   */
  readonly tracing?: boolean;
  /**
   * A key for the log groups. A key of the app gets what CloudWatch Logs needs; an imported one must allow it already. Default: keys of
   * CloudWatch Logs.
   */
  readonly logEncryptionKey?: kms.IKey;
  /** Where alarms are sent. Default: they change their colour and tell nobody. */
  readonly alarmTopic?: sns.ITopic;
  /** By the end of an alarm's name, such as `intermediate-dlq-backlog`: another threshold, or no such alarm. Default: all as they are. */
  readonly alarmSettings?: { [name: string]: AlarmSetting };
  /**
   * Concurrency of the account that is kept for each function that only sends on (all but the message-processor), at least 10: as many
   * as are ever invoked at a time. Default: none is kept.
   */
  readonly innerReservedConcurrency?: number;
}

/** What a retry orchestrator is made of. Only the target has no default. */
export interface RedeliverProps extends CommonProps {
  /** What is called for every message. */
  readonly target: Target;
  /**
   * When a failed message comes back, and when it is given up. Default: five retries, each after 0 s to 900 s, and an outage
   * of the target spends none of them.
   */
  readonly policy?: RetryPolicy;
  /** What becomes of a message that failed. Default: `Strategy.DELAYED_RESEND`. */
  readonly strategy?: Strategy;
  /** The policy's `longDelays`: delays may reach 12 hours. Default: what the policy says, which is `false` by default. */
  readonly longDelays?: boolean;
  /** The path of a JSON Schema (2020-12) for `data`. Default: any object. */
  readonly dataSchema?: string;
  /**
   * Whether the source queue also takes messages that are no `{metadata, data}` envelope, of any producer and in any format.
   * Default: `Envelope.REQUIRED`.
   */
  readonly envelope?: Envelope;
  /** The message attribute that has the id of a message without an envelope. Default: none. */
  readonly messageIdAttribute?: string;
  /** The JSON Pointer to the id in the body of a message without an envelope, such as `/detail/id`. Default: none. */
  readonly messageIdPointer?: string;
  /**
   * The path of a JSON Schema (2020-12) for the bodies of messages without an envelope, which are JSON then. Default: any
   * bytes.
   */
  readonly bodySchema?: string;

  /** First part of all names. Default: `redeliver`. */
  readonly prefix?: string;

  /** Use this source queue. Default: a new one. */
  readonly existingSourceQueue?: SourceQueue;
  /**
   * How often a message may be received from the source queue before SQS moves it, 1 to 10. Default: 1. Not with strategy
   * `visibility`, where each retry is a receive: there it is the policy's `maxAttempts` + 10.
   */
  readonly maxReceiveCount?: number;
  /** How long the source queue keeps a message; an existing one may keep it longer. Default: 7 days. */
  readonly sourceRetention?: Duration;
  /** An existing queue may have a longer one. Default: six times the function's timeout, and `maxBatchingWindow`. */
  readonly sourceVisibilityTimeout?: Duration;

  /** Messages of one invocation of the message-processor, 1 to 10. Default: 10. */
  readonly batchSize?: number;
  /**
   * For how long Lambda waits for a batch of the source queue to fill, 0 s to 300 s. If few messages come at a time, that makes
   * fewer and fuller invocations: fewer to pay for, with fewer lines of logs. Every message, and every retry, may be so much
   * later. The default of `sourceVisibilityTimeout` grows with it; the other queues' readers never wait. Default: 0 s.
   */
  readonly maxBatchingWindow?: Duration;
  /** Calls to the target at the same time within one invocation. Not with a function of your own. Default: 10. */
  readonly maxConcurrentCalls?: number;
  /** Invocations of the message-processor at the same time, 2 to 1000. Not with `provisionedPollers`. Default: 10. */
  readonly maxConcurrency?: number;
  /**
   * Pollers that are there before a burst of messages. They limit the invocations, ten each; `maxConcurrency` cannot. Default: Lambda's
   * own, which it starts when they are needed.
   */
  readonly provisionedPollers?: ProvisionedPollers;
  /**
   * Concurrency of the account that is kept for the message-processor, at least `maxConcurrency`: what Lambda refuses to run for
   * want of it spends one of the policy's `maxRedrives`, or an attempt with strategy `visibility`. Lambda leaves 100 of the
   * account's unreserved. A function of your own says so itself. Default: none is kept.
   */
  readonly reservedConcurrency?: number;
  /** The message-processor's memory in MiB, 128 to 10240. A function of your own says so itself. Default: 256. */
  readonly memorySize?: number;
  /** The message-processor's timeout. A function of your own says so itself. Default: 60 s. */
  readonly timeout?: Duration;
  /** Where the message-processor runs. A function of your own says so itself. Default: outside of any VPC. */
  readonly vpc?: VpcPlacement;
}

/** What retries of failed asynchronous invocations are made of. Only the functions have no default. */
export interface AsyncRetryProps extends CommonProps {
  /**
   * The functions whose failed asynchronous invocations are retried: created in the same stack, since their settings are
   * changed. They get no built-in retries, the retry queue as their on-failure destination, and `recursiveLoop: ALLOW`.
   */
  readonly functions: lambda.IFunction[];
  /**
   * When a failed invocation comes back, and when it is given up. Default: after 0 s to 1 s, 2 s, 4 s and so on up to 12
   * hours, for a day.
   */
  readonly policy?: RetryPolicy;
  /** First part of all names: another one than that of a `Redeliver` of the account. Default: `redeliver-async`. */
  readonly prefix?: string;
}
