"""``metadata`` of an envelope, and what ``Redeliver`` is beside a plain body: the rules of message.schema.json."""

import re
from typing import NamedTuple, NoReturn

from ._json import Child, children_of, digits_of, loads, member, string_of
from ._text import is_well_formed
from ._time import parse_rfc3339


class Metadata(NamedTuple):
    message_id: str
    """As the producer wrote it: a hyphenated UUID."""
    retry_attempt: int = 0
    redrive_generation: int = 0
    first_sent_time: float | None = None
    snooze_count: int = 0
    held_since: float | None = None
    held_seconds: int = 0
    redrive_count: int = 0


class CameBack(NamedTuple):
    """It came back from the final DLQ as it was."""

    generation_before: int | None
    """Of the final record, if there is one."""


class InvalidMessage(Exception):
    """A message is not what it has to be; the text has no value of it."""


_UUID = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)
_GENERATION_MAX = 100
_COUNTS = {
    "max_attempts": 1000,
    "retry_attempt": 1000,
    "snooze_count": 100,
    "redrive_generation": _GENERATION_MAX,
    "held_seconds": 1_210_500,
    "redrive_count": 1000,
}
_TIMES = ("expires_at", "next_retry_time", "first_sent_time", "held_since")


def is_uuid(text: str) -> bool:
    return _UUID.fullmatch(text) is not None


def read_metadata(of: list[Child], at: str) -> Metadata:
    """``at`` is where the object stands, for people."""

    def wrong(name: str, rule: str) -> NoReturn:
        raise InvalidMessage(f"{at}/{name} {rule}")

    def count(name: str, most: int) -> int:
        text = member(of, name)
        value = 0 if text is None else digits_of(text, most)
        return wrong(name, f"is not an integer from 0 to {most}, written in digits") if value is None else value

    def time(name: str) -> float | None:
        text = member(of, name)
        value = None if text is None else _time_of(text)
        return wrong(name, "is not a time as RFC 3339 has it") if text is not None and value is None else value

    counts = {name: count(name, most) for name, most in _COUNTS.items()}
    times = {name: time(name) for name in _TIMES}
    history = member(of, "retry_history")
    if history is not None and not _is_history(history):
        wrong("retry_history", "is not a list of up to 5 failures")
    message_id = string_of(member(of, "message_id")) or ""
    return Metadata(
        message_id=message_id if is_uuid(message_id) else wrong("message_id", "is not a hyphenated UUID"),
        retry_attempt=counts["retry_attempt"],
        redrive_generation=counts["redrive_generation"],
        first_sent_time=times["first_sent_time"],
        snooze_count=counts["snooze_count"],
        held_since=times["held_since"],
        held_seconds=counts["held_seconds"],
        redrive_count=counts["redrive_count"],
    )


def in_its_generation(metadata: Metadata, came_back: CameBack | None) -> Metadata:
    """Until its next re-send a message that came back says of itself what was true of the generation before."""
    if came_back is None:
        return metadata
    before = max(metadata.redrive_generation, came_back.generation_before or 0)
    return Metadata(metadata.message_id, redrive_generation=min(before + 1, _GENERATION_MAX))


def first_sent(metadata: Metadata, sent_at: float) -> float:
    """When it was first sent, by what it says if that is believed: after a re-send, and not later than it was sent."""
    was_sent_again = (
        metadata.retry_attempt > 0
        or metadata.snooze_count > 0
        or metadata.held_seconds > 0
        or metadata.redrive_count > 0
    )
    first = metadata.first_sent_time
    return first if was_sent_again and first is not None and first <= sent_at else sent_at


def held_since(metadata: Metadata, sent_at: float) -> float | None:
    """Since when it is held, if that is believed of a delivery that was sent then."""
    since = metadata.held_since
    return since if since is not None and metadata.held_seconds > 0 and since <= sent_at else None


def _time_of(text: str) -> float | None:
    said = string_of(text)
    return None if said is None else parse_rfc3339(said)


def _is_history(text: str) -> bool:
    if not text.startswith("["):
        return False
    entries = children_of(text)
    return len(entries) <= 5 and not _has_lone_surrogate(loads(text)) and all(_is_past_failure(one) for one in entries)


def _is_past_failure(entry: Child) -> bool:
    of = children_of(entry.text)

    def is_short(name: str, most: int) -> bool:
        said = string_of(member(of, name))
        return said is not None and len(said) <= most

    return (
        entry.text.startswith("{")
        and digits_of(member(of, "attempt"), 1000) is not None
        and _time_of(member(of, "failed_at") or "") is not None
        and is_short("error_type", 128)
        and is_short("error_details", 256)
    )


def _has_lone_surrogate(value: object) -> bool:
    if isinstance(value, str):
        return not is_well_formed(value)
    if isinstance(value, dict):
        return any(_has_lone_surrogate(name) or _has_lone_surrogate(inside) for name, inside in value.items())
    return isinstance(value, list) and any(_has_lone_surrogate(inside) for inside in value)
