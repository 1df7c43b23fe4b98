"""The work of the recipes, which is yours: they call it with each message's body."""


class CardDeclined(Exception):
    """Never going to work: `"non_retryable": ["*CardDeclined*"]` in the policy."""


class InsufficientFunds(Exception):
    """Perhaps tomorrow."""


def charge(order):
    cents = sum(order["cents"])
    if order["card"] == "declined":
        raise CardDeclined(f"the card of order {order['id']} is declined")
    if cents > order["funds"]:
        raise InsufficientFunds(f"order {order['id']} needs {cents} cents")
