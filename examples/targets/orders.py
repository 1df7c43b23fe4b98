"""A Lambda target in Python: it is invoked with the message, once for each attempt."""


class InvalidOrder(Exception):
    """Never going to work: name it in the policy's `non_retryable`."""


def handler(event, context):
    key = event["metadata"]["message_id"]
    attempt = event["metadata"].get("retry_attempt", 0)
    order = event["data"]
    if order["cents"] <= 0:
        raise InvalidOrder(f"order {order['order']} costs nothing")
    charge(order, idempotency_key=key)
    print(f"charged {key} in attempt {attempt}")


def charge(order, idempotency_key):
    """Whatever it raises is tried again, by the policy."""
