"""Delayed retries of SQS messages for your own Lambda function.

A handler of one message takes the message-processor's place::

    import redeliver

    @redeliver.handler
    def handler(message: redeliver.Message[Order]) -> None:
        charge(message.data, message.idempotency_key)

What it raises says what is to be done with the message: see :class:`PermanentError`, :class:`RetryAfter`,
:class:`Snooze` and :class:`Unavailable`. Any other exception is retried by the policy.
"""

import os
import sys
from collections.abc import Callable
from typing import Any, overload

from ._attributes import Attribute
from ._batch import BatchResponse, ItemFailure, World
from ._breaker import Breaker
from ._clock import system_clock
from ._errors import PermanentError, RetryAfter, Snooze, Unavailable
from ._guard import Handle
from ._handler import LambdaHandler, handler_in
from ._loop import Loops
from ._message import Message
from ._settings import read_settings
from ._sqs import SqsClient, SqsQueue, new_client

__all__ = [
    "Attribute",
    "BatchResponse",
    "Handle",
    "ItemFailure",
    "LambdaHandler",
    "Message",
    "PermanentError",
    "RetryAfter",
    "Snooze",
    "SqsClient",
    "Unavailable",
    "handler",
]


@overload
def handler(handle: Handle, /) -> LambdaHandler: ...
@overload
def handler(*, client: SqsClient | None = None) -> Callable[[Handle], LambdaHandler]: ...
def handler(
    handle: Handle | None = None, /, *, client: SqsClient | None = None
) -> LambdaHandler | Callable[[Handle], LambdaHandler]:
    """The Lambda function of a queue, around a handler of one message: ``def`` or ``async def``.

    ``def`` runs in a thread of its own, ``async def`` in one event loop that all invocations share. In Lambda the
    settings are read at once, and all that is wrong with them is said in one error; elsewhere, as in a test that only
    imports the module, with the first event.

    :param client: instead of an SQS client of our own. It should ask once (``total_max_attempts`` of 1): what can be
        tried again is tried again here.
    :raises ValueError: in Lambda, if the settings are not right.
    :raises TypeError: if it is given anything but a function.
    """
    if handle is None:
        return lambda handle: _handler(handle, client)
    return _handler(handle, client)


def _handler(handle: Handle, client: SqsClient | None) -> LambdaHandler:
    if not callable(handle):
        raise TypeError("redeliver.handler takes a handler of one message, such as `def handle(message): …`")
    made: list[World] = []

    def world() -> World:
        if not made:
            made.append(_new_world(client))
        return made[0]

    if os.environ.get("AWS_LAMBDA_FUNCTION_NAME"):
        world()
    return handler_in(world, Loops().run, handle)


def _new_world(client: SqsClient | None) -> World:
    settings = read_settings(os.environ)
    breaker = None if settings.policy.circuit_breaker is None else Breaker(settings.policy.circuit_breaker)
    queue = SqsQueue(new_client() if client is None else client, settings.intermediate_dlq_url)
    return World(settings, queue, system_clock, breaker, _write)


def _write(line: str) -> Any:
    # In one piece, since handlers print in other threads. Not by `logging`: CloudWatch would find no metrics behind
    # the words that it writes before them.
    sys.stdout.write(line)
    sys.stdout.flush()
