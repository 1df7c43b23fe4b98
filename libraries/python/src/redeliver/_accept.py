"""A record to call the handler for, or why it must not come to it."""

from typing import NamedTuple

from ._arrival import taken_apart
from ._attributes import Attributes
from ._envelope import Parsed, parse
from ._metadata import CameBack, InvalidMessage, Metadata, in_its_generation
from ._plain import IdSources
from ._record import Received


class Accepted(NamedTuple):
    """A valid message."""

    received: Received
    parsed: Parsed
    metadata: Metadata
    """In its generation."""
    came_back: CameBack | None


class Refused(NamedTuple):
    """One that is not what it has to be."""

    received: Received
    attributes: Attributes
    """With which it is handed off."""
    came_back: CameBack | None
    why: str


def accept(sources: IdSources | None, received: Received) -> Accepted | Refused:
    attributes, came_back = taken_apart(received.attributes)
    try:
        parsed = parse(sources, received.body, attributes, received.id)
    except InvalidMessage as invalid:
        return Refused(received, attributes, came_back, str(invalid))
    return Accepted(received, parsed, in_its_generation(parsed.metadata, came_back), came_back)
