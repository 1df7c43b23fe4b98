"""The hand-off in the attribute ``Failure``: why a message failed. Byte for byte as the Rust functions write it."""

import json
from typing import Literal, NamedTuple

from ._attributes import ATTRIBUTES_MAX, FAILURE, MESSAGE_BYTES_MAX, Attribute, Attributes, size_of
from ._metadata import CameBack
from ._text import ERROR_TYPE_BYTES_MAX, bytes_of, clean, largest_fitting
from ._time import rfc3339

FAILURE_BYTES_MAX = 1024
"""Bytes of the document."""

FailureKind = Literal["transient", "permanent", "snooze", "not_started", "held"]


class HandOff(NamedTuple):
    type: str
    """The error's name."""
    details: str
    """For people."""
    kind: FailureKind
    retry_after_seconds: int | None = None


class Delivery(NamedTuple):
    """The delivery that failed."""

    failed_at: float
    source_message_id: str
    source_queue_arn: str
    sent_at: float
    came_back: CameBack | None


def attached(hand_off: HandOff, delivery: Delivery, producers: Attributes, body_bytes: int) -> Attributes | None:
    """The producer's attributes and the document, its texts cut to the room that is left.

    None if it has no place: ten attributes, or not even its bare bones within the size limit.
    """
    left = MESSAGE_BYTES_MAX - body_bytes - size_of(producers)
    if len(producers) >= ATTRIBUTES_MAX:
        return None

    def fits(details_bytes: int) -> bool:
        document = _json(hand_off, delivery, details_bytes)
        size = bytes_of(document)
        return size <= FAILURE_BYTES_MAX and size + len(FAILURE) + len("String") <= left

    details_bytes = largest_fitting(FAILURE_BYTES_MAX, fits)
    if details_bytes is None:
        return None
    return {**producers, FAILURE: Attribute("String", _json(hand_off, delivery, details_bytes))}


def _json(hand_off: HandOff, delivery: Delivery, details_bytes: int) -> str:
    """What is None is not written."""
    came_back = delivery.came_back
    said = {
        "type": clean(hand_off.type, ERROR_TYPE_BYTES_MAX) or None,
        "details": clean(hand_off.details, details_bytes) or None,
        "kind": hand_off.kind,
        "retry_after_seconds": hand_off.retry_after_seconds,
        "failed_at": rfc3339(delivery.failed_at),
        "source_message_id": delivery.source_message_id,
        "source_queue_arn": delivery.source_queue_arn,
        "first_sent_time": rfc3339(delivery.sent_at),
        "new_generation": None if came_back is None else True,
        "generation_before": None if came_back is None else came_back.generation_before,
    }
    written = {name: value for name, value in said.items() if value is not None}
    return json.dumps(written, ensure_ascii=False, separators=(",", ":"))
