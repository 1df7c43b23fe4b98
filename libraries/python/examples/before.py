"""A function as it often is: every failure comes back at once, three times, and dies without a word."""

import json
from typing import Any


def handler(event: dict[str, Any], context: object) -> dict[str, Any]:
    failures = []
    for record in event["Records"]:
        try:
            charge(json.loads(record["body"]))
        except Exception as error:
            print(error)
            failures.append({"itemIdentifier": record["messageId"]})
    return {"batchItemFailures": failures}


def charge(order: dict[str, Any]) -> None:
    """The payment service."""
