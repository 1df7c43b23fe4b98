"""With Pydantic, as Powertools' parser has it: an order that is none is given up at once, and says why."""

from collections.abc import Callable
from typing import Any

from aws_lambda_powertools.utilities.parser import ValidationError, parse
from pydantic import BaseModel

import redeliver
from redeliver import LambdaHandler, Message, PermanentError


class Order(BaseModel):
    id: str
    amount: int


def parsed(charge: Callable[[Order], None]) -> LambdaHandler:
    @redeliver.handler
    def handler(message: Message[Any]) -> None:
        try:
            order = parse(event=message.data, model=Order)
        except ValidationError as error:
            wrong = [".".join(str(name) for name in one["loc"]) for one in error.errors()]
            raise PermanentError(f"no order: {', '.join(wrong)}", type="Order.Invalid") from error
        charge(order)

    return handler
