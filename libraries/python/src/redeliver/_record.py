"""The records of an SQS event. One that cannot be read fails alone."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from ._attributes import Attribute, Attributes, bytes_of_base64
from ._text import is_well_formed

_YEAR_10_000 = 253_402_300_800_000
_YEAR_0 = -62_167_219_200_000
_COUNT = re.compile(r"\+?[0-9]+")
_MOMENT = re.compile("[+-]?[0-9]{1,18}")


class Received(NamedTuple):
    """A message as it was received."""

    id: str
    """SQS's id of it."""
    body: str
    attributes: Attributes
    sent_at: float
    """When it was sent to the first queue."""
    message_group_id: str | None
    trace_header: str | None
    queue_arn: str
    record: Mapping[str, Any]
    """As it came, for the handler."""


def records_of(event: Any) -> tuple[list[Received], list[str]]:
    """Those that can be read, and SQS's ids of the others, which are reported as failed.

    :raises ValueError: if it is no SQS event, or a record could not even be reported: SQS delivers all of it again.
    """
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        how = "invoke this function by an event source mapping on its queue"
        raise ValueError(f'expected an SQS event, {{"Records":[…]}}; {how}')
    readable: list[Received] = []
    unreadable: list[str] = []
    for index, record in enumerate(records):
        message_id = record.get("messageId") if isinstance(record, Mapping) else None
        # An empty identifier would fail the whole batch all the same.
        if not isinstance(message_id, str) or message_id == "":
            raise ValueError(f"record {index} of the event has no messageId, so it could not be reported as failed")
        received = _received_of(message_id, record)
        if received is None:
            unreadable.append(message_id)
        else:
            readable.append(received)
    return readable, unreadable


def _received_of(message_id: str, record: Mapping[str, Any]) -> Received | None:
    body, queue_arn, system = record.get("body"), record.get("eventSourceARN"), record.get("attributes") or {}
    attributes = _attributes_of(record.get("messageAttributes") or {})
    if not isinstance(system, Mapping) or attributes is None:
        return None
    texts = [message_id, body, queue_arn, *(value for value in system.values() if value is not None)]
    sent_at = _moment(system.get("SentTimestamp"))
    received = system.get("ApproximateFirstReceiveTimestamp")
    is_sound = (
        all(isinstance(text, str) and is_well_formed(text) for text in texts)
        and bool(body and queue_arn)
        and _COUNT.fullmatch(system.get("ApproximateReceiveCount") or "1") is not None
        and (received is None or _moment(received) is not None)
    )
    if not is_sound or sent_at is None or not isinstance(body, str) or not isinstance(queue_arn, str):
        return None
    group, trace = system.get("MessageGroupId"), system.get("AWSTraceHeader")
    return Received(message_id, body, attributes, sent_at, group, trace, queue_arn, record)


def _attributes_of(of: Any) -> Attributes | None:
    """None if one has no value of its type: dropping it would lose the producer's data."""
    if not isinstance(of, Mapping):
        return None
    attributes: dict[str, Attribute] = {}
    for name, written in of.items():
        data_type = written.get("dataType") if isinstance(written, Mapping) else None
        if not isinstance(data_type, str):
            return None
        value: Any = written.get("stringValue")
        if data_type.startswith("Binary"):
            base64 = written.get("binaryValue")
            value = bytes_of_base64(base64) if isinstance(base64, str) else None
        elif not isinstance(value, str) or not is_well_formed(value):
            return None
        if value is None:
            return None
        attributes[name] = Attribute(data_type, value)
    return attributes


def _moment(text: object) -> float | None:
    """Milliseconds since 1970, of a moment that RFC 3339 can say: it is written into the message."""
    at = int(text) if isinstance(text, str) and _MOMENT.fullmatch(text) else _YEAR_10_000
    return at if _YEAR_0 <= at < _YEAR_10_000 else None
