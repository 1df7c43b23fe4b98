from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, batch_processor, process_partial_response

from charge import charge
from reason import reason


class ReasonProcessor(BatchProcessor):
    def response(self):
        response = super().response()
        for failure, (_, error, _) in zip(response["batchItemFailures"], self.exceptions):
            failure["error"] = reason(error)
        return response


processor = ReasonProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


def record_handler(record):
    charge(record.json_body)


def handler(event, context):
    return process_partial_response(event=event, record_handler=record_handler, processor=processor, context=context)


# The decorator has the same effect.
@batch_processor(record_handler=record_handler, processor=processor)
def decorated_handler(event, context):
    return processor.response()
