"""What a handler raises, and what is made of it."""

import builtins
import math
import re
from typing import Literal, NamedTuple

from ._text import clean

Kind = Literal["transient", "permanent", "snooze", "unavailable"]
WrittenKind = Literal["transient", "permanent", "snooze"]

_NAME_MAX = 1024
_TEXT_MAX = 4096
"""Characters, far more than the document takes."""
_SHOWN_OF_GROUP = 5
_PLAIN_NAME = re.compile(r"[\w.$-]{1,128}", re.ASCII)
# Python 3.11 has them; before that there are none, except those of a package.
_GROUP: type = getattr(builtins, "BaseExceptionGroup", type(None))


class Answered(Exception):
    """What is the same in each of the library's errors."""

    _kind: Kind
    # A subclass may forget to call us.
    error_type: str | None = None
    retry_after_seconds: float | None = None

    def __init__(self, message: str, error_type: str | None, retry_after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.error_type = error_type
        self.retry_after_seconds = retry_after_seconds

    def _checked(self, seconds: float) -> float:
        if not _is_seconds(seconds):
            raise ValueError(f"{type(self).__name__} takes a number of seconds, 0 or more")
        return seconds


class PermanentError(Answered):
    """Do not retry: the message goes to the final DLQ as ``NON_RETRYABLE_ERROR``.

    :param message: for people. It goes into the message, cut to about 800 bytes, and never into logs.
    :param type: what the policy's lists match on, and what is logged: a name that stands in your source, such as
        ``Order.Unknown``. By default the class's name.
    """

    _kind = "permanent"

    def __init__(self, message: str = "", *, type: str | None = None) -> None:
        super().__init__(message, type)


class RetryAfter(Answered):
    """Retry, but not before so many seconds. It spends an attempt.

    :raises ValueError: if the seconds are no number, less than 0, or infinite.
    """

    _kind = "transient"

    def __init__(self, seconds: float, message: str = "", *, type: str | None = None) -> None:
        super().__init__(message, type, self._checked(seconds))


class Snooze(Answered):
    """Not yet: come back after so many seconds, without spending an attempt; at most 100 times.

    :raises ValueError: if the seconds are no number, less than 0, or infinite.
    """

    _kind = "snooze"

    def __init__(self, seconds: float, message: str = "", *, type: str | None = None) -> None:
        super().__init__(message, type, self._checked(seconds))


class Unavailable(Answered):
    """What the handler needs is down: a retry as after any other error, and an outage for the circuit breaker.

    :raises ValueError: if the seconds are no number, less than 0, or infinite.
    """

    _kind = "unavailable"

    def __init__(self, message: str = "", *, retry_after_seconds: float | None = None, type: str | None = None) -> None:
        after = None if retry_after_seconds is None else self._checked(retry_after_seconds)
        super().__init__(message, type, after)


class HandlerError(NamedTuple):
    """Why a message is not done."""

    type: str
    """The whole name."""
    details: str
    kind: Kind
    retry_after_seconds: float | None
    loggable: str
    """The name as it may stand in logs: no text that a target or a message has said."""


def ours(error_type: str, details: str, kind: Kind = "transient") -> HandlerError:
    return HandlerError(error_type, details, kind, None, error_type)


TIMEOUT = ours("Timeout", "the target did not answer before the invocation's end")
"""Of a call that the invocation's end cut off."""


def error_of(raised: BaseException) -> HandlerError:
    """Whatever it is: a handler can raise anything, also what raises when it is looked at."""
    try:
        return _read(raised)
    except BaseException:
        return ours("UnreadableError", "the handler raised something that cannot be read")


def _read(raised: BaseException) -> HandlerError:
    raised = _only(raised)
    name = _name(raised)
    kind: Kind = "transient"
    after: float | None = None
    if isinstance(raised, Answered):
        kind, after = raised._kind, raised.retry_after_seconds if _is_seconds(raised.retry_after_seconds) else None
    # A class's name stands in a program's source.
    loggable = name if _PLAIN_NAME.fullmatch(name) else "FromTarget"
    return HandlerError(name, _text(raised), kind, after, loggable)


def _only(raised: BaseException) -> BaseException:
    """A task group puts even one error into a group: what it says is what counts."""
    while isinstance(raised, _GROUP) and len(raised.exceptions) == 1:  # type: ignore[attr-defined]
        raised = raised.exceptions[0]  # type: ignore[attr-defined]
    return raised


def _name(raised: BaseException) -> str:
    """Of the library's errors the class's own or ``type``; of all others with their module, as Python shows them."""
    of = type(raised)
    said = raised.error_type if isinstance(raised, Answered) else None
    is_known = of.__module__ == "builtins" or of in (PermanentError, RetryAfter, Snooze, Unavailable)
    name = said or (of.__qualname__ if is_known else f"{of.__module__}.{of.__qualname__}")
    # Lists are matched on all of it, and somebody may have written a book.
    return clean(str(name)[:_NAME_MAX], 4 * _NAME_MAX)


def _text(raised: BaseException) -> str:
    if not isinstance(raised, _GROUP):
        return _own_text(raised)
    inside: tuple[BaseException, ...] = raised.exceptions[:_SHOWN_OF_GROUP]  # type: ignore[attr-defined]
    return f"{_own_text(raised)}: " + "; ".join(f"{_name(one)}: {_own_text(one)}" for one in inside)


def _own_text(raised: BaseException) -> str:
    try:
        return str.__str__(str(raised))[:_TEXT_MAX]
    except BaseException:
        return "the error's own text cannot be read"


def kind_of(error: HandlerError) -> WrittenKind:
    """For the document: that it was an outage is for the breaker alone."""
    return "transient" if error.kind == "unavailable" else error.kind


def whole_seconds(seconds: float | None) -> int | None:
    """Rounded up: a floor must not be undercut. No more than every language can read."""
    return None if seconds is None else min(math.ceil(seconds), 2**53 - 1)


def _is_seconds(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < math.inf
