"""A function of a user's own, in Python: it does what a message says. What is done, it tells a queue."""

import json
import os

import boto3
import redeliver

sqs = boto3.client("sqs")


@redeliver.handler
def handler(message: redeliver.Message) -> None:
    order = message.data
    if order.get("is_unknown"):
        raise redeliver.PermanentError(f"no order {order['order']}", type="Order.Unknown")
    if message.retry_attempt < order["succeeds_at"]:
        raise RuntimeError("not yet")
    done = {"order": order["order"], "attempt": message.retry_attempt, "key": message.idempotency_key}
    sqs.send_message(QueueUrl=os.environ["DONE_QUEUE_URL"], MessageBody=json.dumps(done))
