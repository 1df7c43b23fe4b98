"""A body as it came: an envelope ``{"metadata":{…},"data":{…}}``, or a plain message."""

from typing import NamedTuple

from ._attributes import Attributes
from ._json import Child, has_twice, member, members, nests_too_deep
from ._metadata import InvalidMessage, Metadata, read_metadata
from ._plain import IdSources, read_plain


class Parsed(NamedTuple):
    """What a body and its attributes say."""

    metadata: Metadata
    idempotency_key: str
    attributes: Attributes
    """The producer's, whole: for the handler."""
    handed_off: Attributes
    """Those with which it is handed off."""
    data: str
    """The text of ``data``; of a plain message its body."""


def parse(sources: IdSources | None, body: str, attributes: Attributes, first_id: str) -> Parsed:
    """Without sources of ids each message must be an envelope."""
    top = members(body)
    if sources is not None and not _looks_like_envelope(top or []):
        return Parsed(*read_plain(sources, body, attributes, first_id), data=body)
    if top is None or has_twice(top) or nests_too_deep(body):
        raise InvalidMessage("the body is not a JSON object of at most 128 levels, with each member once")
    metadata = members(member(top, "metadata") or "")
    if metadata is None or has_twice(metadata):
        raise InvalidMessage("/metadata is not an object with each member once")
    data = member(top, "data")
    if data is None or not data.startswith("{"):
        raise InvalidMessage("/data is not an object")
    read = read_metadata(metadata, "/metadata")
    return Parsed(read, read.message_id, attributes, attributes, data)


def _looks_like_envelope(top: list[Child]) -> bool:
    """Whether it means to be one: what is wrong with it then is no reason to take it for a plain message."""
    return any(name == "data" for name, _ in top) and any(
        name == "metadata" and any(child.name == "message_id" for child in members(text) or []) for name, text in top
    )
