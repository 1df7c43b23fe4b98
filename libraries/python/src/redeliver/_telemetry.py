"""Telemetry: JSON lines on standard output, logs and CloudWatch metrics at once.

"Specification: Embedded metric format", Amazon CloudWatch User Guide. Names and members are those of the Rust
functions: alarms and the dashboard read them.
"""

import contextlib
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from ._settings import Logging
from ._time import rfc3339

Fields = Mapping[str, object]


class Event(NamedTuple):
    """What happened. No payload, no attribute's value, no target's text. Its fields are those of its line."""

    name: str
    fields: Fields
    metrics: Mapping[str, float]
    """Counted or measured, by the metric's name."""
    by: str | None = None
    """The value of the first metric's dimension, if that has one."""


_TOLD: Mapping[str, Literal["at once", "at once unless quiet", "with its batch"]] = {
    "processed": "with its batch",
    "handed_off": "with its batch",
    "retried_immediately": "with its batch",
    "held": "with its batch",
    "probe_failed": "at once unless quiet",
    "circuit_closed": "at once unless quiet",
    "not_confirmed": "at once",
    "circuit_opened": "at once",
    "unreadable_record": "at once",
}
# In the order of a batch's line.
_COUNTERS = (
    "Processed",
    "HandedOff",
    "NotConfirmed",
    "ImmediateRetries",
    "CircuitOpen",
    "Held",
    "Probes",
    "UnreadableRecord",
)
_MEASURES = ("MessageAgeSeconds", "TargetSeconds")
_DIMENSIONS = {"HandedOff": "FailureKind"}
"""Each value of a dimension is a metric that is paid for."""
_VALUES_MAX = 100
"""Values of a metric in one line."""


class Telemetry:
    """What one batch tells."""

    def __init__(
        self, function_name: str, logging: Logging, now: Callable[[], float], write: Callable[[str], object]
    ) -> None:
        self._function_name = function_name
        self._logging = logging
        self._now = now
        self._write = write
        self._counts: dict[str, Counter[str | None]] = {}
        self._values: dict[str, list[float]] = {}
        self._failures: Counter[str] = Counter()

    def observe(self, event: Event) -> None:
        told, is_quiet = _TOLD[event.name], self._logging.level == "WARN"
        if told == "at once" or (told == "at once unless quiet" and not is_quiet):
            level = "WARN" if told == "at once" else "INFO"
            self._line(level, event.name, {**event.fields, **event.metrics}, [_directive(list(event.metrics))])
            return
        self._gather(event)
        if self._logging.detail == "messages" and not is_quiet:
            self._line("INFO", event.name, event.fields, [])

    def flush(self) -> None:
        """The batch is over: a line has one value of each dimension, one error, and so many values."""
        failures = list(self._failures.items())
        number = 0
        while True:
            counted = [(metric, *self._count(metric, number)) for metric in _COUNTERS if self._has(metric, number)]
            values = {
                name: all_of[_VALUES_MAX * number : _VALUES_MAX * (number + 1)] for name, all_of in self._values.items()
            }
            measured = {name: some for name, some in values.items() if some}
            if not counted and not measured and number >= len(failures):
                return
            fields: dict[str, Any] = {metric: count for metric, _, count in counted}
            fields |= {_DIMENSIONS[metric]: by for metric, by, _ in counted if by is not None}
            if number < len(failures):
                fields["error_type"], fields["failures"] = failures[number]
            fields |= {name: some[0] if len(some) == 1 else some for name, some in measured.items()}
            plain = [*(metric for metric, by, _ in counted if by is None), *measured]
            directives = [_directive(plain)] if plain else []
            directives += [_directive([metric]) for metric, by, _ in counted if by is not None]
            self._line("INFO", "batch", fields, directives)
            number += 1

    def _has(self, metric: str, number: int) -> bool:
        return number < len(self._counts.get(metric, ()))

    def _count(self, metric: str, number: int) -> tuple[str | None, int]:
        return list(self._counts[metric].items())[number]

    def _gather(self, event: Event) -> None:
        for metric, value in event.metrics.items():
            if metric in _MEASURES:
                self._values.setdefault(metric, []).append(value)
            else:
                by = event.by if metric in _DIMENSIONS else None
                self._counts.setdefault(metric, Counter())[by] += int(value)
        if event.name == "handed_off":
            self._failures[str(event.fields["error_type"])] += 1

    def _line(self, level: str, event: str, fields: Mapping[str, Any], directives: Sequence[object]) -> None:
        now = self._now()
        head = {"timestamp": rfc3339(now), "level": level, "event": event, "Function": self._function_name}
        aws = {"_aws": {"Timestamp": math.floor(now), "CloudWatchMetrics": directives}} if directives else {}
        # A log that cannot be written must not fail the message.
        with contextlib.suppress(Exception):
            self._write(json.dumps({**head, **_rounded(fields), **aws}, separators=(",", ":")) + "\n")


def _directive(metrics: Sequence[str]) -> object:
    further = next((_DIMENSIONS[metric] for metric in metrics if metric in _DIMENSIONS), None)
    return {
        "Namespace": "Redeliver",
        "Dimensions": [["Function"], *([] if further is None else [["Function", further]])],
        "Metrics": [{"Name": name, "Unit": "Seconds" if name.endswith("Seconds") else "Count"} for name in metrics],
    }


def _rounded(value: Any) -> Any:
    """To milliseconds."""
    if isinstance(value, float):
        return round(value, 3)
    if isinstance(value, Mapping):
        return {name: _rounded(inside) for name, inside in value.items()}
    return [_rounded(inside) for inside in value] if isinstance(value, list) else value
