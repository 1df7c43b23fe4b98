"""What is to be done with a record that is not done: it is handed off, with the reason."""

from typing import NamedTuple

from ._accept import Accepted, Refused
from ._attributes import Attributes
from ._errors import HandlerError, kind_of, ours, whole_seconds
from ._failure import Delivery, FailureKind, HandOff, attached
from ._metadata import CameBack, first_sent
from ._permits import Failed, Held, NotStarted
from ._record import Received
from ._sending import Outgoing
from ._telemetry import Event, Fields
from ._text import bytes_of
from ._time import rfc3339


class Sending(NamedTuple):
    received: Received
    outgoing: Outgoing | None
    """None if it has no place for the reason: ten attributes, or 1 MiB. SQS's redrive takes the message, without it."""
    confirmed: Event | None
    """What has happened once it is confirmed, if that is worth a line of its own."""


def handed_off(accepted: Accepted, outcome: Failed | NotStarted | Held, now: float) -> Sending:
    """What is to be done with a message that is not done."""
    received, metadata = accepted.received, accepted.metadata
    hand_off, loggable = _hand_off_of(outcome)
    fields: Fields = {"message_id": metadata.message_id, "retry_attempt": metadata.retry_attempt}
    told = _event(fields, loggable, hand_off.kind, now - first_sent(metadata, received.sent_at))
    # A message may be held a hundred times: one line a batch tells of it.
    confirmed = None if hand_off.kind == "held" else told
    return _sending(received, hand_off, accepted.came_back, now, accepted.parsed.handed_off, confirmed)


def refusal(refused: Refused, now: float) -> Sending:
    """An invalid message is the failed-message-processor's to give up: it finds the same."""
    received = refused.received
    hand_off, loggable = _hand_off_of(Failed(ours("InvalidMessage", refused.why, "permanent")))
    told = _event({"sqs_message_id": received.id}, loggable, hand_off.kind, now - received.sent_at)
    return _sending(received, hand_off, refused.came_back, now, refused.attributes, told)


def _sending(
    received: Received,
    hand_off: HandOff,
    came_back: CameBack | None,
    now: float,
    producers: Attributes,
    confirmed: Event | None,
) -> Sending:
    delivery = Delivery(now, received.id, received.queue_arn, received.sent_at, came_back)
    attributes = attached(hand_off, delivery, producers, bytes_of(received.body))
    if attributes is None:
        return Sending(received, None, confirmed)
    outgoing = Outgoing(received.body, attributes, received.message_group_id, received.trace_header)
    return Sending(received, outgoing, confirmed)


def _hand_off_of(outcome: Failed | NotStarted | Held) -> tuple[HandOff, str]:
    """With the error's name as it may be logged."""
    kind: FailureKind
    if isinstance(outcome, Failed):
        error, kind, after = outcome.error, kind_of(outcome.error), whole_seconds(outcome.error.retry_after_seconds)
    elif isinstance(outcome, NotStarted):
        error, kind, after = ours("NotStarted", ""), "not_started", None
    else:
        error, kind, after = outcome.probed or _circuit_open(outcome.since), "held", None
    return HandOff(error.type, error.details, kind, after), error.loggable


def _circuit_open(since: float) -> HandlerError:
    return ours("CircuitOpen", f"not called: the target has been down since {rfc3339(since)}")


def _event(fields: Fields, error_type: str, kind: FailureKind, age: float) -> Event:
    age_seconds = max(0.0, age) / 1000
    fields = {**fields, "error_type": error_type, "kind": kind, "age_seconds": age_seconds}
    return Event("handed_off", fields, {"HandedOff": 1, "MessageAgeSeconds": age_seconds}, by=kind)
