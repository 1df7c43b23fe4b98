"""Work that blocks, each piece in a thread of its own. None of them is waited for at the process's end."""

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

NAME = "redeliver"


def in_thread(work: Callable[[], Result]) -> "asyncio.Future[Result]":
    """What the work returns; it must not raise. If nobody waits any more, the thread is left alone.

    :raises RuntimeError: if the machine has no thread any more.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Result] = loop.create_future()

    def tell(result: Result) -> None:
        if not future.done():
            future.set_result(result)

    def run() -> None:
        result = work()
        # If the loop is closed nobody waits any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(tell, result)

    # The caller's context variables, as `asyncio.to_thread` has them: tracers keep their spans there.
    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(run,), name=NAME, daemon=True).start()
    return future
