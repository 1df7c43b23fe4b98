import { App, CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as events from 'aws-cdk-lib/aws-events';
import * as targets from 'aws-cdk-lib/aws-events-targets';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as s3 from 'aws-cdk-lib/aws-s3';
import * as notifications from 'aws-cdk-lib/aws-s3-notifications';
import * as sns from 'aws-cdk-lib/aws-sns';
import * as subscriptions from 'aws-cdk-lib/aws-sns-subscriptions';
import * as sqs from 'aws-cdk-lib/aws-sqs';

import { Backoff, Envelope, Jitter, Redeliver, type RedeliverProps, RetryPolicy, SourceQueue, Target } from '@redeliver/cdk';

const app = new App();
const stack = new Stack(app, 'Producers');
const context = (name: string): string | undefined => app.node.tryGetContext(name) as string | undefined;
const common = {
  target: Target.http(context('target') ?? 'https://orders.example.com/hook'),
  policy: RetryPolicy.of({ maxAttempts: 2, backoff: Backoff.fixed(Duration.seconds(1), { jitter: Jitter.NONE }) }),
  architecture: context('architecture') === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64,
  removalPolicy: RemovalPolicy.DESTROY,
} satisfies Partial<RedeliverProps>;

// EventBridge.
const fromEvents = new Redeliver(stack, 'FromEvents', {
  ...common,
  prefix: 'events',
  envelope: Envelope.OPTIONAL,
  messageIdPointer: '/id',
});
new events.Rule(stack, 'OrderPlaced', {
  eventPattern: { source: ['shop'], detailType: ['OrderPlaced'] },
  targets: [new targets.SqsQueue(fromEvents.sourceQueue)],
});

// SNS.
const orders = new sns.Topic(stack, 'Orders');
const fromTopic = new Redeliver(stack, 'FromTopic', {
  ...common,
  prefix: 'topic',
  envelope: Envelope.OPTIONAL,
  messageIdPointer: '/MessageId',
});
orders.addSubscription(new subscriptions.SqsSubscription(fromTopic.sourceQueue));

// An existing queue, with existing producers and raw messages from SNS.
const shop = new sqs.Queue(stack, 'Shop', { removalPolicy: RemovalPolicy.DESTROY });
new Redeliver(stack, 'FromShop', {
  ...common,
  prefix: 'shop',
  existingSourceQueue: SourceQueue.fromQueue(shop),
  envelope: Envelope.OPTIONAL,
  messageIdAttribute: 'order-id',
});
orders.addSubscription(new subscriptions.SqsSubscription(shop, { rawMessageDelivery: true }));

// S3.
const uploads = new s3.Bucket(stack, 'Uploads', { removalPolicy: RemovalPolicy.DESTROY });
const fromUploads = new Redeliver(stack, 'FromUploads', {
  ...common,
  prefix: 'uploads',
  envelope: Envelope.OPTIONAL,
  messageIdPointer: '/Records/0/responseElements/x-amz-request-id',
});
uploads.addEventNotification(s3.EventType.OBJECT_CREATED, new notifications.SqsDestination(fromUploads.sourceQueue));

for (const [name, value] of Object.entries({
  OrdersTopicArn: orders.topicArn,
  UploadsBucket: uploads.bucketName,
  ShopQueueUrl: shop.queueUrl,
  EventsQueueUrl: fromEvents.sourceQueue.queueUrl,
  EventsFinalDlqUrl: fromEvents.finalDlq.queueUrl,
})) {
  new CfnOutput(stack, name, { value });
}
