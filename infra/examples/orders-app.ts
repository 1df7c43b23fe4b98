import { App, Duration, Stack } from 'aws-cdk-lib';
import * as sns from 'aws-cdk-lib/aws-sns';

import { Redeliver } from '../lib/index';

const app = new App();
const stack = new Stack(app, 'Orders');
const { sourceQueue } = new Redeliver(stack, 'Retries', {
  prefix: 'orders',
  target: { kind: 'http', url: 'https://orders.example.com/hook', timeout: Duration.seconds(10) },
  policy: { max_attempts: 8, backoff: { kind: 'exponential', initial_delay_seconds: 60 } },
  alarmTopic: new sns.Topic(stack, 'Alarms', { enforceSSL: true }),
});
stack.exportValue(sourceQueue.queueArn);
