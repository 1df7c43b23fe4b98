"""What is sent, and what SQS says of it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from ._attributes import ATTRIBUTES_MAX, MESSAGE_BYTES_MAX, Attributes, is_alphanumeric, size_of, why_refused
from ._text import bytes_of, has_illegal

BATCH_ENTRIES_MAX = 10
BATCH_BYTES_MAX = MESSAGE_BYTES_MAX


class Outgoing(NamedTuple):
    """A message on its way to SQS."""

    body: str
    attributes: Attributes
    message_group_id: str | None = None
    trace_header: str | None = None


class EntryError(NamedTuple):
    """Why an entry is not confirmed.

    ``refused``: the same again would fail the same way. ``throttled``, ``not sent``: later. ``service``, ``no answer``:
    it may or may not have been done, so that another request may do it twice.
    """

    fault: Literal["refused", "throttled", "not sent", "service", "no answer"]
    code: str
    """SQS's; never a payload."""


EntryOutcome = EntryError | None
"""None if it is confirmed."""


class Queue(Protocol):
    async def send(self, entries: Sequence[Outgoing]) -> Sequence[EntryOutcome]:
        """One request of at most 10 entries and 1 MiB; it never fails. One outcome each, in order."""
        ...


def pack(messages: Sequence[Outgoing]) -> list[list[Outgoing]]:
    """Into batches that SQS takes: in order, none lost, each as full as order and limits allow."""
    batches: list[list[Outgoing]] = []
    total = 0
    for message in messages:
        size = _size(message)
        if not batches or len(batches[-1]) == BATCH_ENTRIES_MAX or total + size > BATCH_BYTES_MAX:
            batches.append([])
            total = 0
        batches[-1].append(message)
        total += size
    return batches


def why_not_sendable(message: Outgoing) -> str | None:
    """Why SQS would refuse it, by a name for logs."""
    body, attributes, group, trace = message
    if body == "":
        return "EmptyBody"
    if len(attributes) > ATTRIBUTES_MAX:
        return "TooManyAttributes"
    if _size(message) > MESSAGE_BYTES_MAX:
        return "TooLarge"
    if has_illegal(body):
        return "IllegalCharacter"
    for name, attribute in attributes.items():
        why = why_refused(name, attribute)
        if why is not None:
            return why
    if group is not None and not (1 <= len(group) <= 128 and all(_is_of_group(character) for character in group)):
        return "MessageGroupId"
    if trace == "":
        return "EmptyTraceHeader"
    return "IllegalCharacter" if trace is not None and has_illegal(trace) else None


def _is_of_group(character: str) -> bool:
    return "!" <= character <= "~" if character.isascii() else is_alphanumeric(character)


def _size(message: Outgoing) -> int:
    return bytes_of(message.body) + size_of(message.attributes)
