import { App, Duration, Stack } from 'aws-cdk-lib';
import * as lambda from 'aws-cdk-lib/aws-lambda';

import { AsyncRetry, RetryPolicy } from '@redeliver/cdk';

const app = new App();
const stack = new Stack(app, 'Reports');
const report = new lambda.Function(stack, 'Report', {
  runtime: lambda.Runtime.PYTHON_3_14,
  handler: 'index.handler',
  code: lambda.Code.fromInline(`
def handler(event, context):
    attempt = event["_retry_metadata"]["attempt"] if "_retry_metadata" in event else 0
    order = event["_original_payload"] if "_retry_metadata" in event else event
    print(f"attempt {attempt} for order {order['id']}")
`),
});
new AsyncRetry(stack, 'Retries', {
  prefix: 'reports',
  functions: [report],
  policy: RetryPolicy.of({ longDelays: true, maxAge: Duration.days(1) }),
});
