"""The one door to the time of day. Waiting is the event loop's."""

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Milliseconds since 1970."""


def system_clock() -> float:
    """To the microsecond."""
    return time.time_ns() // 1000 / 1000


def keep_free(reserve: float, now: float, deadline: float) -> float:
    """When to end so that ``reserve`` is left before the deadline, but never more than half of what remains."""
    return deadline - min(reserve, max(0.0, deadline - now) / 2)
