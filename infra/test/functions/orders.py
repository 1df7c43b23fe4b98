"""A function of a user's own, in Python, without any library: it does what a message says. What is done, it tells a queue."""

import json
import os

import boto3

sqs = boto3.client("sqs")

# Named by the policy's `non_retryable`.
UnknownOrder = type("Order.Unknown", (Exception,), {})


def handler(event, context):
    [record] = event["Records"]
    order, metadata = parts(json.loads(record["body"]), record["messageAttributes"])
    attempt = metadata.get("retry_attempt", 0)
    if order.get("is_unknown"):
        raise UnknownOrder(f"no order {order['order']}")
    if attempt < order["succeeds_at"]:
        raise RuntimeError("not yet")
    done = {"order": order["order"], "attempt": attempt, "key": metadata.get("message_id", order["order"])}
    sqs.send_message(QueueUrl=os.environ["DONE_QUEUE_URL"], MessageBody=json.dumps(done))


def parts(body, attributes):
    """A message without an envelope has its state, once it has failed, in an attribute."""
    if "metadata" in body:
        return body["data"], body["metadata"]
    state = json.loads(attributes["Redeliver"]["stringValue"]) if "Redeliver" in attributes else {}
    return body, {"retry_attempt": state.get("retry_attempt", 0)}
