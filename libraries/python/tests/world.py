"""A function in a world of its own: virtual time, a queue that answers as told, and lines that can be read."""

import asyncio
import json
import selectors
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from redeliver._batch import World, process_batch
from redeliver._breaker import Breaker
from redeliver._guard import guarded
from redeliver._loop import run_in
from redeliver._sending import EntryError, EntryOutcome, Outgoing
from redeliver._settings import read_settings
from redeliver._threads import NAME

Result = TypeVar("Result")

START = 1_785_000_000_000
"""2026-07-25T17:20:00Z, when everything begins."""

_REALLY_SECONDS = 20
"""A test that waits for so long in the real world waits for ever."""


class VirtualClock(asyncio.SelectorEventLoop):
    """An event loop whose time goes on when nothing else does: neither a task nor a handler's thread."""

    def __init__(self) -> None:
        self._virtual = 0.0
        self._asleep: dict[threading.Thread, threading.Event] = {}
        super().__init__(_Selector(self))

    def time(self) -> float:
        return self._virtual

    def __call__(self) -> float:
        return START + round(1000 * self._virtual, 3)

    @property
    def seconds(self) -> float:
        return round(self._virtual, 6)

    def block(self, seconds: float) -> None:
        """Time passes while nobody is asked: a handler that blocks the loop."""
        self._virtual += seconds

    def sleep(self, seconds: float) -> None:
        """A handler's own sleep, in its thread."""
        self.wait_for(threading.Event(), seconds)

    def wait_for(self, event: threading.Event, seconds: float | None = None) -> None:
        """For ever, if nobody sets it."""
        thread = threading.current_thread()

        def wake() -> None:
            self._asleep.pop(thread, None)
            event.set()

        def begin() -> None:
            self._asleep[thread] = event
            if seconds is not None:
                self.call_later(seconds, wake)

        self.call_soon_threadsafe(begin)
        assert event.wait(_REALLY_SECONDS)

    def close(self) -> None:
        for thread, event in self._asleep.items():
            event.set()
            thread.join(_REALLY_SECONDS)
        super().close()

    def is_busy(self) -> bool:
        """Whether a thread is at work, which may tell something."""
        ours = [thread for thread in threading.enumerate() if thread.name == NAME]
        return any(thread not in self._asleep and thread.is_alive() for thread in ours)


class _Selector(selectors.DefaultSelector):
    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> Any:
        # In this order: what a thread has told before it ended is there.
        is_busy = self._clock.is_busy()
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if is_busy:
            return super().select(0.01)
        assert timeout is not None, "nobody sleeps, and the work is not over"
        self._clock.block(max(0.0, timeout))
        return []


class FakeQueue:
    """Takes everything, unless told what to answer: to its n-th request, or never."""

    def __init__(self, *answers: Sequence[EntryOutcome] | type["Never"] | None) -> None:
        self.requests: list[Sequence[Outgoing]] = []
        self.confirmed: list[Outgoing] = []
        self._answers = answers

    async def send(self, entries: Sequence[Outgoing]) -> Sequence[EntryOutcome]:
        self.requests.append(entries)
        number = len(self.requests) - 1
        answer = self._answers[number] if number < len(self._answers) else None
        if answer is Never:
            await asyncio.Event().wait()
        outcomes: Sequence[EntryOutcome] = [None] * len(entries) if answer is None else answer  # type: ignore[assignment]
        self.confirmed += [entry for entry, outcome in zip(entries, outcomes, strict=False) if outcome is None]
        return outcomes


class Never:
    """No answer."""


def id_of(number: int) -> str:
    return f"6f1c0d3e-8a55-4c8e-9a3f-{number:012}"


def envelope(number: int, metadata: Mapping[str, Any] | None = None, data: Any = None) -> str:
    named = {"message_id": id_of(number), **(metadata or {})}
    return json.dumps({"metadata": named, "data": {"n": number} if data is None else data}, separators=(",", ":"))


def record(number: int, body: str | None = None, **more: Any) -> dict[str, Any]:
    """As Lambda writes it."""
    return {
        "messageId": f"sqs-{number}",
        "body": envelope(number) if body is None else body,
        "messageAttributes": {},
        "attributes": {"SentTimestamp": str(START - 1000), "ApproximateReceiveCount": "1"},
        "eventSourceARN": "arn:aws:sqs:eu-central-1:000000000000:source",
        **more,
    }


def ten() -> list[dict[str, Any]]:
    return [record(number) for number in range(10)]


def refused(code: str) -> EntryError:
    return EntryError("refused", code)


class Setup:
    """One environment of a function."""

    def __init__(self, settings: Mapping[str, str] | None = None, queue: FakeQueue | None = None) -> None:
        read = read_settings({"INTERMEDIATE_DLQ_URL": "https://sqs.invalid/0/intermediate", **(settings or {})})
        breaker = None if read.policy.circuit_breaker is None else Breaker(read.policy.circuit_breaker)
        self.clock = VirtualClock()
        self.lines: list[dict[str, Any]] = []
        self.queue = queue or FakeQueue()
        self.world = World(read, self.queue, self.clock, breaker, lambda line: self.lines.append(json.loads(line)))

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return run_in(self.clock, work)

    def process(
        self, records: Sequence[Mapping[str, Any]], handle: Callable[[Any], object], seconds: float = 30
    ) -> list[str]:
        """The ids of the records reported as failed."""
        deadline = self.clock() + 1000 * seconds
        answer = self.run(process_batch(self.world, guarded(handle), {"Records": records}, None, deadline))
        # What was cut off hears of it.
        self.run(asyncio.sleep(0))
        return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]

    def failures(self) -> dict[str, dict[str, Any]]:
        """``Failure`` of each message that was handed off, by its body's ``n`` or its body."""
        return {_n_of(sent.body): json.loads(str(sent.attributes["Failure"].value)) for sent in self.queue.confirmed}

    def told(self) -> dict[str, str]:
        """``type kind`` of each."""
        return {n: f"{failure.get('type')} {failure['kind']}" for n, failure in self.failures().items()}

    def events(self) -> list[str]:
        return [line["event"] for line in self.lines]


def _n_of(body: str) -> str:
    try:
        return str(json.loads(body)["data"]["n"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return body
