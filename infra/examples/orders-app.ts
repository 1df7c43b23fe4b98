import { App, Duration, Stack } from 'aws-cdk-lib';
import * as sns from 'aws-cdk-lib/aws-sns';

import { Backoff, Redeliver, RetryPolicy, Target } from '@redeliver/cdk';

const app = new App();
const stack = new Stack(app, 'Orders');
const { sourceQueue } = new Redeliver(stack, 'Retries', {
  prefix: 'orders',
  target: Target.http('https://orders.example.com/hook', { timeout: Duration.seconds(10) }),
  policy: RetryPolicy.of({ maxAttempts: 8, backoff: Backoff.exponential({ initialDelay: Duration.seconds(60) }) }),
  ticketTopic: new sns.Topic(stack, 'Alarms', { enforceSSL: true }),
});
stack.exportValue(sourceQueue.queueArn);
