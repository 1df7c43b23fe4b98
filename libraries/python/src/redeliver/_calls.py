"""The calls to the handler.

Bounded concurrency, the circuit breaker before each, a guard around each, at once again after a blip, and an end before
the deadline.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

from ._accept import Accepted
from ._clock import Clock
from ._errors import TIMEOUT
from ._guard import Guarded
from ._message import Message
from ._permits import Failed, Held, NotStarted, Outcome, Permits, Permitted
from ._policy import Policy, retries_at_once
from ._telemetry import Event, Telemetry

_CUT_OFF = 100
"""Milliseconds before all calls are cut off, so that a further call is left in time."""
_BETWEEN_LOOKS = 0.1
"""Seconds between two looks at a breaker that another batch keeps waiting."""
_TURNS = 5
"""Of the event loop, until a call that has come back is heard."""


class Call(NamedTuple):
    """An outcome, and how long the target took, retries at once included."""

    outcome: Outcome
    seconds: float


class Calling(NamedTuple):
    """All that the calls of a batch need."""

    handle: Guarded
    context: Any
    policy: Policy
    permits: Permits
    clock: Clock
    telemetry: Telemetry
    max_concurrency: int
    end: float
    """When the calls end."""


async def call_all(calling: Calling, accepted: Sequence[Accepted]) -> list[Call]:
    """Calls the handler for every message, so many at a time, as far as the circuit breaker allows.

    One call's failure or hanging is its own. At the end what still runs is cut off as ``Timeout``, and nothing is
    started any more.
    """
    return await _Calls(calling, accepted).run()


class _Calls:
    def __init__(self, calling: Calling, accepted: Sequence[Accepted]) -> None:
        self._calling = calling
        self._accepted = accepted
        self._calls: dict[int, Call] = {}
        self._running: dict[int, tuple[_OneCall, asyncio.Task[Call]]] = {}
        # Whose turn has come is below it: so a call that was cut off, which may have had its effect, is known from one
        # that never began.
        self._next = 0
        self._probe: int | None = None
        self._started_at = calling.clock()

    async def run(self) -> list[Call]:
        clock, end = self._calling.clock, self._calling.end
        while True:
            looks_again = self._start()
            now = clock()
            if not self._running and self._next == len(self._accepted):
                break
            if now >= end:
                # A call that has come back counts, also at the very end: what a handler has blocked is heard first.
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                self._hear()
                break
            # A call of another batch may tell, whose end wakes nobody here.
            patience = min(_BETWEEN_LOOKS, (end - now) / 1000) if looks_again else (end - now) / 1000
            await _first_of([task for _, task in self._running.values()], patience)
            self._hear()
        down_since = self._cut_off()
        return [self._calls.get(index) or self._of_cut_off(index, down_since) for index in range(len(self._accepted))]

    def _start(self) -> bool:
        """What may begin now; whether the breaker wants to be asked again."""
        while len(self._running) < self._calling.max_concurrency and self._next < len(self._accepted):
            asked = self._calling.permits.ask(self._accepted[self._next])
            if asked == "wait":
                return True
            if isinstance(asked, Held):
                self._calls[self._next] = Call(asked, 0)
            else:
                self._probe = self._next if asked.is_probe else self._probe
                call = _OneCall(self._calling, self._accepted[self._next])
                self._running[self._next] = (call, asyncio.create_task(call.run(asked)))
            self._next += 1
        return False

    def _hear(self) -> None:
        for index, (_, task) in list(self._running.items()):
            if task.done():
                del self._running[index]
                self._calls[index] = task.result()

    def _cut_off(self) -> float | None:
        """What was cut off has its outcome: what it says later is too late."""
        for call, task in self._running.values():
            call.cut_off()
            task.cancel()
        return self._calling.permits.open_since

    def _of_cut_off(self, index: int, down_since: float | None) -> Call:
        seconds = max(0.0, self._calling.clock() - self._started_at) / 1000
        if index in self._running:
            is_probe = down_since is not None and self._probe == index
            return Call(Held(down_since, TIMEOUT) if is_probe and down_since is not None else Failed(TIMEOUT), seconds)
        return Call(NotStarted() if down_since is None else Held(down_since), 0)


class _OneCall:
    """The call of one message, and those at once after it."""

    def __init__(self, calling: Calling, accepted: Accepted) -> None:
        self._calling = calling
        self._accepted = accepted
        self._permitted: Permitted | None = None

    async def run(self, permitted: Permitted) -> Call:
        """Until it is done, the blips that the policy allows are over, or no time remains."""
        clock = self._calling.clock
        since = clock()
        # A call whose turn comes too late would be cut off at once, and spend an attempt for nothing.
        if since >= self._calling.end:
            permitted.give_back()
            return Call(NotStarted(), 0)
        outcome = await self._at_once(await self._call(permitted))
        return Call(outcome, max(0.0, clock() - since) / 1000)

    async def _at_once(self, outcome: Outcome) -> Outcome:
        _, _, policy, permits, clock, telemetry, _, end = self._calling
        made = 0
        while isinstance(outcome, Failed):
            # Judged anew each time: the last call may have met another error, one that is no blip.
            again = retries_at_once(policy, outcome.error)
            if again is None or made >= again.max_attempts or clock() + again.delay >= end - _CUT_OFF:
                break
            await asyncio.sleep(again.delay / 1000)
            # The target has gone down meanwhile, or is just back and has as many calls as it gets: the error that is
            # known is worth more than waiting.
            asked = permits.ask(self._accepted)
            if not isinstance(asked, Permitted):
                break
            metadata = self._accepted.metadata
            telemetry.observe(
                Event(
                    "retried_immediately",
                    {
                        "message_id": metadata.message_id,
                        "retry_attempt": metadata.retry_attempt,
                        "error_type": outcome.error.loggable,
                    },
                    {"ImmediateRetries": 1},
                )
            )
            further = await self._in_time(asked)
            outcome = outcome if further is None else further
            made += 1
        return outcome

    def cut_off(self) -> None:
        """The invocation ends: whatever it still says, nobody hears."""
        if self._permitted is not None:
            self._permitted.cut_off()

    async def _in_time(self, permitted: Permitted) -> Outcome | None:
        """A further call that the end cuts off does not count: the error that is known is better than a ``Timeout``."""
        call = asyncio.create_task(self._call(permitted))
        try:
            await _first_of([call], (self._calling.end - _CUT_OFF - self._calling.clock()) / 1000)
            if call.done():
                return call.result()
            self.cut_off()
            return None
        finally:
            call.cancel()

    async def _call(self, permitted: Permitted) -> Outcome:
        """One call, and what it says of the target."""
        self._permitted = permitted
        clock, end = self._calling.clock, self._calling.end
        message: Message[Any] = Message(self._accepted, self._calling.context, lambda: max(0.0, end - clock()))
        return permitted.record(await self._calling.handle(message))


async def _first_of(tasks: Sequence["asyncio.Task[Any]"], seconds: float) -> None:
    """Until one of them is done, or for so long."""
    if tasks:
        await asyncio.wait(tasks, timeout=max(0.0, seconds), return_when=asyncio.FIRST_COMPLETED)
    else:
        await asyncio.sleep(seconds)
