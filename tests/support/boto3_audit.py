"""Counts the messages of a queue by error type, like a straightforward script.

boto3_audit.py URL  receives ten messages at a time until none arrives, and makes them visible again
"""

import collections
import json
import sys

import boto3


def audit(sqs, url):
    by_error_type = collections.Counter()
    seen = {}
    while True:
        messages = sqs.receive_message(
            QueueUrl=url, MaxNumberOfMessages=10, WaitTimeSeconds=1, VisibilityTimeout=600, MessageAttributeNames=["All"]
        ).get("Messages", [])
        if not messages:
            break
        for message in messages:
            attribute = message.get("MessageAttributes", {}).get("ErrorType", {})
            by_error_type[attribute.get("StringValue", "UNANNOTATED")] += 1
            seen[message["MessageId"]] = message["ReceiptHandle"]
    handles = list(seen.values())
    for start in range(0, len(handles), 10):
        entries = [
            {"Id": str(index), "ReceiptHandle": handle, "VisibilityTimeout": 0}
            for index, handle in enumerate(handles[start : start + 10])
        ]
        sqs.change_message_visibility_batch(QueueUrl=url, Entries=entries)
    print(json.dumps({"total": len(seen), "by_error_type": by_error_type}))


if __name__ == "__main__":
    audit(boto3.client("sqs"), sys.argv[1])
