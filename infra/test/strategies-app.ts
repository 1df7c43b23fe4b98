// An app that the end-to-end tests deploy: the strategy visibility on a separate queue, direct re-sends, long delays,
// ordered messages, and a retried function that fails as often as the message specifies.

import { App, CfnOutput, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';

import { AsyncRetry, Redeliver, RetryPolicy, SourceQueue, Strategy, Target } from '../lib/index';

const app = new App();
const stack = new Stack(app, 'Strategies');
const common = {
  architecture: app.node.tryGetContext('architecture') === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64,
  removalPolicy: RemovalPolicy.DESTROY,
} as const;
const target = Target.http(String(app.node.tryGetContext('target')));
const quick = RetryPolicy.fromJson({ max_attempts: 2, backoff: { kind: 'fixed', delay_seconds: 1, jitter: 'none' } });
// The delay is longer than one hop.
const slow = RetryPolicy.fromJson({ max_attempts: 2, backoff: { kind: 'fixed', delay_seconds: 1800, jitter: 'none' } });

// In the same stack as its readers, so the template sets its redrive policy.
const hidden = new sqs.Queue(stack, 'Hidden', { removalPolicy: RemovalPolicy.DESTROY });
const hides = new Redeliver(stack, 'Hides', {
  ...common, target, prefix: 'hides', strategy: Strategy.VISIBILITY, policy: quick, existingSourceQueue: SourceQueue.fromQueue(hidden),
});
const directs = new Redeliver(stack, 'Directs', { ...common, target, prefix: 'directs', strategy: Strategy.DIRECT_RESEND, policy: quick });
const hops = new Redeliver(stack, 'Hops', { ...common, target, prefix: 'hops', longDelays: true, policy: slow });
const keepsOrder = new Redeliver(stack, 'KeepsOrder', { ...common, target, prefix: 'keeps-order', strategy: Strategy.ORDERED, policy: quick });

const done = new sqs.Queue(stack, 'Done', { removalPolicy: RemovalPolicy.DESTROY });
const orders = new lambda.Function(stack, 'Orders', {
  functionName: 'orders',
  runtime: lambda.Runtime.PYTHON_3_14,
  handler: 'index.handler',
  environment: { DONE_QUEUE_URL: done.queueUrl },
  code: lambda.Code.fromInline(`
import json, os
import boto3

def handler(event, context):
    attempt = event["_retry_metadata"]["attempt"] if "_retry_metadata" in event else 0
    order = event["_original_payload"] if "_retry_metadata" in event else event
    if attempt < order["succeeds_at"]:
        raise RuntimeError("not yet")
    done = json.dumps({"order": order["id"], "attempt": attempt})
    boto3.client("sqs").send_message(QueueUrl=os.environ["DONE_QUEUE_URL"], MessageBody=done)
`),
});
done.grantSendMessages(orders);
const invokes = new AsyncRetry(stack, 'Invokes', { ...common, prefix: 'invokes', functions: [orders], policy: quick });

const outputs: Record<string, sqs.IQueue | undefined> = {
  HidesSource: hides.sourceQueue,
  HidesFinalDlq: hides.finalDlq,
  DirectsSource: directs.sourceQueue,
  DirectsIntermediateDlq: directs.intermediateDlq,
  DirectsFinalDlq: directs.finalDlq,
  HopsSource: hops.sourceQueue,
  HopsIntermediateDlq: hops.intermediateDlq,
  KeepsOrderSource: keepsOrder.sourceQueue,
  KeepsOrderFinalDlq: keepsOrder.finalDlq,
  Done: done,
  InvokesRetry: invokes.retryQueue,
  InvokesFinalDlq: invokes.finalDlq,
};
for (const [name, queue] of Object.entries(outputs)) {
  new CfnOutput(stack, `${name}Url`, { value: queue?.queueUrl ?? '' });
}
new CfnOutput(stack, 'OrdersArn', { value: orders.functionArn });
