import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as sqs from 'aws-cdk-lib/aws-sqs';

/**
 * A source queue that exists already: a standard queue of the stack's account and region. Its attributes are set, above all its
 * redrive policy: a queue of this stack has them in its template, any other gets them at deployment
 * (docs/deploy/existing-queue.md).
 */
export class SourceQueue {
  /** A queue of the app. */
  public static fromQueue(queue: sqs.IQueue): SourceQueue {
    return new SourceQueue(queue);
  }

  /** A queue that is known by its ARN. */
  public static fromArn(queueArn: string, options?: SourceQueueOptions): SourceQueue {
    return new SourceQueue({ ...options, queueArn });
  }

  /** @internal */
  public readonly _given: GivenSourceQueue;

  private constructor(given: GivenSourceQueue) {
    this._given = given;
  }
}

/** What must be known of a queue in addition to its ARN. */
export interface SourceQueueOptions {
  /** The key that it is encrypted with, if it is a customer managed one. Default: there is none. */
  readonly encryptionKey?: kms.IKey;
}

/** The queue, or what is known of it. */
export type GivenSourceQueue = sqs.IQueue | ({ readonly queueArn: string } & SourceQueueOptions);
