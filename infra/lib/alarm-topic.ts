import { Aspects, Stack, Token, TokenComparison } from 'aws-cdk-lib';
import * as iam from 'aws-cdk-lib/aws-iam';
import type * as sns from 'aws-cdk-lib/aws-sns';
import type { Construct } from 'constructs';

const ALARMS = new iam.ServicePrincipal('cloudwatch.amazonaws.com');

/** What keeps every alarm from telling a topic, a sentence each. */
export function topicProblems(topic: sns.ITopic | undefined, stack: Stack): string[] {
  if (!topic) {
    return [];
  }
  const problems: string[] = [];
  // CloudWatch's answer to such an alarm: "Invalid region us-east-1 specified. Only eu-west-1 is supported."
  if (Token.compareStrings(stack.region, topic.env.region) === TokenComparison.DIFFERENT) {
    problems.push(
      `alarmTopic is a topic of ${topic.env.region}, but the alarms are in ${stack.region}, and CloudWatch takes topics of its own region alone; ` +
        `use one of ${stack.region}.`,
    );
  }
  // "Why didn't I receive an SNS notification for my CloudWatch alarm trigger?"
  if (topic.masterKey?.keyArn.endsWith('alias/aws/sns')) {
    problems.push(
      "alarmTopic is encrypted with AWS's own key (alias/aws/sns), which lets no alarm in and whose policy nobody can " +
        'change; encrypt it with a key of yours.',
    );
  }
  return problems;
}

/**
 * Lets alarms tell a topic and use its key. An imported topic's or key's policy is its owner's business, and so is a
 * `TopicPolicy` that stands apart from its topic.
 */
export function allowAlarms(scope: Construct, topic: sns.ITopic): void {
  const { account } = Stack.of(scope);
  const publish = new iam.PolicyStatement({
    principals: [ALARMS],
    actions: ['sns:Publish'],
    resources: [topic.topicArn],
    conditions: { StringEquals: { 'aws:SourceAccount': account } },
  });
  if (Token.compareStrings(account, Stack.of(topic).account) === TokenComparison.DIFFERENT) {
    topic.addToResourcePolicy(publish);
  } else {
    // SNS's own policy lets in all of the account, alarms too; the first statement of another one takes its place. Whether
    // there is one is known when the whole app has been written.
    Aspects.of(topic).add({
      visit: (node) => {
        if (node === topic && node.node.tryFindChild('Policy')) {
          topic.addToResourcePolicy(publish);
        }
      },
    });
  }
  // Who may publish is the topic's to say: without that the key is of no use to anybody's alarms.
  topic.masterKey?.addToResourcePolicy(
    new iam.PolicyStatement({ principals: [ALARMS], actions: ['kms:Decrypt', 'kms:GenerateDataKey*'], resources: ['*'] }),
  );
}
