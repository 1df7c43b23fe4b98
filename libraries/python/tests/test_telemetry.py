"""The lines of logs and metrics: names and members are those of the Rust functions."""

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from redeliver import Message, PermanentError, Unavailable
from redeliver._settings import Logging
from redeliver._telemetry import _TOLD, Event, Telemetry

from .world import START, Setup, id_of, record, ten

New = Callable[..., Setup]


async def down(_: object) -> None:
    raise Unavailable("canary")


def metrics(line: dict[str, Any]) -> list[object]:
    return [
        (directive["Dimensions"], [f"{one['Name']} {one['Unit']}" for one in directive["Metrics"]])
        for directive in line["_aws"]["CloudWatchMetrics"]
    ]


def test_a_batch_is_one_line_and_a_line_more_for_each_further_kind_of_error(new: New) -> None:
    setup = new({"AWS_LAMBDA_FUNCTION_NAME": "orders"})

    async def handle(message: Message[Any]) -> None:
        await asyncio.sleep(0.25)
        if message.data["n"] < 3:
            raise PermanentError(type="Order.Unknown") if message.data["n"] == 0 else TypeError("canary")

    setup.process(ten(), handle)
    first, second = setup.lines
    measured = {name: first.pop(name) for name in ("_aws", "MessageAgeSeconds", "TargetSeconds")}
    assert first == {
        "timestamp": "2026-07-25T17:20:00.250000Z",
        "level": "INFO",
        "event": "batch",
        "Function": "orders",
        "Processed": 7,
        "HandedOff": 1,
        "FailureKind": "permanent",
        "error_type": "Order.Unknown",
        "failures": 1,
    }
    assert (measured["MessageAgeSeconds"], measured["TargetSeconds"]) == ([1.25] * 10, [0.25] * 7)
    assert measured["_aws"]["Timestamp"] == START + 250
    assert metrics(measured) == [
        ([["Function"]], ["Processed Count", "MessageAgeSeconds Seconds", "TargetSeconds Seconds"]),
        ([["Function"], ["Function", "FailureKind"]], ["HandedOff Count"]),
    ]
    assert measured["_aws"]["CloudWatchMetrics"][0]["Namespace"] == "Redeliver"
    members = ("HandedOff", "FailureKind", "error_type", "failures")
    assert [second[name] for name in members] == [2, "transient", "TypeError", 2]
    assert "canary" not in json.dumps(setup.lines)


def test_a_line_has_at_most_a_hundred_values_of_a_metric(new: New) -> None:
    setup = new()

    async def handle(_: object) -> None: ...

    setup.process([record(number) for number in range(250)], handle)
    assert [len(line["TargetSeconds"]) for line in setup.lines] == [100, 100, 50]
    assert [line.get("Processed") for line in setup.lines] == [250, None, None]


def test_each_message_has_a_line_if_that_is_asked_for_and_none_if_it_must_be_quiet(new: New) -> None:
    async def handle(message: Message[Any]) -> None:
        if message.data["n"] == 0:
            raise TypeError

    setup, quiet = new({"LOG_DETAIL": "messages"}), new({"LOG_DETAIL": "messages", "LOG_LEVEL": "WARN"})
    setup.process([record(0), record(1)], handle)
    quiet.process([record(0), record(1)], handle)
    assert setup.events() == ["processed", "handed_off", "batch"]
    processed = {
        name: setup.lines[0][name] for name in ("message_id", "retry_attempt", "age_seconds", "target_seconds")
    }
    assert processed == {"message_id": id_of(1), "retry_attempt": 0, "age_seconds": 1, "target_seconds": 0}
    assert setup.lines[1]["kind"] == "transient"
    assert quiet.events() == ["batch"]


def test_an_outage_has_one_line_when_it_begins_and_its_messages_one_a_batch(new: New) -> None:
    setup = new({"LOG_LEVEL": "WARN"})
    setup.process(ten(), down)
    setup.process(ten(), down)
    [opened] = [line for line in setup.lines if line["event"] == "circuit_opened"]
    members = ("level", "calls", "outages", "error_type", "CircuitOpen")
    assert [opened[name] for name in members] == ["WARN", 10, 10, "Unavailable", 1]
    assert 11.25 <= opened["probe_in_seconds"] <= 15
    batch = setup.lines[-1]
    of_batch = ("event", "HandedOff", "FailureKind", "Held", "CircuitOpen", "error_type")
    assert [batch.get(name) for name in of_batch] == ["batch", None, None, 10, 1, None]


METRICS: dict[str, dict[str, float]] = {
    "processed": {"Processed": 1, "MessageAgeSeconds": 1.5, "TargetSeconds": 0.25},
    "handed_off": {"HandedOff": 1, "MessageAgeSeconds": 2.5},
    "retried_immediately": {"ImmediateRetries": 1},
    "held": {"Held": 3, "CircuitOpen": 1},
    "probe_failed": {"Probes": 1, "CircuitOpen": 1},
    "circuit_closed": {"Probes": 1},
    "not_confirmed": {"NotConfirmed": 1},
    "circuit_opened": {"CircuitOpen": 1},
    "unreadable_record": {"UnreadableRecord": 1},
}


def sums_of(lines: list[dict[str, Any]]) -> dict[str, float]:
    sums: Counter[str] = Counter()
    for line in lines:
        for directive in line.get("_aws", {}).get("CloudWatchMetrics", []):
            for name in (metric["Name"] for metric in directive["Metrics"]):
                sums[name] += sum(line[name]) if isinstance(line[name], list) else line[name]
    return dict(sums)


@pytest.mark.parametrize("detail", ["batches", "messages"])
@pytest.mark.parametrize("level", ["INFO", "WARN"])
def test_metrics_are_the_same_whatever_is_logged(detail: str, level: str) -> None:
    def told(names: list[str]) -> dict[str, float]:
        lines: list[str] = []
        telemetry = Telemetry("orders", Logging(detail, level), lambda: START, lines.append)
        for name in names:
            fields = {"error_type": "Timeout"} if name == "handed_off" else {}
            telemetry.observe(Event(name, fields, METRICS[name], "transient" if name == "handed_off" else None))
        telemetry.flush()
        return sums_of([json.loads(line) for line in lines])

    assert set(METRICS) == set(_TOLD)
    for name, metrics_of_one in METRICS.items():
        assert told([name]) == metrics_of_one
    expected: Counter[str] = Counter()
    for metrics_of_one in METRICS.values():
        expected.update(metrics_of_one)
    assert told(list(METRICS)) == dict(expected)


def test_a_probe_has_a_line_of_its_own_unless_it_must_be_quiet() -> None:
    def events(level: str) -> list[str]:
        lines: list[str] = []
        telemetry = Telemetry("orders", Logging("batches", level), lambda: START, lines.append)
        telemetry.observe(Event("probe_failed", {}, METRICS["probe_failed"]))
        telemetry.flush()
        return [json.loads(line)["event"] for line in lines]

    assert (events("INFO"), events("WARN")) == (["probe_failed"], ["batch"])
