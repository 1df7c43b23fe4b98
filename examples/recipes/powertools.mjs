import { BatchProcessor, EventType, processPartialResponse } from '@aws-lambda-powertools/batch';
import { charge } from './charge.mjs';
import { reason } from './reason.mjs';

class ReasonProcessor extends BatchProcessor {
  collectSqsFailures() {
    return super.collectSqsFailures().map((failure, n) => ({ ...failure, error: reason(this.errors[n]) }));
  }
}

const processor = new ReasonProcessor(EventType.SQS);
const recordHandler = (record) => charge(JSON.parse(record.body));

export const handler = (event, context) =>
  processPartialResponse(event, recordHandler, processor, { context, throwOnFullBatchFailure: false });
