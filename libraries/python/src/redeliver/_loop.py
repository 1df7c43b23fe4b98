"""The event loops in which batches are processed."""

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class Loops:
    """One, as a rule: what a handler keeps for its next invocation, such as a connection, belongs to a loop."""

    def __init__(self) -> None:
        self._idle: list[asyncio.AbstractEventLoop] = []

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        loop = self._idle.pop() if self._idle else asyncio.new_event_loop()
        try:
            return run_in(loop, work)
        finally:
            self._idle.append(loop)

    def __del__(self) -> None:
        for loop in self._idle:
            loop.close()


def run_in(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> Result:
    if asyncio._get_running_loop() is None:
        return _until_complete(loop, work)
    # Who calls us, such as a test that is `async def`, runs a loop in this thread already.
    outcome: list[Result | BaseException] = []
    thread = threading.Thread(target=lambda: outcome.append(_caught(loop, work)), daemon=True)
    thread.start()
    thread.join()
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


def _caught(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> Result | BaseException:
    try:
        return _until_complete(loop, work)
    except BaseException as error:
        return error


def _until_complete(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Result]) -> Result:
    task = loop.create_task(work)
    while True:
        try:
            return loop.run_until_complete(task)
        except (KeyboardInterrupt, SystemExit):
            # A task of the handler's own has raised it: that ends a loop, but not the other nine messages.
            if task.done():
                raise
