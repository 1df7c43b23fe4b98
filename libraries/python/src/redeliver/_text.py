"""Text that SQS accepts, cut to a number of bytes."""

import re
from collections.abc import Callable

_ELLIPSIS = "…"
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f]")
# Compiled only for a text that has one: Python takes milliseconds for such ranges.
_ILLEGAL = "[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]"

ERROR_TYPE_BYTES_MAX = 128
"""Bytes of an error's name anywhere it is written."""

WHITE_SPACE = (
    "\t\n\x0b\x0c\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)
"""As Unicode has it. Python's own adds four control characters."""


def bytes_of(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def is_well_formed(text: str) -> bool:
    """Whether UTF-8 can hold it: Python's texts may have lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def has_illegal(text: str) -> bool:
    """Whether SQS refuses a character of it ("SendMessage", Amazon SQS API Reference); it refuses surrogates, too."""
    return _CONTROL.search(text) is not None or not is_well_formed(text) or "\ufffe" in text or "\uffff" in text


def clean(text: str, bytes_max: int) -> str:
    """The text in at most so many bytes, what SQS refuses replaced by U+FFFD, an ellipsis if it was cut."""
    # No character has less than a byte, so nothing behind these can stay: an error's text may have 2 MB.
    legal = text[: bytes_max + 1]
    if has_illegal(legal):
        legal = re.sub(_ILLEGAL, "\ufffd", legal)
    if len(text) <= bytes_max and bytes_of(legal) <= bytes_max:
        return legal
    room = bytes_max - bytes_of(_ELLIPSIS)
    if room < 0:
        return ""
    # What is cut in two at the end is no character any more.
    return legal.encode()[:room].decode(errors="ignore") + _ELLIPSIS


def largest_fitting(wanted: int, fits: Callable[[int], bool]) -> int | None:
    """The largest number up to ``wanted`` that fits, found by halving the distance; none if not even 0 does."""
    if fits(wanted):
        return wanted
    if not fits(0):
        return None
    good, bad = 0, wanted
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(middle) else (good, middle)
    return good
