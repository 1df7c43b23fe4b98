import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as sqs from 'aws-cdk-lib/aws-sqs';

/**
 * An existing source queue in the stack's account and region: a standard queue, or a FIFO queue with strategy
 * `ordered`. Redeliver sets its attributes, most importantly its redrive policy: in the template for a queue of this
 * stack, at deployment for any other queue (docs/deploy/existing-queue.md).
 */
export class SourceQueue {
  /** Uses a queue of the app. */
  public static fromQueue(queue: sqs.IQueue): SourceQueue {
    return new SourceQueue(queue);
  }

  /** Uses a queue given by its ARN. */
  public static fromArn(queueArn: string, options?: SourceQueueOptions): SourceQueue {
    return new SourceQueue({ ...options, queueArn });
  }

  /** @internal */
  public readonly _given: GivenSourceQueue;

  private constructor(given: GivenSourceQueue) {
    this._given = given;
  }
}

/** Options of a queue that is given by its ARN. */
export interface SourceQueueOptions {
  /**
   * The customer managed key that encrypts the queue and, by default, the queues that its messages move to. Default:
   * none.
   */
  readonly encryptionKey?: kms.IKey;
}

/** The queue, or its ARN and options. */
export type GivenSourceQueue = sqs.IQueue | ({ readonly queueArn: string } & SourceQueueOptions);
