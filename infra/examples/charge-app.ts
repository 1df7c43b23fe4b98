import { App, Duration, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';
import { NodejsFunction } from 'aws-cdk-lib/aws-lambda-nodejs';

import { Redeliver, Target } from '@redeliver/cdk';

const app = new App();
const stack = new Stack(app, 'Payments');
const charge = new NodejsFunction(stack, 'Charge', {
  entry: 'src/charge.ts',
  runtime: lambda.Runtime.NODEJS_22_X,
  timeout: Duration.minutes(1),
});
new Redeliver(stack, 'Retries', { prefix: 'payments', target: Target.ownFunction(charge) });
