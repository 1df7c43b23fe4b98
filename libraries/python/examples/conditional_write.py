"""In DynamoDB: a result is written only if no copy has written it. For work that may run twice, but counts once."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import redeliver
from redeliver import LambdaHandler, Message


class Table(Protocol):
    """``boto3.resource("dynamodb").Table(…)``, whose partition key is ``id``."""

    def put_item(self, *, Item: Mapping[str, Any], ConditionExpression: str) -> object: ...


def written_once(table: Table, result_of: Callable[[Any], Mapping[str, Any]]) -> LambdaHandler:
    @redeliver.handler
    def handler(message: Message[Any]) -> None:
        item = {"id": message.idempotency_key, **result_of(message.data)}
        try:
            table.put_item(Item=item, ConditionExpression="attribute_not_exists(id)")
        except Exception as error:
            if not is_there(error):
                raise

    return handler


def is_there(error: Exception) -> bool:
    response: Any = getattr(error, "response", {})
    return bool(response.get("Error", {}).get("Code") == "ConditionalCheckFailedException")
