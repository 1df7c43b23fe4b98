// The app for `cargo xtask smoke`: a loop with delays of seconds, and a target that responds as the message specifies.

import { App, CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as logs from 'aws-cdk-lib/aws-logs';
import * as sqs from 'aws-cdk-lib/aws-sqs';

import { Backoff, CircuitBreaker, Jitter, Redeliver, RetryPolicy, Target } from '../lib/index';

const app = new App();
const prefix = String(app.node.tryGetContext('prefix'));
const stack = new Stack(app, 'Smoke', { stackName: prefix, description: 'A test of redeliver: it takes itself down.' });
const removalPolicy = RemovalPolicy.DESTROY;

// The target logs each call.
const calls = new sqs.Queue(stack, 'Calls', { enforceSSL: true, removalPolicy });
const target = new lambda.Function(stack, 'Target', {
  runtime: lambda.Runtime.PYTHON_3_14,
  handler: 'index.handler',
  environment: { CALLS_QUEUE_URL: calls.queueUrl },
  logGroup: new logs.LogGroup(stack, 'TargetLogs', { retention: logs.RetentionDays.ONE_DAY, removalPolicy }),
  code: lambda.Code.fromInline(`
import json, os, time
import boto3

class Transient(Exception):
    pass

class Permanent(Exception):
    pass

def handler(event, context):
    metadata, wanted = event["metadata"], event["data"]["wanted"]
    attempt, generation = metadata.get("retry_attempt", 0), metadata.get("redrive_generation", 0)
    fails = (wanted == "recovers" and attempt < 2) or (wanted == "exhausted" and generation == 0)
    ok = not fails and wanted != "permanent"
    call = {"id": metadata["message_id"], "attempt": attempt, "generation": generation, "at": time.time(), "ok": ok}
    boto3.client("sqs").send_message(QueueUrl=os.environ["CALLS_QUEUE_URL"], MessageBody=json.dumps(call))
    if not ok:
        raise Transient() if fails else Permanent()
`),
});
calls.grantSendMessages(target);

const redeliver = new Redeliver(stack, 'Redeliver', {
  architecture: app.node.tryGetContext('architecture') === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64,
  removalPolicy,
  prefix,
  target: Target.lambdaFunction(target),
  policy: RetryPolicy.of({
    maxAttempts: 2,
    backoff: Backoff.fixed(Duration.seconds(2), { jitter: Jitter.NONE }),
    nonRetryable: ['Permanent'],
    // Two of the few calls fail intentionally.
    circuitBreaker: CircuitBreaker.OFF,
  }),
});

// SQS moves messages from the queue Moving to the queue Moved after one receive.
const moved = new sqs.Queue(stack, 'Moved', { enforceSSL: true, removalPolicy });
const moving = new sqs.Queue(stack, 'Moving', { enforceSSL: true, removalPolicy, deadLetterQueue: { queue: moved, maxReceiveCount: 1 } });

const urls = { Source: redeliver.sourceQueue, FinalDlq: redeliver.finalDlq, Calls: calls, Moving: moving, Moved: moved };
for (const [name, queue] of Object.entries(urls)) {
  new CfnOutput(stack, `${name}Url`, { value: queue.queueUrl });
}
