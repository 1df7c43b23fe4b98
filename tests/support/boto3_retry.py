"""A retry function like in tutorials: one record at a time, with boto3 and jsonschema."""

import json
import os
import random

import boto3
import jsonschema

SCHEMA = {
    "type": "object",
    "required": ["metadata", "data"],
    "properties": {
        "metadata": {
            "type": "object",
            "required": ["message_id"],
            "properties": {
                "message_id": {"type": "string"},
                "retry_attempt": {"type": "integer", "minimum": 0},
            },
        },
        "data": {"type": "object"},
    },
}
MAX_ATTEMPTS = 5

sqs = boto3.client("sqs")
validator = jsonschema.Draft202012Validator(SCHEMA)


def handler(event, context):
    failures = []
    for record in event["Records"]:
        try:
            retry(json.loads(record["body"]))
        except Exception:
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def retry(message):
    validator.validate(message)
    attempt = message["metadata"].get("retry_attempt", 0) + 1
    if attempt > MAX_ATTEMPTS:
        raise RuntimeError("retries exhausted")
    message["metadata"]["retry_attempt"] = attempt
    sqs.send_message(
        QueueUrl=os.environ["SOURCE_QUEUE_URL"],
        MessageBody=json.dumps(message),
        DelaySeconds=random.randint(0, 900),
    )
