"""The recipes call `charge` with each message's body: replace it with your code."""


class CardDeclined(Exception):
    """Permanent, by `"non_retryable": ["*CardDeclined*"]` in the policy."""


class InsufficientFunds(Exception):
    """A retry may succeed."""


def charge(order):
    cents = sum(order["cents"])
    if order["card"] == "declined":
        raise CardDeclined(f"the card of order {order['id']} is declined")
    if cents > order["funds"]:
        raise InsufficientFunds(f"order {order['id']} needs {cents} cents")
