"""The entry of a Lambda function, around a handler of one message."""

import functools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ._batch import BatchResponse, World, process_batch
from ._guard import Handle, guarded

Result = TypeVar("Result")

LambdaHandler = Callable[[Any, Any], BatchResponse]
"""What Lambda calls, with an event and a context."""

HANDLE = "__redeliver_handle__"
"""The member by which the testing helper finds the handler of one message."""

_INVOCATION_MAX = 900_000
"""Milliseconds of the longest invocation of Lambda."""


def handler_in(
    world: Callable[[], World], run: Callable[[Coroutine[Any, Any, BatchResponse]], BatchResponse], handle: Handle
) -> LambdaHandler:
    call = guarded(handle)

    def lambda_handler(event: Any, context: Any = None) -> BatchResponse:
        here = world()
        remaining = getattr(context, "get_remaining_time_in_millis", lambda: _INVOCATION_MAX)()
        return run(process_batch(here, call, event, context, here.clock() + remaining))

    # Its name and its words, but not its signature: it is called in another way.
    functools.update_wrapper(lambda_handler, handle)
    del lambda_handler.__wrapped__  # type: ignore[attr-defined]
    lambda_handler.__annotations__ = {}
    setattr(lambda_handler, HANDLE, handle)
    return lambda_handler
