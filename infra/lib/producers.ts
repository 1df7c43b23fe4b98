import { Annotations, Token } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as kms from 'aws-cdk-lib/aws-kms';
import type * as sqs from 'aws-cdk-lib/aws-sqs';
import type { Construct } from 'constructs';

import type { GivenSourceQueue } from './existing-queue';

/** A sender that needs a statement in the source queue's policy: another account, or an AWS service. */
export class Producer {
  /**
   * Allows another account, or one of its roles or users. An account's own policies decide which of its principals can
   * send.
   *
   * @param principal an account id, or the ARN of a role or user.
   */
  public static principal(principal: string): Producer {
    return new Producer({ kind: 'principal', principal });
  }

  /** Allows an SNS topic in any account. */
  public static topic(topicArn: string): Producer {
    return new Producer({ kind: 'topic', topicArn });
  }

  /**
   * Allows the event notifications of a bucket.
   *
   * @param account the bucket's account, which its ARN does not contain. The name of a deleted bucket can be registered
   * by others.
   */
  public static bucket(bucketArn: string, account: string): Producer {
    return new Producer({ kind: 'bucket', bucketArn, account });
  }

  /**
   * Allows an EventBridge rule in the queue's account. A rule in another account sends with its role: use `principal`.
   */
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

/** An account, or a role or user of an account. `*` is not accepted, since it would let anyone send. */
export const PRINCIPAL = '(\\d{12}|arn:[^:,]+:(iam|sts)::\\d{12}:[^,*\\s]+)';

/** The form of each argument: its pattern, and its name in a sentence. */
const FORMS = {
  principal: [PRINCIPAL, 'an account id or the ARN of a role or user, without *'],
  topicArn: ['arn:[^:]+:sns:[^:]+:\\d{12}:[^:*]+', 'the ARN of a topic'],
  bucketArn: ['arn:[^:]+:s3:::[^/*]+', 'the ARN of a bucket'],
  account: ['\\d{12}', 'an account id of 12 digits'],
  ruleArn: ['arn:[^:]+:events:[^:]+:\\d{12}:rule/[^*]+', 'the ARN of a rule'],
} as const;

/** Returns problems with producers that no policy could allow, one sentence each. */
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
    .map(({ sender, source, passesSourceToKms }) =>
      new iam.PolicyStatement({ ...sender, actions: ['kms:Decrypt', 'kms:GenerateDataKey'], resources: ['*'], conditions: passesSourceToKms ? source : {} }),
    )
    .filter((statement) => key && !key.addToResourcePolicy(statement, true).statementAdded);
  if (refused.length > 0) {
    Annotations.of(scope).addWarningV2(
      '@redeliver/cdk:keyPolicyNotChanged',
      `The app cannot change the policy of encryptionKey, so the producers may not use the key; add to it: ${JSON.stringify(refused.map((statement) => statement.toStatementJson()))}`,
    );
  }
}

/** The sender in a policy statement. */
interface Sender {
  readonly sender: Pick<iam.PolicyStatementProps, 'sid' | 'principals'>;
  /** The condition on the resource on whose behalf a service sends. */
  readonly source: Record<string, Record<string, string>>;
  /**
   * True if the request to KMS also contains the resource. According to AWS's documentation, it does for SNS but
   * not for EventBridge; S3's page has no condition. Without permission to send, the permission to use the key is useless.
   */
  readonly passesSourceToKms: boolean;
}

function sendersOf(producers: readonly GivenProducer[]): Sender[] {
  const principals = producers.flatMap((given) => (given.kind === 'principal' ? [new iam.ArnPrincipal(given.principal)] : []));
  const services = producers.flatMap((given): Sender[] => {
    switch (given.kind) {
      case 'principal':
        return [];
      case 'topic':
        return [{ ...serviceSender('sns', given.topicArn), passesSourceToKms: true }];
      case 'bucket':
        return [serviceSender('s3', given.bucketArn, given.account)];
      case 'rule':
        return [serviceSender('events', given.ruleArn)];
    }
  });
  return [...(principals.length > 0 ? [{ sender: { sid: 'ProducersSend', principals }, source: {}, passesSourceToKms: false }] : []), ...services];
}

function serviceSender(name: string, sourceArn: string, account?: string): Sender {
  return {
    sender: { principals: [new iam.ServicePrincipal(`${name}.amazonaws.com`)] },
    source: { ArnEquals: { 'aws:SourceArn': sourceArn }, ...(account && { StringEquals: { 'aws:SourceAccount': account } }) },
    passesSourceToKms: false,
  };
}
