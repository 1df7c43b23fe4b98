import { App, Stack } from 'aws-cdk-lib';
import * as ec2 from 'aws-cdk-lib/aws-ec2';
import * as kms from 'aws-cdk-lib/aws-kms';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as secretsmanager from 'aws-cdk-lib/aws-secretsmanager';
import * as sns from 'aws-cdk-lib/aws-sns';

import { Redeliver, type RedeliverProps } from '../lib/index.ts';
import { cdkJson } from './fakes.ts';

/** Stacks that have everything in them between them. */
export const VARIANTS: Record<string, (stack: Stack) => RedeliverProps> = {
  http: (stack) => ({
    target: {
      kind: 'http',
      url: 'https://orders.example.com/hook',
      headersSecret: secretsmanager.Secret.fromSecretCompleteArn(
        stack,
        'Secret',
        'arn:aws:secretsmanager:eu-west-1:111122223333:secret:headers-AbCdEf',
      ),
    },
  }),
  lambda: (stack) => ({
    target: {
      kind: 'lambda',
      function: lambda.Function.fromFunctionArn(stack, 'Target', 'arn:aws:lambda:eu-west-1:111122223333:function:orders'),
    },
    encryptionKey: kms.Key.fromKeyArn(stack, 'Key', 'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000001'),
    alarmTopic: sns.Topic.fromTopicArn(stack, 'Topic', 'arn:aws:sns:eu-west-1:111122223333:alarms'),
    vpc: {
      vpc: ec2.Vpc.fromVpcAttributes(stack, 'Vpc', {
        vpcId: 'vpc-0123456789abcdef0',
        availabilityZones: ['eu-west-1a', 'eu-west-1b'],
        privateSubnetIds: ['subnet-0123456789abcdef0', 'subnet-0123456789abcdef1'],
        privateSubnetRouteTableIds: ['rtb-0123456789abcdef0', 'rtb-0123456789abcdef1'],
      }),
    },
  }),
  'existing-queue': () => ({
    target: { kind: 'http', url: 'https://orders.example.com/hook' },
    existingSourceQueue: { queueArn: 'arn:aws:sqs:eu-west-1:111122223333:orders' },
  }),
  'existing-queue-with-keys': (stack) => ({
    target: { kind: 'http', url: 'https://orders.example.com/hook' },
    encryptionKey: new kms.Key(stack, 'Key', { enableKeyRotation: true }),
    existingSourceQueue: {
      queueArn: 'arn:aws:sqs:eu-west-1:111122223333:orders',
      encryptionKey: kms.Key.fromKeyArn(
        stack,
        'QueueKey',
        'arn:aws:kms:eu-west-1:111122223333:key/0191f3a2-7b1c-7d3e-8f00-000000000002',
      ),
    },
  }),
};

export function variant(name: string, bundles: string): { app: App; stack: Stack } {
  const app = new App({ context: cdkJson().context });
  const stack = new Stack(app, name);
  const props = VARIANTS[name]?.(stack);
  if (props === undefined) {
    throw new Error(`no variant ${name}`);
  }
  new Redeliver(stack, 'Retries', { bundles, ...props });
  return { app, stack };
}
