import type { Duration, RemovalPolicy } from 'aws-cdk-lib';
import type * as ec2 from 'aws-cdk-lib/aws-ec2';
import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as lambda from 'aws-cdk-lib/aws-lambda';
import type { RetentionDays } from 'aws-cdk-lib/aws-logs';
import type * as s3 from 'aws-cdk-lib/aws-s3';
import type * as sns from 'aws-cdk-lib/aws-sns';

import type { AlarmPreset, Envelope, LogDetail, LogLevel, Strategy } from './choices';
import type { SourceQueue } from './existing-queue';
import type { Notify } from './notify';
import type { Producer } from './producers';
import type { RetryPolicy } from './retry-policy';
import type { Target } from './target';

/**
 * The VPC placement of all functions. The subnets need NAT, or an endpoint for each service that the functions call
 * (docs/deploy/network.md).
 */
export interface VpcPlacement {
  /** The VPC. */
  readonly vpc: ec2.IVpc;
  /** The subnets. Default: the VPC's private subnets. */
  readonly subnets?: ec2.SubnetSelection;
  /** The security groups. Default: a new group that allows all outbound traffic. */
  readonly securityGroups?: ec2.ISecurityGroup[];
}

/** Settings of a single alarm. */
export interface AlarmSetting {
  /** `false` removes the alarm; `true` adds an alarm that `alarmPreset` leaves out. Default: as in `alarmPreset`. */
  readonly enabled?: boolean;
  /** The alarm fires above this value. Default: see docs/operate/alarms.md. */
  readonly threshold?: number;
}

/**
 * Pollers that Lambda keeps ready for the source queue, billed by the hour. Each poller polls up to ten times per
 * second, handles about 1 MB per second and runs up to ten concurrent invocations (docs/deploy/concurrency.md).
 */
export interface ProvisionedPollers {
  /** The minimum number of pollers, 2 to 200. Default: 2. */
  readonly minimum?: number;
  /**
   * The maximum number of pollers, 2 to 2000. It has no default, since Lambda's default of 200 allows 2,000 concurrent
   * invocations, more than most accounts have.
   */
  readonly maximum: number;
}

/** Props of both constructs. */
export interface CommonProps {
  /** The second part of all names, to distinguish deployments in the same account. Default: `prod`. */
  readonly stage?: string;
  /** The key that encrypts the queues. Default: the key of `existingSourceQueue`, or keys managed by SQS (SSE-SQS). */
  readonly encryptionKey?: kms.IKey;
  /** Keeps (`RETAIN`) or deletes (`DESTROY`) queues and logs when the stack is deleted. Default: keeps them. */
  readonly removalPolicy?: RemovalPolicy;
  /** The functions' architecture; the bundles must be built for it. Default: arm64. */
  readonly architecture?: lambda.Architecture;
  /**
   * The output directory of `cargo xtask bundle`, with one folder per function. Default: the functions in the package.
   */
  readonly bundles?: string;
  /** The retention of logs. Default: a month. */
  readonly logRetention?: RetentionDays;
  /** The detail of the functions' logs. Default: `LogDetail.BATCHES`. */
  readonly logDetail?: LogDetail;
  /** The level of the functions' logs; with `LogLevel.WARN`, `logDetail` has no effect. Default: `LogLevel.INFO`. */
  readonly logLevel?: LogLevel;
  /**
   * True if the functions send traces to X-Ray. One invocation per second and 5 % of the rest are sampled. Under heavy
   * traffic, traces cost more than the requests of retries. Default: true where Lambda has X-Ray
   * (docs/deploy/regions.md).
   */
  readonly tracing?: boolean;
  /**
   * The key that encrypts the log groups. A key created in the app gets the policy that CloudWatch Logs requires; an
   * imported key must already have it. Default: keys managed by CloudWatch Logs.
   */
  readonly logEncryptionKey?: kms.IKey;
  /**
   * The key that encrypts the functions' environment variables. The deploying principal needs `kms:CreateGrant` and
   * `kms:Encrypt` on it ("Securing Lambda environment variables"). For your own function, set the key on the function.
   * Default: a key managed by Lambda.
   */
  readonly environmentEncryptionKey?: kms.IKey;
  /**
   * The VPC that the functions run in (docs/deploy/network.md lists the required endpoints). For your own function, set
   * the VPC on the function. Default: none.
   */
  readonly vpc?: VpcPlacement;
  /**
   * The topic that alarms notify. If `pageTopic` is set, this topic gets only the alarms that can wait until working
   * hours. Default: none; alarms only change state, and synthesis prints a warning.
   */
  readonly ticketTopic?: sns.ITopic;
  /** The topic for alarms that require immediate action (docs/operate/alarms.md lists them). Default: `ticketTopic`. */
  readonly pageTopic?: sns.ITopic;
  /** `false`: alarms do not notify their topic when they return to OK. Default: true. */
  readonly okActions?: boolean;
  /** The alarms that are created. Default: `AlarmPreset.ALL`. */
  readonly alarmPreset?: AlarmPreset;
  /** Settings of individual alarms, by the end of their name, such as `intermediate-dlq-backlog`. Default: none. */
  readonly alarmSettings?: { [name: string]: AlarmSetting };
  /**
   * The maximum number of concurrent invocations of each function except the message-processor, 2 to 1000. Each
   * invocation handles about 100 messages per second, and every retry passes through one of these functions
   * (docs/deploy/concurrency.md). Default: 10.
   */
  readonly innerConcurrency?: number;
  /**
   * The reserved concurrency of each function except the message-processor: at least `innerConcurrency`, plus 2 with
   * strategy `ordered`. Default: none.
   */
  readonly innerReservedConcurrency?: number;
  /**
   * The bucket that archives dead letters, in the stack's region. The final-dlq-annotator stores each dead letter in it
   * before sending it to the final DLQ, where SQS deletes it after 14 days. The bucket must be owned by
   * `archive.env.account`; import a bucket of another account with its `account`. Default: none.
   */
  readonly archive?: s3.IBucket;
  /**
   * The first part of the archive's keys. At most 256 of `A-Z a-z 0-9 ! _ . * ' ( ) / = -`, not starting with `/`. A
   * missing `/` at the end is added; a value that is only known at deployment must already end with it. Default: none.
   */
  readonly archivePrefix?: string;
  /**
   * JSON Pointers into the body, such as `/customer/email`, whose values are omitted from the archive. In the archive,
   * they are replaced by `"omitted"`; in the queues, they are unchanged. At most 50, none with a comma. Default: none.
   */
  readonly archiveOmit?: string[];
  /**
   * The topic or event bus that gets notices of dead letters. Each environment of the final-dlq-annotator sends at most
   * one notice per cause and hour. Default: none.
   */
  readonly notify?: Notify;
}

/** Props of `Redeliver`. Only the target is required. */
export interface RedeliverProps extends CommonProps {
  /** The target that is called for every message. */
  readonly target: Target;
  /**
   * The retry policy: when a failed message is retried, and when it is given up. Default: five retries, each after 0 s
   * to 900 s; an outage of the target spends none of them. With strategy `ordered`: retries for a day, each after 0 s
   * to 5 s, 10 s, 20 s and so on up to 900 s.
   */
  readonly policy?: RetryPolicy;
  /** The way that failed messages are redelivered. Default: `Strategy.DELAYED_RESEND`. */
  readonly strategy?: Strategy;
  /** The policy's `longDelays`: allows delays of up to 12 hours. Default: the policy's value, or `false`. */
  readonly longDelays?: boolean;
  /** The path of a JSON Schema (2020-12) for `data`. Default: any object is valid. */
  readonly dataSchema?: string;
  /**
   * The message formats that are accepted. `Envelope.OPTIONAL` also accepts messages without a `{metadata, data}`
   * envelope, from any producer in any format. Default: `Envelope.OPTIONAL` with `Target.ownFunction` or
   * `existingSourceQueue`, otherwise `Envelope.REQUIRED`.
   */
  readonly envelope?: Envelope;
  /** The message attribute with the id of a message without an envelope. Default: none. */
  readonly messageIdAttribute?: string;
  /** The JSON Pointer to the id in the body of a message without an envelope, such as `/detail/id`. Default: none. */
  readonly messageIdPointer?: string;
  /**
   * The path of a JSON Schema (2020-12) for the bodies of messages without an envelope. They must then be JSON.
   * Default: any bytes are valid.
   */
  readonly bodySchema?: string;

  /** The first part of all names. Default: `redeliver`. */
  readonly prefix?: string;

  /**
   * Senders that need a statement in the source queue's policy: other accounts, and services outside the app. The
   * policy of `encryptionKey` also gets one. Buckets, rules and standard topics cannot send to the queue of strategy
   * `ordered`. Cannot be set with `existingSourceQueue`. Default: none.
   */
  readonly producers?: Producer[];
  /** An existing queue to use as the source queue. Default: a new queue. */
  readonly existingSourceQueue?: SourceQueue;
  /**
   * The number of receives of a message on the source queue before SQS moves it, 1 to 10. Default: 1. Cannot be set
   * with strategy `visibility`, where each retry is a receive and the value is the policy's `maxAttempts` + 10, or with
   * strategy `ordered`, where it is 1000.
   */
  readonly maxReceiveCount?: number;
  /**
   * The source queue's retention; an existing queue may have a longer one. Default: 7 days; 14 days with strategy
   * `ordered`.
   */
  readonly sourceRetention?: Duration;
  /**
   * The source queue's visibility timeout; an existing queue may have a longer one. Default: six times the function's
   * timeout plus `maxBatchingWindow`.
   */
  readonly sourceVisibilityTimeout?: Duration;

  /**
   * The maximum number of messages in one invocation of the message-processor, 1 to 10. With strategy `ordered`,
   * attempts are counted exactly only if it is 1. Default: 10, or 1 with strategy `ordered`.
   */
  readonly batchSize?: number;
  /**
   * The time that Lambda waits for a batch from the source queue to fill, 0 s to 300 s. Fuller batches save invocations
   * and log lines, and also calls and requests during an outage, but each message and each retry may wait for that
   * time. With very low traffic, Lambda may wait up to 20 s regardless of the window; 0 s turns waiting off. The
   * default of `sourceVisibilityTimeout` includes the window. The readers of the other queues never wait. Cannot be set
   * with strategy `ordered`, since Lambda has no batching window for FIFO queues. Default: 1 s; 0 s with strategy
   * `ordered`, or if an existing queue's visibility timeout leaves no room for it (six times the function's timeout
   * plus 1 s).
   */
  readonly maxBatchingWindow?: Duration;
  /**
   * The maximum number of concurrent calls to the target in one invocation. Cannot be set with your own function.
   * Default: 10.
   */
  readonly maxConcurrentCalls?: number;
  /**
   * The maximum number of concurrent invocations of the message-processor, 2 to 1000. With strategy `ordered`, there
   * are at most as many invocations as message groups with messages to deliver. Cannot be set with
   * `provisionedPollers`. Default: 10.
   */
  readonly maxConcurrency?: number;
  /**
   * Pollers that are kept ready for bursts of messages. They replace `maxConcurrency` and run up to ten invocations
   * each. Default: Lambda starts pollers on demand.
   */
  readonly provisionedPollers?: ProvisionedPollers;
  /**
   * The reserved concurrency of the message-processor, at least `maxConcurrency`. A throttled message spends one of the
   * policy's `maxRedrives`, or an attempt with strategies `visibility` and `ordered`. Lambda keeps 100 units of the
   * account's concurrency unreserved. For your own function, set it on the function. Default: none.
   */
  readonly reservedConcurrency?: number;
  /**
   * The message-processor's memory in MiB, 128 to 10240. For your own function, set it on the function. Default: 256.
   */
  readonly memorySize?: number;
  /** The message-processor's timeout. For your own function, set it on the function. Default: 60 s. */
  readonly timeout?: Duration;
  /** `false`: no dashboard. Default: true. */
  readonly dashboard?: boolean;
}

/** Props of `AsyncRetry`. Only the functions are required. */
export interface AsyncRetryProps extends CommonProps {
  /**
   * The functions whose failed asynchronous invocations are retried. They must be created in the same stack, since
   * their settings change: no built-in retries, the retry queue as the on-failure destination, and `recursiveLoop:
   * ALLOW`.
   */
  readonly functions: lambda.IFunction[];
  /**
   * The retry policy: when a failed invocation is retried, and when it is given up. Default: retries for a day, each
   * after 0 s to 1 s, 2 s, 4 s and so on up to 12 hours.
   */
  readonly policy?: RetryPolicy;
  /**
   * The first part of all names; must differ from the prefix of any `Redeliver` in the account. Default:
   * `redeliver-async`.
   */
  readonly prefix?: string;
}
