// An app that the end-to-end tests deploy: functions with existing packages and queues, as in docs/start/cdk.md.

import { App, CfnOutput, Duration, RemovalPolicy, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

import { Redeliver, RetryPolicy, SourceQueue, Target } from '../lib/index';

const RUNTIMES = { powertools: lambda.Runtime.PYTHON_3_13, middy: lambda.Runtime.NODEJS_22_X };

const app = new App();
const stack = new Stack(app, 'FirstNight');
const given = (name: string): string => String(app.node.tryGetContext(name));
const architecture = given('architecture') === 'x86-64' ? lambda.Architecture.X86_64 : lambda.Architecture.ARM_64;
for (const [name, runtime] of Object.entries(RUNTIMES)) {
  const charge = new lambda.Function(stack, name, {
    runtime,
    handler: `${name}.handler`,
    code: lambda.Code.fromAsset(given(`${name}Code`)),
    architecture,
    timeout: Duration.minutes(1),
    environment: { POWERTOOLS_SERVICE_NAME: name },
  });
  const { finalDlq } = new Redeliver(stack, `${name}Retries`, {
    architecture,
    removalPolicy: RemovalPolicy.DESTROY,
    prefix: name,
    target: Target.ownFunction(charge),
    existingSourceQueue: SourceQueue.fromArn(given(`${name}QueueArn`)),
    policy: RetryPolicy.fromFile(given('policy')),
  });
  new CfnOutput(stack, `${name}FinalDlqUrl`, { value: finalDlq.queueUrl });
}
