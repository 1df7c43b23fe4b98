"""A retry policy, read from its text."""

from typing import Any

from ._json import SPACE, children_of, has_twice, loads
from ._policy import CircuitBreaker, Immediate, Policy

_OPENS_ON = ("Http.*", "HttpStatus.429", "HttpStatus.5*", "Lambda.*", "Sandbox.Timedout", "Timeout")
_PRESETS = tuple(f"durable_{name}" for name in ("default", "none", "transient", "resource_availability", "critical"))
_BREAKER = (
    "failure_rate",
    "minimum_calls",
    "window_seconds",
    "probe_interval_seconds",
    "probe_interval_seconds_max",
    "opens_on",
    "hold_seconds_max",
)


def read_policy(text: str) -> Policy:
    """:raises ValueError: with all that is wrong with it, each with its JSON Pointer."""
    try:
        document = loads(text)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON; it takes the policy itself, not a file's name") from None
    reader = _Reader()
    of = reader.object(document, "") or {}
    reader.stand_twice(text.strip(SPACE), "")
    policy = Policy(
        circuit_breaker=reader.breaker(of),
        immediate=reader.immediate(of),
        retryable=reader.globs(of, "retryable", ""),
        non_retryable=reader.globs(of, "non_retryable", ""),
    )
    for index, glob in enumerate(policy.non_retryable or ()):
        if glob in (policy.retryable or ()):
            reader.wrong(f"/non_retryable/{index}", "stands in retryable too")
    if "preset" in of and of["preset"] not in _PRESETS:
        reader.wrong("/preset", f"is none of {', '.join(_PRESETS)}")
    if reader.found:
        raise ValueError(f"is refused: {'; '.join(reader.found)}")
    return policy


class _Reader:
    def __init__(self) -> None:
        self.found: list[str] = []

    def wrong(self, pointer: str, rule: str) -> None:
        self.found.append(f"{pointer or 'it'} {rule}")

    def stand_twice(self, text: str, pointer: str) -> None:
        """Of two members a parser keeps the last one, but which was meant is anyone's guess."""
        children = children_of(text)
        if has_twice(children):
            self.wrong(pointer, "has a member that stands twice")
        for child in children:
            self.stand_twice(child.text, f"{pointer}/{child.name}")

    def breaker(self, document: dict[str, Any]) -> CircuitBreaker | None:
        at = "/circuit_breaker"
        written = document.get("circuit_breaker", {})
        of = None if written is False else self.object(written, at)
        if of is None:
            return None

        def number(name: str, otherwise: int, least: int, most: int) -> int:
            value = self.number(of, name, at, least, most)
            return otherwise if value is None else int(value)

        rate = self.number(of, "failure_rate", at, 0.01, 1, is_whole=False)
        breaker = CircuitBreaker(
            failure_rate=0.8 if rate is None else rate,
            minimum_calls=number("minimum_calls", 10, 1, 1000),
            window=1000 * number("window_seconds", 30, 1, 3600),
            probe_interval=1000 * number("probe_interval_seconds", 15, 1, 600),
            probe_interval_max=1000 * number("probe_interval_seconds_max", 120, 1, 600),
            opens_on=self.globs(of, "opens_on", at) or _OPENS_ON,
            hold_max=1000 * number("hold_seconds_max", 86_400, 60, 1_209_600),
        )
        self.others(of, _BREAKER, at)
        if breaker.probe_interval > breaker.probe_interval_max:
            name = "probe_interval_seconds" if "probe_interval_seconds" in of else "probe_interval_seconds_max"
            self.wrong(f"{at}/{name}", "makes the first probe interval longer than the longest")
        return breaker

    def immediate(self, document: dict[str, Any]) -> Immediate | None:
        at = "/immediate"
        of = self.object(document["immediate"], at) if "immediate" in document else None
        if of is None:
            return None
        for name in ("max_attempts", "delay_ms"):
            if name not in of:
                self.wrong(f"{at}/{name}", "is missing")
        self.others(of, ("max_attempts", "delay_ms"), at)
        attempts = self.number(of, "max_attempts", at, 1, 10)
        return Immediate(int(attempts or 1), self.number(of, "delay_ms", at, 0, 10_000) or 0)

    def globs(self, of: dict[str, Any], name: str, at: str) -> tuple[str, ...] | None:
        if name not in of:
            return None
        pointer, written = f"{at}/{name}", of[name]
        texts = [glob for glob in written if isinstance(glob, str)] if isinstance(written, list) else []
        if not isinstance(written, list) or written == [] or len(set(texts)) < len(texts):
            self.wrong(pointer, "is not a list of different globs")
            return None
        for index, glob in enumerate(written):
            if not isinstance(glob, str) or not 1 <= len(glob) <= 128:
                self.wrong(f"{pointer}/{index}", "is not a glob of 1 to 128 characters")
        return tuple(texts)

    def object(self, value: object, pointer: str) -> dict[str, Any] | None:
        if isinstance(value, dict):
            return value
        self.wrong(pointer, "must be an object")
        return None

    def number(
        self, of: dict[str, Any], name: str, at: str, least: float, most: float, *, is_whole: bool = True
    ) -> float | None:
        if name not in of:
            return None
        value = of[name]
        # To Python `true` is a number.
        if isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= most:
            number: float = value
            if not is_whole or number == int(number):
                return number
        self.wrong(f"{at}/{name}", f"is not a {'whole ' if is_whole else ''}number from {least} to {most}")
        return None

    def others(self, of: dict[str, Any], known: tuple[str, ...], at: str) -> None:
        for name in of:
            if name not in known:
                self.wrong(f"{at}/{name}", "is unknown")
