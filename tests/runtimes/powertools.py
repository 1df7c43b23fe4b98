"""Handlers written with Powertools for AWS Lambda (Python), as in its documentation, unaware of redeliver."""

import json
import os

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.parser import BaseModel, event_parser
from aws_lambda_powertools.utilities.parser.models import SqsModel


def note(line: str) -> None:
    with open(os.environ["SCRIPT_JOURNAL"], "a") as journal:
        journal.write(line + "\n")


def charge(message: dict) -> str:
    """Fails for the first `failures` attempts."""
    metadata, data = message["metadata"], message["data"]
    attempt = metadata.get("retry_attempt", 0)
    history = metadata.get("retry_history", [])
    last = history[-1]["error_type"] if history else "-"
    note(f"{metadata['message_id']} {attempt} {data['order']} {last}")
    if attempt < data.get("failures", 0):
        raise ConnectionError(f"order {data['order']} is not charged")
    return data["order"]


# https://docs.aws.amazon.com/powertools/python/latest/utilities/batch/
processor = BatchProcessor(event_type=EventType.SQS)


def batch_handler(event, context):
    def record_handler(record):
        return charge(record.json_body)

    return process_partial_response(event=event, record_handler=record_handler, processor=processor, context=context)


# https://docs.aws.amazon.com/powertools/python/latest/utilities/parser/
class Order(BaseModel):
    order: str
    failures: int = 0


class Charge(BaseModel):
    metadata: dict
    data: Order


@event_parser(model=SqsModel)
def parser_handler(event: SqsModel, context):
    [record] = event.Records
    message = Charge.model_validate_json(record.body)
    charge(message.model_dump())


# https://docs.aws.amazon.com/powertools/python/latest/utilities/idempotency/
config = IdempotencyConfig(event_key_jmespath="metadata.message_id")
charges = DynamoDBPersistenceLayer(table_name=os.environ.get("CHARGES_TABLE", ""))


@idempotent_function(data_keyword_argument="message", config=config, persistence_store=charges)
def charge_once(message: dict) -> str:
    return charge(message)


def idempotent_handler(event, context):
    config.register_lambda_context(context)
    [record] = event["Records"]
    message = json.loads(record["body"])
    charge_once(message=message)
    # A failure after the charge must not cause a second charge.
    attempt = message["metadata"].get("retry_attempt", 0)
    if attempt < message["data"].get("failures_after", 0):
        raise TimeoutError("the answer is lost")
