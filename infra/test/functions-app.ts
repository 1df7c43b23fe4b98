// An app that the end-to-end tests deploy: a user's function in each language as the message-processor.

import { App, CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import * as sqs from 'aws-cdk-lib/aws-sqs';
import { join } from 'node:path';

import { Envelope, Redeliver, RetryPolicy, Target } from '../lib/index';

const RUNTIMES = { Node: lambda.Runtime.NODEJS_22_X, Python: lambda.Runtime.PYTHON_3_13 };

const app = new App();
const stack = new Stack(app, 'Functions');
const architecture = app.node.tryGetContext('architecture') === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64;
const code = lambda.Code.fromAsset(join(__dirname, 'functions'));
for (const [name, runtime] of Object.entries(RUNTIMES)) {
  const done = new sqs.Queue(stack, `${name}Done`, { removalPolicy: RemovalPolicy.DESTROY });
  const own = new lambda.Function(stack, `${name}Orders`, {
    runtime,
    handler: 'orders.handler',
    code,
    architecture,
    timeout: Duration.seconds(30),
    environment: { DONE_QUEUE_URL: done.queueUrl },
  });
  done.grantSendMessages(own);
  const { sourceQueue, finalDlq } = new Redeliver(stack, `${name}Retries`, {
    architecture,
    removalPolicy: RemovalPolicy.DESTROY,
    prefix: name.toLowerCase(),
    target: Target.ownFunction(own),
    policy: RetryPolicy.fromJson({
      max_attempts: 2,
      backoff: { kind: 'fixed', delay_seconds: 1, jitter: 'none' },
      non_retryable: ['Order.Unknown'],
    }),
    envelope: Envelope.OPTIONAL,
    messageIdPointer: '/order',
  });
  for (const [queue, { queueUrl }] of Object.entries({ Source: sourceQueue, FinalDlq: finalDlq, Done: done })) {
    new CfnOutput(stack, `${name}${queue}Url`, { value: queueUrl });
  }
}
