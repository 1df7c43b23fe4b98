// An app that the end-to-end tests deploy: a function that fails so often as it is told to, and its retries.

import { App, CfnOutput, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';

import { AsyncRetry } from '../lib/index.ts';

const app = new App();
const stack = new Stack(app, 'AsyncOrders');
const done = new sqs.Queue(stack, 'Done', { removalPolicy: RemovalPolicy.DESTROY });
const orders = new lambda.Function(stack, 'Orders', {
  functionName: 'async-orders',
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
const retries = new AsyncRetry(stack, 'Retries', {
  prefix: 'async-orders',
  functions: [orders],
  policy: { max_attempts: 2, backoff: { kind: 'fixed', delay_seconds: 1, jitter: 'none' } },
  architecture: app.node.tryGetContext('architecture') === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64,
  removalPolicy: RemovalPolicy.DESTROY,
});
new CfnOutput(stack, 'DoneQueueUrl', { value: done.queueUrl });
new CfnOutput(stack, 'FinalDlqUrl', { value: retries.finalDlq.queueUrl });
