"""A batch: each record's outcome is its own, and nothing is lost."""

import asyncio
import json
import re
import threading
from collections.abc import Callable
from typing import Any

import pytest

from redeliver import Attribute, Message, PermanentError, RetryAfter, Snooze, Unavailable
from redeliver._breaker import Permit
from redeliver._permits import Permitted
from redeliver._record import records_of

from .world import START, FakeQueue, Setup, envelope, id_of, record, refused, ten

New = Callable[..., Setup]
IMMEDIATE = {"max_attempts": 2, "delay_ms": 100}
HELD = {"held_seconds": 60, "held_since": "2026-07-25T17:00:00.000001Z"}


class Busy(Exception):
    __module__ = "db"


def busy(_: object = None) -> None:
    raise Busy("come later")


async def down(_: object) -> None:
    raise Unavailable("down")


def test_what_a_handler_says_is_what_is_handed_off_and_the_others_are_done(new: New) -> None:
    setup = new()
    answers = [
        None,
        Busy("come later"),
        PermanentError("no such order"),
        RetryAfter(1.5, "soon", type="Http.429"),
        Snooze(60),
        Unavailable("down", retry_after_seconds=30),
    ]

    def handle(message: Message[Any]) -> None:
        answer = answers[message.data["n"]]
        if answer is not None:
            raise answer

    assert setup.process(ten()[:6], handle) == []
    members = ("type", "details", "kind", "retry_after_seconds")
    assert [[failure.get(name) for name in members] for failure in setup.failures().values()] == [
        ["db.Busy", "come later", "transient", None],
        ["PermanentError", "no such order", "permanent", None],
        ["Http.429", "soon", "transient", 2],
        ["Snooze", None, "snooze", 60],
        ["Unavailable", "down", "transient", 30],
    ]


def test_the_handler_gets_the_message_and_cannot_change_what_is_handed_off(new: New) -> None:
    setup = new()
    attributes = {
        "text": {"dataType": "String", "stringValue": "odd"},
        "bytes": {"dataType": "Binary", "binaryValue": "AP8="},
    }
    body = envelope(1, {"retry_attempt": 2, "redrive_generation": 3})
    one = record(1, body, messageAttributes=attributes)

    def handle(message: Message[Any]) -> None:
        found = (message.message_id, message.idempotency_key, message.retry_attempt, message.redrive_generation)
        assert found == (id_of(1), id_of(1), 2, 3)
        assert message.data == {"n": 1}
        assert message.data is message.data
        assert message.record is one
        assert message.remaining_time_in_millis() == 25_000
        assert message.attributes == {"text": Attribute("String", "odd"), "bytes": Attribute("Binary", b"\0\xff")}
        message.attributes.clear()
        message.data["n"] = 2
        message.body = "changed"
        one["body"] = "changed"
        raise Busy

    setup.process([one], handle)
    [sent] = setup.queue.confirmed
    assert (sent.body, list(sent.attributes)) == (body, ["text", "bytes", "Failure"])
    assert setup.told() == {"1": "db.Busy transient"}


def test_a_record_that_cannot_be_read_is_reported_and_an_invalid_message_is_handed_off(new: New) -> None:
    binary = {"dataType": "Binary"}
    broken = [
        record(0, ""),
        record(1, attributes={"SentTimestamp": "x"}),
        record(2, messageAttributes={"a": {**binary, "stringValue": "x"}}),
        record(3, "a\ud800"),
        record(4, eventSourceARN=""),
        record(5, messageAttributes={"a": {**binary, "binaryValue": "!"}}),
        record(6, messageAttributes={"a": None}),
        record(7, attributes=None),
        record(8, attributes={"SentTimestamp": "9" * 5000}),
        record(9, "not JSON"),
        record(10, envelope(10, {"retry_attempt": "1"})),
        record(11),
        record(12, messageAttributes=None),
        record(13, '{"metadata":{},"data":' + "[" * 100_000),
    ]
    setup, called = new(), []
    failed = setup.process(broken, lambda message: called.append(message.message_id))
    assert failed == sorted(f"sqs-{number}" for number in range(9))
    assert sorted(called) == [id_of(11), id_of(12)]
    assert list(setup.told().values()) == ["InvalidMessage permanent"] * 3
    why = "/metadata/retry_attempt is not an integer from 0 to 1000, written in digits"
    assert setup.failures()["10"]["details"] == why
    assert setup.events().count("unreadable_record") == 9


@pytest.mark.parametrize("event", [None, {}, [], {"Records": 1}, {"Records": None}])
def test_what_is_no_event_of_sqs_fails_as_a_whole(event: Any) -> None:
    with pytest.raises(ValueError, match="expected an SQS event"):
        records_of(event)


def test_a_record_without_an_id_could_not_be_reported(new: New) -> None:
    with pytest.raises(ValueError, match="record 1 of the event has no messageId"):
        new().process([record(0), record(1, messageId="")], busy)


def test_ten_attributes_leave_no_place_for_the_reason_and_the_record_is_reported(new: New) -> None:
    attributes = {f"a{number}": {"dataType": "String", "stringValue": "x"} for number in range(10)}
    setup = new()
    assert setup.process([record(0, messageAttributes=attributes), record(1)], busy) == ["sqs-0"]
    assert setup.told() == {"1": "db.Busy transient"}
    assert [line["code"] for line in setup.lines if line["event"] == "not_confirmed"] == ["NoPlaceForFailure"]


def test_one_mebibyte_leaves_no_place_and_a_little_less_one_for_the_bare_bones(new: New) -> None:
    def body(size: int) -> str:
        return envelope(0, data={"n": 0, "x": "x" * (size - len(envelope(0, data={"n": 0, "x": ""})))})

    def long(_: object) -> None:
        raise ValueError("x" * 2000)

    assert new().process([record(0, body(1_048_576 - 10))], busy) == ["sqs-0"]
    assert new().process([record(0, body(1_048_576 - 270))], long) == []
    tight = new()
    assert tight.process([record(0, body(1_048_576 - 330))], long) == []
    assert re.fullmatch("x+…", tight.failures()["0"]["details"])
    [sent] = tight.queue.confirmed
    assert len(str(sent.attributes["Failure"].value).encode()) + len("FailureString") == 330


@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_that_never_ends_is_cut_off_and_what_was_not_started_is_said_so(new: New, is_async: bool) -> None:
    setup = new({"MAX_CONCURRENCY": "1", "RETRY_POLICY": '{"circuit_breaker":false}'})
    cancelled = []

    async def hangs(message: Message[Any]) -> None:
        if message.data["n"] == 2:
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(2)

    def blocks(message: Message[Any]) -> None:
        if message.data["n"] == 2:
            setup.clock.wait_for(threading.Event())

    assert setup.process(ten(), hangs if is_async else blocks) == []
    assert setup.clock.seconds == 25
    rest = {str(number): "NotStarted not_started" for number in range(3, 10)}
    assert setup.told() == {"2": "Timeout transient", **rest}
    assert cancelled == ([2] if is_async else [])


def test_three_at_a_time_a_hung_record_holds_up_nobody_else(new: New) -> None:
    setup = new({"MAX_CONCURRENCY": "3"})

    def handle(message: Message[Any]) -> None:
        if message.data["n"] == 2:
            setup.clock.wait_for(threading.Event())
        if message.data["n"] == 5:
            setup.clock.sleep(24)

    assert setup.process(ten(), handle) == []
    assert (setup.told(), setup.clock.seconds) == ({"2": "Timeout transient"}, 25)


def test_what_is_said_after_the_cut_off_is_too_late_and_harms_nothing(new: New) -> None:
    setup, late = new(), threading.Event()

    def handle(message: Message[Any]) -> None:
        if message.data["n"] == 0:
            setup.clock.wait_for(late)
            raise ValueError("too late")

    setup.process([record(0)], handle)
    late.set()
    setup.process([record(1)], handle)
    assert setup.told() == {"0": "Timeout transient"}


def test_a_coroutine_that_does_not_let_itself_be_cancelled_holds_nobody_up(new: New) -> None:
    setup, end = new(), asyncio.Event()

    async def stubborn(_: object) -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    setup.process([record(0)], stubborn)
    assert (setup.told(), setup.clock.seconds) == ({"0": "Timeout transient"}, 25)
    end.set()
    setup.run(asyncio.sleep(1))


def test_a_coroutine_that_blocks_the_loop_leaves_the_others_not_started(new: New) -> None:
    setup = new({"MAX_CONCURRENCY": "4"})

    async def handle(message: Message[Any]) -> None:
        if message.data["n"] == 1:
            setup.clock.block(26)

    setup.process(ten(), handle)
    assert setup.told() == {str(number): "NotStarted not_started" for number in range(2, 10)}


def test_a_short_invocation_keeps_half_of_it_for_the_sends(new: New) -> None:
    setup = new()
    setup.process([record(0)], lambda _: setup.clock.wait_for(threading.Event()), 4)
    assert setup.clock.seconds == 2


@pytest.mark.parametrize(
    ("policy", "blips", "error", "expected"),
    [
        ({}, 2, Busy, (3, "done", 0.2)),
        ({}, 9, Busy, (3, "db.Busy transient", 0.2)),
        ({"non_retryable": ["db.*"]}, 9, Busy, (1, "db.Busy transient", 0)),
        ({"retryable": ["Http.*"]}, 9, Busy, (1, "db.Busy transient", 0)),
        ({"retryable": ["?b.B*"]}, 9, Busy, (3, "db.Busy transient", 0.2)),
        ({}, 9, PermanentError, (1, "PermanentError permanent", 0)),
        ({}, 9, lambda: RetryAfter(1), (1, "RetryAfter transient", 0)),
    ],
)
def test_a_blip_is_called_again_at_once_as_often_as_the_policy_says(
    new: New, policy: dict[str, Any], blips: int, error: Callable[[], Exception], expected: object
) -> None:
    setup, calls = new({"RETRY_POLICY": json.dumps({"immediate": IMMEDIATE, **policy})}), []

    def handle(_: object) -> None:
        calls.append(1)
        if len(calls) <= blips:
            raise error()

    setup.process([record(0)], handle)
    assert (len(calls), setup.told().get("0", "done"), setup.clock.seconds) == expected


@pytest.mark.parametrize("is_async", [False, True])
def test_a_further_call_that_is_cut_off_does_not_count(new: New, is_async: bool) -> None:
    setup, calls = new({"RETRY_POLICY": json.dumps({"immediate": IMMEDIATE})}), []

    def first_fails() -> None:
        calls.append(1)
        if len(calls) == 1:
            raise Busy

    def blocks(_: object) -> None:
        first_fails()
        setup.clock.wait_for(threading.Event())

    async def hangs(_: object) -> None:
        first_fails()
        await asyncio.Event().wait()

    setup.process([record(0)], hangs if is_async else blocks)
    assert (len(calls), setup.told(), setup.clock.seconds) == (2, {"0": "db.Busy transient"}, 24.9)


def test_a_blip_near_the_end_is_not_called_again(new: New) -> None:
    setup, calls = new({"RETRY_POLICY": json.dumps({"immediate": IMMEDIATE})}), []

    async def handle(_: object) -> None:
        calls.append(1)
        await asyncio.sleep(4.85)
        raise Busy

    setup.process([record(0)], handle, seconds=10)
    assert (len(calls), setup.told(), setup.clock.seconds) == (1, {"0": "db.Busy transient"}, 4.85)


def test_a_handler_runs_in_a_thread_that_holds_up_no_process(new: New) -> None:
    threads: list[threading.Thread] = []
    new().process([record(0)], lambda _: threads.append(threading.current_thread()))
    [thread] = threads
    assert (thread.daemon, thread is threading.main_thread()) == (True, False)


def test_a_target_that_is_down_is_not_called_and_a_probe_finds_it_back(new: New) -> None:
    setup, calls = new(), []

    async def counted(message: Message[Any]) -> None:
        calls.append(message.message_id)
        await down(message)

    setup.process(ten(), counted)
    [opened] = [line for line in setup.lines if line["event"] == "circuit_opened"]
    assert opened["outages"] == 10
    setup.process(ten(), counted)
    assert (len(calls), setup.told()["0"]) == (10, "CircuitOpen held")
    since = "not called: the target has been down since 2026-07-25T17:20:00.000000Z"
    assert setup.failures()["0"]["details"] == since
    setup.clock.block(15)
    setup.process(ten(), counted)
    # One probe, and it was this side's question.
    assert (len(calls), setup.told()["0"], setup.told()["1"]) == (11, "Unavailable held", "CircuitOpen held")
    setup.clock.block(30)
    before = len(setup.queue.confirmed)
    setup.process(ten(), lambda message: calls.append(message.message_id))
    # A slow start, and all are done.
    assert (len(calls), len(setup.queue.confirmed)) == (21, before)
    told = [event for event in setup.events() if event != "batch"]
    assert told == ["circuit_opened", "probe_failed", "circuit_closed"]


def test_an_environment_that_has_just_begun_learns_of_an_outage_by_a_message_that_was_held(new: New) -> None:
    setup, calls = new(), []

    async def counted(message: Message[Any]) -> None:
        calls.append(message.message_id)
        await down(message)

    setup.process([record(0, envelope(0, HELD)), record(1), record(2)], counted)
    assert calls == [id_of(0)]
    assert setup.told() == {"0": "Unavailable held", "1": "CircuitOpen held", "2": "CircuitOpen held"}
    assert setup.failures()["1"]["details"].endswith("17:00:00.000001Z")
    # What was held for as long as it may be is called whatever is known.
    setup.process([record(3, envelope(3, {"held_seconds": 86_400}))], counted)
    assert setup.told()["3"] == "Unavailable transient"


def test_the_earliest_moment_counts_that_held_messages_tell_and_none_of_long_ago(new: New) -> None:
    setup, calls = new(), []

    async def counted(message: Message[Any]) -> None:
        calls.append(message.message_id)
        await down(message)

    later = {"held_seconds": 60, "held_since": "2026-07-25T17:10:00Z"}
    setup.process([record(0, envelope(0, later)), record(1, envelope(1, HELD)), record(2)], counted)
    assert setup.failures()["2"]["details"].endswith("17:00:00.000001Z")
    # The longest delay, and as long on the queue.
    sent = {"SentTimestamp": str(START - 1_800_000), "ApproximateReceiveCount": "1"}
    setup, calls = new(), []
    before = {"held_seconds": 60, "held_since": "2026-07-25T16:40:00Z"}
    setup.process([record(0, envelope(0, before), attributes=sent), record(1)], counted)
    assert (len(calls), setup.told()["1"]) == (2, "Unavailable transient")


def test_a_permit_is_used_once() -> None:
    told: list[object] = []
    permitted = Permitted(Permit(0, False), lambda _, error: told.append(error), lambda _: told.append("given back"))
    permitted.record(None)
    permitted.cut_off()
    permitted.give_back()
    assert told == [None]


def test_a_probe_that_hangs_is_held_and_so_is_what_waits_for_it(new: New) -> None:
    setup = new()
    setup.process([record(0, envelope(0, HELD)), record(1)], lambda _: setup.clock.wait_for(threading.Event()))
    assert setup.told() == {"0": "Timeout held", "1": "CircuitOpen held"}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_batch_that_has_grown_large_is_called_so_many_at_a_time_and_packed(new: New, is_async: bool) -> None:
    setup = new({"MAX_CONCURRENCY": "7", "RETRY_POLICY": '{"circuit_breaker":false}'})
    running: set[str] = set()
    most = []

    async def waits(message: Message[Any]) -> None:
        running.add(message.message_id)
        most.append(len(running))
        await asyncio.sleep(0.01)
        running.remove(message.message_id)
        raise Busy

    def blocks(message: Message[Any]) -> None:
        running.add(message.message_id)
        most.append(len(running))
        setup.clock.sleep(0.01)
        running.remove(message.message_id)
        raise Busy

    failed = setup.process([record(number) for number in range(95)], waits if is_async else blocks)
    assert (failed, max(most), len(setup.queue.confirmed)) == ([], 7, 95)
    assert [len(request) for request in setup.queue.requests] == [10] * 9 + [5]


def test_a_send_that_is_refused_is_reported_and_only_that(new: New) -> None:
    setup = new({}, FakeQueue([None, refused("AccessDenied"), None]))
    assert setup.process(ten()[:3], busy) == ["sqs-1"]
    assert [line["code"] for line in setup.lines if line["event"] == "not_confirmed"] == ["AccessDenied"]
    assert setup.lines[-1]["HandedOff"] == 2
