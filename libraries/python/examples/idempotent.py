"""Beside Powertools: a message that comes twice is charged once. All copies of a message have the same key."""

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.persistence.base import BasePersistenceLayer

import redeliver
from redeliver import LambdaHandler, Message


def idempotent(charge: Callable[[Any], None], store: BasePersistenceLayer) -> LambdaHandler:
    """In Lambda the store is ``DynamoDBPersistenceLayer(table_name=…)``."""
    # Longer than a message can come back: with the default policy its retries take 75 minutes, and an outage a day.
    config = IdempotencyConfig(expires_after_seconds=14 * 24 * 3600)

    # The key alone: what else a message has differs from copy to copy.
    @idempotent_function(data_keyword_argument="key", persistence_store=store, config=config)  # type: ignore[untyped-decorator]
    def once(*, key: str, message: Message[Any]) -> None:
        charge(message.data)

    @redeliver.handler
    def handler(message: Message[Any]) -> None:
        # So that a copy does not wait for a call that the function's end has cut off.
        config.register_lambda_context(message.context)
        once(key=message.idempotency_key, message=message)

    return handler
