import { Annotations, Token } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { GivenSourceQueue } from './existing-queue';

/** A sender that needs a statement in the source queue's policy: another account, or an AWS service. */
export class Producer {
  /**
   * Another account, or one of its roles or users. An account's own policies decide who in it can send.
   *
   * @param principal an account id, or the ARN of a role or user.
   */
  public static principal(principal: string): Producer {
    return new Producer({ kind: 'principal', principal });
  }

  /** A topic of SNS, of any account. */
  public static topic(topicArn: string): Producer {
    return new Producer({ kind: 'topic', topicArn });
  }

  /**
   * The event notifications of a bucket.
   *
   * @param account the bucket's account, which its ARN does not name. A deleted bucket's name is free for others.
   */
  public static bucket(bucketArn: string, account: string): Producer {
    return new Producer({ kind: 'bucket', bucketArn, account });
  }

  /** A rule of EventBridge in the queue's account. A rule of another account sends with its role: use `principal`. */
  public static rule(ruleArn: string): Producer {
    return new Producer({ kind: 'rule', ruleArn });
  }

  /** @internal */
  public readonly _given: GivenProducer;

  private constructor(given: GivenProducer) {
    this._given = given;
  }
}

/** A producer by its kind. */
export type GivenProducer =
  | { readonly kind: 'principal'; readonly principal: string }
  | { readonly kind: 'topic'; readonly topicArn: string }
  | { readonly kind: 'bucket'; readonly bucketArn: string; readonly account: string }
  | { readonly kind: 'rule'; readonly ruleArn: string };

/** An account, or a role or a user of one. No `*`, which would let anybody send. */
export const PRINCIPAL = '(\\d{12}|arn:[^:,]+:(iam|sts)::\\d{12}:[^,*\\s]+)';

/** The form of each argument: its pattern, and its name in a sentence. */
const FORMS = {
  principal: [PRINCIPAL, 'an account id or the ARN of a role or user, without *'],
  topicArn: ['arn:[^:]+:sns:[^:]+:\\d{12}:[^:*]+', 'the ARN of a topic'],
  bucketArn: ['arn:[^:]+:s3:::[^/*]+', 'the ARN of a bucket'],
  account: ['\\d{12}', 'an account id of 12 digits'],
  ruleArn: ['arn:[^:]+:events:[^:]+:\\d{12}:rule/[^*]+', 'the ARN of a rule'],
} as const;

/** Producers that no policy could admit, a sentence each. */
export function producerProblems(producers: readonly Producer[] = [], existingSourceQueue?: GivenSourceQueue): string[] {
  if (existingSourceQueue && producers.length > 0) {
    return ['producers cannot be set with existingSourceQueue; remove it, and add the statements of docs/producers.md to the policy of that queue.'];
  }
  return producers.flatMap(({ _given: { kind, ...given } }, index) =>
    (Object.entries(given) as [keyof typeof FORMS, string][]).flatMap(([name, value]) => {
      const [pattern, description] = FORMS[name];
      return Token.isUnresolved(value) || new RegExp(`^${pattern}$`).test(value)
        ? []
        : [`producers[${index}] (Producer.${kind}) has ${name} "${value}"; give ${description}.`];
    }),
  );
}

/** Lets the producers send to the queue and use its key. */
export function allowProducers(scope: Construct, queue: sqs.Queue, key: kms.IKey | undefined, producers: readonly Producer[]): void {
  const senders = sendersOf(producers.map(({ _given }) => _given));
  for (const { sender, source } of senders) {
    queue.addToResourcePolicy(new iam.PolicyStatement({ ...sender, actions: ['sqs:SendMessage'], resources: [queue.queueArn], conditions: source }));
  }
  const refused = senders
    .map(({ sender, source, tellsKms }) =>
      new iam.PolicyStatement({ ...sender, actions: ['kms:Decrypt', 'kms:GenerateDataKey'], resources: ['*'], conditions: tellsKms ? source : {} }),
    )
    .filter((statement) => key && !key.addToResourcePolicy(statement, true).statementAdded);
  if (refused.length > 0) {
    Annotations.of(scope).addWarningV2(
      '@redeliver/cdk:keyPolicyNotChanged',
      `The app cannot change the policy of encryptionKey, so the producers may not use the key; add to it: ${JSON.stringify(refused.map((statement) => statement.toStatementJson()))}`,
    );
  }
}

/** The sender of one statement. */
interface Sender {
  readonly sender: Pick<iam.PolicyStatementProps, 'sid' | 'principals'>;
  /** The condition on the resource that a service sends for. */
  readonly source: Record<string, Record<string, string>>;
  /**
   * True if the request to KMS names the resource, too. AWS documents that it does for SNS and does not for
   * EventBridge; S3's page has no condition. Without the right to send, the right to use the key is useless.
   */
  readonly tellsKms: boolean;
}

function sendersOf(producers: readonly GivenProducer[]): Sender[] {
  const principals = producers.flatMap((given) => (given.kind === 'principal' ? [new iam.ArnPrincipal(given.principal)] : []));
  const services = producers.flatMap((given): Sender[] => {
    switch (given.kind) {
      case 'principal':
        return [];
      case 'topic':
        return [{ ...service('sns', given.topicArn), tellsKms: true }];
      case 'bucket':
        return [service('s3', given.bucketArn, given.account)];
      case 'rule':
        return [service('events', given.ruleArn)];
    }
  });
  return [...(principals.length > 0 ? [{ sender: { sid: 'ProducersSend', principals }, source: {}, tellsKms: false }] : []), ...services];
}

function service(name: string, sourceArn: string, account?: string): Sender {
  return {
    sender: { principals: [new iam.ServicePrincipal(`${name}.amazonaws.com`)] },
    source: { ArnEquals: { 'aws:SourceArn': sourceArn }, ...(account && { StringEquals: { 'aws:SourceAccount': account } }) },
    tellsKms: false,
  };
}
