"""What a retry policy says to who calls the target: its breaker, its calls at once, its lists.

All else is the failed-message-processor's, which checks the whole policy.
"""

from typing import Literal, NamedTuple

from ._errors import HandlerError, WrittenKind, kind_of
from ._text import ERROR_TYPE_BYTES_MAX, clean


class CircuitBreaker(NamedTuple):
    """In the words of Resilience4j; times in milliseconds."""

    failure_rate: float
    minimum_calls: int
    window: float
    probe_interval: float
    probe_interval_max: float
    opens_on: tuple[str, ...]
    hold_max: float


class Immediate(NamedTuple):
    """Calls at once after the first one."""

    max_attempts: int
    delay: float
    """Milliseconds."""


class Policy(NamedTuple):
    circuit_breaker: CircuitBreaker | None
    immediate: Immediate | None
    retryable: tuple[str, ...] | None
    non_retryable: tuple[str, ...] | None


Met = Literal["answer", "outage"]
"""What a call that failed says of the target: it is there, whatever it thinks of the message, or it is not."""


def met(policy: Policy, error: HandlerError) -> Met:
    """Only what would be tried again can be an outage: of all else the policy says that the message is at fault."""
    is_listed = policy.circuit_breaker is not None and _matches_one(policy.circuit_breaker.opens_on, error.type)
    is_transient = _classify(policy, error.type, kind_of(error)) == "transient"
    return "outage" if (error.kind == "unavailable" or is_listed) and is_transient else "answer"


def retries_at_once(policy: Policy, error: HandlerError) -> Immediate | None:
    """How the target is called again at once, if its error is a blip by the lists and asked for no delay of its own."""
    kind = _classify(policy, clean(error.type, ERROR_TYPE_BYTES_MAX), kind_of(error))
    return policy.immediate if error.retry_after_seconds is None and kind == "transient" else None


def may_be_held(policy: Policy, held_seconds: int) -> bool:
    """Whether a message that was held for so long may be held once more."""
    return policy.circuit_breaker is None or held_seconds * 1000 < policy.circuit_breaker.hold_max


def _classify(policy: Policy, error_type: str, kind: WrittenKind) -> WrittenKind:
    # A snooze is no error, so a list of errors says nothing of it.
    if kind == "snooze":
        return kind
    if policy.non_retryable is not None and _matches_one(policy.non_retryable, error_type):
        return "permanent"
    # The name of an error of which nobody could say why: it is in no list of answers.
    if policy.retryable is None or error_type == "Redrive":
        return kind
    return "transient" if _matches_one(policy.retryable, error_type) else "permanent"


def _matches_one(globs: tuple[str, ...], text: str) -> bool:
    return any(_matches(glob, text) for glob in globs)


def _matches(glob: str, text: str) -> bool:
    """``*`` is any text, ``?`` one character. The last star takes more if what is behind it does not fit."""
    in_glob, in_text, star, taken = 0, 0, -1, 0
    while in_text < len(text):
        character = glob[in_glob] if in_glob < len(glob) else ""
        if character == "*":
            star, taken = in_glob, in_text
            in_glob += 1
        elif character in ("?", text[in_text]):
            in_glob += 1
            in_text += 1
        elif star >= 0:
            taken += 1
            in_glob, in_text = star + 1, taken
        else:
            return False
    return glob[in_glob:].strip("*") == ""
