"""A Lambda target in Python, invoked with the message once per attempt."""


class InvalidOrder(Exception):
    """Permanent: list it in the policy's `non_retryable`."""


def handler(event, context):
    key = event["metadata"]["message_id"]
    attempt = event["metadata"].get("retry_attempt", 0)
    order = event["data"]
    if order["cents"] <= 0:
        raise InvalidOrder(f"order {order['order']} costs nothing")
    charge(order, idempotency_key=key)
    print(f"charged {key} in attempt {attempt}")


def charge(order, idempotency_key):
    """Any other exception is retried by the policy."""
