"""Whatever a handler does: a clear reason, nothing lost, and the other nine records unharmed."""

import asyncio
import builtins
import functools
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

import pytest

from redeliver import Message, PermanentError, RetryAfter, Snooze, Unavailable

from .world import Setup, record, ten

New = Callable[..., Setup]
span: ContextVar[str] = ContextVar("span")


class OrderError(Exception):
    __module__ = "orders"


class OutOfStock(PermanentError):
    __module__ = "orders"


class NoConstructor(RetryAfter):
    __module__ = "orders"

    def __init__(self) -> None:
        self.retry_after_seconds = float("nan")


class Unreadable(Exception):
    __module__ = "orders"

    def __str__(self) -> str:
        raise SystemExit("canary")


class Odd(BaseException):
    __module__ = "orders"

    def __str__(self) -> str:
        return 1  # type: ignore[return-value]


class Nameless(type):
    def __getattribute__(cls, name: str) -> Any:
        if name == "__qualname__":
            raise KeyboardInterrupt("canary")
        return super().__getattribute__(name)


class Hidden(Exception, metaclass=Nameless):
    pass


RAISED: list[tuple[BaseException, str]] = [
    (OrderError("no stock"), "orders.OrderError no stock"),
    (ValueError("no stock"), "ValueError no stock"),
    (KeyError("stock"), "KeyError 'stock'"),
    (OutOfStock("none left"), "orders.OutOfStock none left"),
    (OutOfStock("none left", type="Stock.Out"), "Stock.Out none left"),
    (NoConstructor(), "orders.NoConstructor None"),
    (SystemExit(1), "SystemExit 1"),
    (KeyboardInterrupt(), "KeyboardInterrupt None"),
    (GeneratorExit("x"), "GeneratorExit x"),
    (asyncio.CancelledError("x"), "asyncio.exceptions.CancelledError x"),
    (StopAsyncIteration("x"), "StopAsyncIteration x"),
    (Unreadable(), "orders.Unreadable the error's own text cannot be read"),
    (Odd(), "orders.Odd the error's own text cannot be read"),
    (Hidden(), "UnreadableError the handler raised something that cannot be read"),
    (ValueError("a\ud800b\udc00"), "ValueError a\ufffdb\ufffd"),
    (ValueError("é" * 1_000_000), "ValueError é{300,}…"),
    (ValueError("\0"), "ValueError \ufffd"),
    (PermanentError("x", type="\ud800"), "\ufffd x"),
    (MemoryError(), "MemoryError None"),
    (RecursionError("x"), "RecursionError x"),
]
# Since Python 3.11.
Group: Any = getattr(builtins, "BaseExceptionGroup", None)
if Group is not None:
    two = Group("both", [OrderError("a"), ValueError("b")])
    RAISED += [
        (two, re.escape("ExceptionGroup both (2 sub-exceptions): orders.OrderError: a; ValueError: b")),
        (Group("one", [Group("two", [OutOfStock("none left")])]), "orders.OutOfStock none left"),
        (Group("x", [SystemExit("y")]), "SystemExit y"),
    ]


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("error", "expected"), RAISED, ids=lambda value: type(value).__name__)
def test_whatever_it_raises(new: New, error: BaseException, expected: str, is_async: bool) -> None:
    setup = new()

    def handle(message: Message[Any]) -> None:
        if message.data["n"] == 3:
            raise error

    async def waiting(message: Message[Any]) -> None:
        await asyncio.sleep(0)
        handle(message)

    assert setup.process(ten(), waiting if is_async else handle) == []
    [(n, failure)] = setup.failures().items()
    assert n == "3"
    assert re.fullmatch(expected, f"{failure['type']} {failure.get('details')}")
    assert failure["kind"] == (
        "permanent" if isinstance(error, PermanentError) or "OutOfStock" in expected else "transient"
    )
    assert "retry_after_seconds" not in failure
    assert len(str(setup.queue.confirmed[0].attributes["Failure"].value).encode()) <= 1024
    assert "canary" not in json.dumps([setup.lines, failure])
    assert setup.lines[-1]["Processed"] == 9


def test_stop_iteration_is_an_error_as_any_other(new: New) -> None:
    def handle(_: object) -> None:
        next(iter(()))

    async def waiting(_: object) -> None:
        next(iter(()))

    setup = new()
    setup.process([record(0)], handle)
    setup.process([record(1)], waiting)
    assert setup.told() == {"0": "StopIteration transient", "1": "RuntimeError transient"}


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_what_a_task_of_its_own_raises_ends_no_loop(new: New, error: type[BaseException]) -> None:
    setup = new()

    async def exits() -> None:
        raise error("x")

    async def handle(message: Message[Any]) -> None:
        await asyncio.sleep(0.1)
        if message.data["n"] == 3:
            await asyncio.gather(exits(), asyncio.sleep(0.1))

    assert setup.process(ten(), handle) == []
    assert setup.told() == {"3": f"{error.__name__} transient"}


def test_what_has_only_been_prepared_has_not_been_done(new: New) -> None:
    async def charge(_: object) -> None:
        raise AssertionError("it must not run")

    def forgets(message: object) -> object:
        return charge(message)

    async def forgets_inside(message: object) -> object:
        return charge(message)

    def yields(_: object) -> Iterator[int]:
        yield 1

    async def yields_inside(_: object) -> Any:
        yield 1

    for handle, why in [
        (forgets, "returned a coroutine"),
        (forgets_inside, "returned a coroutine"),
        (yields, "is a generator"),
        (yields_inside, "is a generator"),
    ]:
        setup = new()
        assert setup.process([record(0)], handle) == []
        assert setup.told() == {"0": "NotAwaited transient"}
        assert why in setup.failures()["0"]["details"]


def test_a_handler_may_be_anything_that_can_be_called(new: New) -> None:
    called = []

    class Handler:
        async def __call__(self, message: Message[Any]) -> None:
            called.append(message.message_id)

        async def method(self, message: Message[Any]) -> None:
            called.append(message.message_id)

    async def two(_: object, message: Message[Any]) -> None:
        called.append(message.message_id)

    setup = new()
    for handle in (Handler(), Handler().method, functools.partial(two, 1)):
        assert setup.process([record(0)], handle) == []
    assert (len(called), setup.told()) == (3, {})


def test_a_wrong_argument_of_ours_is_an_error_as_any_other() -> None:
    for make in (lambda value: RetryAfter(value), lambda value: Snooze(value)):
        for wrong in (float("nan"), float("inf"), -1, "5", None, True):
            with pytest.raises(ValueError, match=r"takes a number of seconds, 0 or more"):
                make(wrong)
    with pytest.raises(ValueError, match="Unavailable takes a number"):
        Unavailable(retry_after_seconds=-1)
    assert Unavailable("x").retry_after_seconds is None


@pytest.mark.parametrize(
    ("error", "logged"),
    [
        (OrderError(), "orders.OrderError"),
        (TypeError(), "TypeError"),
        (PermanentError(type="Order.Unknown"), "Order.Unknown"),
        (PermanentError(type="order 4711 of Ms Canary"), "FromTarget"),
        (type("an order of Ms Canary", (Exception,), {})(), "FromTarget"),
    ],
)
def test_an_errors_name_is_logged_only_if_it_is_a_plain_one(new: New, error: Exception, logged: str) -> None:
    setup = new()

    def handle(_: object) -> None:
        raise error

    setup.process([record(0)], handle)
    assert setup.lines[0]["error_type"] == logged


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('{"n":NaN}', "InvalidData permanent"),
        ("[Infinity]", "InvalidData permanent"),
        ("[-Infinity]", "InvalidData permanent"),
        ("{", "InvalidData permanent"),
        ("\ufeff{}", "InvalidData permanent"),
        ('"a\tb"', "InvalidData permanent"),
        ("[" * 100_000, "InvalidData permanent"),
        ("[" * 100_000 + "]" * 100_000, "InvalidData permanent"),
        ("9" * 5000, float("inf")),
        ("1e400", float("inf")),
        ("-0", 0),
        (str(10**30), 10**30),
        ('{"a":1,"a":2}', {"a": 2}),
        (r'"\ud800"', "\ud800"),
        (r'"\ud83d\ude00"', "😀"),
        (" [true, null] ", [True, None]),
    ],
)
def test_what_is_no_json_is_a_permanent_error_but_only_for_who_reads_it(new: New, body: str, expected: object) -> None:
    setup, found = new({"ENVELOPE": "optional"}), []
    one = record(0, body)

    def handle(message: Message[Any]) -> None:
        found.append(message.data)

    assert setup.process([one, *ten()[1:]], handle) == []
    assert list(setup.told().values()) == ([expected] if str(expected).startswith("Invalid") else [])
    assert str(expected).startswith("Invalid") or expected in found
    without = new({"ENVELOPE": "optional"})
    without.process([one], lambda message: message.body)
    assert without.told() == {}


def test_a_machine_without_a_thread_left_fails_the_message_and_no_more(
    new: New, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    start = threading.Thread.start

    def sometimes(thread: threading.Thread) -> None:
        started.append(thread)
        if len(started) == 4:
            raise RuntimeError("can't start new thread")
        start(thread)

    setup = new()
    monkeypatch.setattr(threading.Thread, "start", sometimes)
    assert setup.process(ten(), lambda message: message.data) == []
    assert setup.told() == {"3": "RuntimeError transient"}


def test_what_one_handler_knows_of_its_context_is_there_in_its_thread(new: New) -> None:
    setup, found = new(), []
    span.set("invocation")
    assert setup.process(ten(), lambda _: found.append(span.get())) == []
    assert found == ["invocation"] * 10
