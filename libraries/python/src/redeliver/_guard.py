"""One call of a handler, whatever it does: nothing comes out but an error's description, or nothing."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from ._errors import HandlerError, error_of, ours
from ._message import Message
from ._threads import in_thread

Handle = Callable[[Message[Any]], object]
Guarded = Callable[[Message[Any]], Awaitable[HandlerError | None]]


def guarded(handle: Handle) -> Guarded:
    """``async def`` runs in the event loop, and everything else in a thread of its own, since it may block."""
    return _in_loop(handle) if is_async(handle) else _in_thread(handle)


def is_async(handle: Handle) -> bool:
    return inspect.iscoroutinefunction(handle) or inspect.iscoroutinefunction(type(handle).__call__)


def _in_loop(handle: Any) -> Guarded:
    async def call(message: Message[Any]) -> HandlerError | None:
        try:
            return _why_not_done(await handle(message))
        except BaseException as raised:
            return error_of(raised)

    return call


def _in_thread(handle: Handle) -> Guarded:
    def blocking(message: Message[Any]) -> HandlerError | None:
        try:
            return _why_not_done(handle(message))
        except BaseException as raised:
            return error_of(raised)

    async def call(message: Message[Any]) -> HandlerError | None:
        try:
            thread = in_thread(lambda: blocking(message))
        except RuntimeError as raised:
            return error_of(raised)
        return await thread

    return call


def _why_not_done(returned: object) -> HandlerError | None:
    """What has only been prepared has not been done: to take it for done would lose the message."""
    is_awaitable = inspect.isawaitable(returned)
    if not is_awaitable and not inspect.isgenerator(returned) and not inspect.isasyncgen(returned):
        return None
    close = getattr(returned, "close", None)
    if close is not None:
        # Python would warn that it was never awaited.
        close()
    if is_awaitable:
        return ours(
            "NotAwaited", "the handler returned a coroutine that nobody awaits: write `async def` and `await` it"
        )
    return ours("NotAwaited", "the handler is a generator, of which nothing has run: remove its `yield`")
