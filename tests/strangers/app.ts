// A user's app that uses the npm package. It generates the same template as this repository's app from the same values.

import { App, Duration, RemovalPolicy, Stack, Validations } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { AwsSolutionsChecks } from 'cdk-nag';
import { Backoff, Jitter, Redeliver, RetryPolicy, SourceQueue, Target } from '@redeliver/cdk';

const app = new App();
Validations.of(app).addPlugins(new AwsSolutionsChecks(app));
const context = (name: string): string => String(app.node.tryGetContext(name));
const queueArn: string | undefined = app.node.tryGetContext('existingSourceQueueArn');

const stack = new Stack(app, 'Redeliver', {
  stackName: `${context('prefix')}-prod`,
  description: 'redeliver: delayed, jittered retries for SQS and Lambda',
});
const redeliver = new Redeliver(stack, 'Redeliver', {
  target: Target.http(context('target')),
  policy: RetryPolicy.of({ maxAttempts: 2, backoff: Backoff.fixed(Duration.seconds(1), { jitter: Jitter.NONE }) }),
  prefix: context('prefix'),
  architecture: context('architecture') === 'arm64' ? lambda.Architecture.ARM_64 : lambda.Architecture.X86_64,
  removalPolicy: RemovalPolicy.DESTROY,
  ...(queueArn !== undefined && { existingSourceQueue: SourceQueue.fromArn(queueArn) }),
});
redeliver.addOutputs();
app.synth();
