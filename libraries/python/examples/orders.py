"""The same with redeliver: retries over hours, with a reason, and an outage costs none of them."""

from typing import TypedDict

import redeliver
from redeliver import Message, PermanentError, Unavailable


class Order(TypedDict):
    id: str


@redeliver.handler
def handler(message: Message[Order]) -> None:
    answer = charge(message.data, message.idempotency_key)
    if answer == "unknown":
        raise PermanentError("no such order", type="Order.Unknown")
    if answer == "down":
        raise Unavailable("the payment service is down")


def charge(order: Order, key: str) -> str:
    """The payment service."""
    return order["id"]
