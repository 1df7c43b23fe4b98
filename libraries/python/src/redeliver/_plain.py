"""Plain messages: a body of any text, and what an envelope has as ``metadata`` beside it, in ``Redeliver``."""

import hashlib
import json
import re
from typing import NamedTuple

from ._attributes import (
    ATTRIBUTES_MAX,
    FAILURE,
    MESSAGE_BYTES_MAX,
    REDELIVER,
    Attribute,
    Attributes,
    is_attribute_name,
    size_of,
    text,
    unfolded,
)
from ._json import SPACE, children_of, has_twice, inside, member, members, nests_too_deep, string_of
from ._metadata import InvalidMessage, Metadata, is_uuid, read_metadata
from ._text import WHITE_SPACE, bytes_of

_NAMESPACE = bytes.fromhex("9d1ff0a25f0c5c1e8c386d9a5a1b2f47")
_KEY = re.compile("(?! )[ -~]{1,256}(?<! )")
"""What a header of every server takes: printable ASCII, without a space at an end."""
_FAILURE_ROOM_BYTES = 2048
"""Kept free if a message is named at its first hand-off: ``Failure`` must find room."""


class IdSources(NamedTuple):
    """Where the ids of plain messages stand."""

    attribute: str | None = None
    pointer: tuple[str, ...] | None = None
    """The names of a JSON Pointer."""


class Plain(NamedTuple):
    metadata: Metadata
    idempotency_key: str
    attributes: Attributes
    """The producer's, whole."""
    handed_off: Attributes
    """Those with which it is handed off."""


def read_plain(sources: IdSources, body: str, attributes: Attributes, first_id: str) -> Plain:
    """``first_id`` is SQS's id of its first delivery."""
    redeliver = attributes.get(REDELIVER)
    if redeliver is None:
        message_id, key = id_of(sources, body, attributes, first_id)
        handed_off = _named(attributes, bytes_of(body), message_id, key)
        return Plain(Metadata(message_id), key or message_id, attributes, handed_off)
    others = {name: attribute for name, attribute in attributes.items() if name != REDELIVER}
    return _read_document(text(redeliver) or "", others)._replace(handed_off=attributes)


def _read_document(document: str, others: Attributes) -> Plain:
    of = members(document)
    # As deep as it could be inside an envelope.
    if of is None or has_twice(of) or nests_too_deep(f"[{document}]"):
        raise InvalidMessage(f"/{REDELIVER} is not a JSON object in a String attribute, with each member once")
    key = member(of, "idempotency_key")
    idempotency_key = string_of(key)
    if key is not None and not _KEY.fullmatch(idempotency_key or ""):
        raise InvalidMessage(f"/{REDELIVER}/idempotency_key is not a string of 1 to 256 printable ASCII characters")
    folded = member(of, "folded_attributes")
    names = [] if folded is None else [child.name for child in children_of(folded)]
    attributes = others if folded is None else unfolded(others, folded)
    if attributes is None or REDELIVER in names:
        raise InvalidMessage(f"/{REDELIVER}/folded_attributes are not attributes that find their places again")
    metadata = read_metadata(of, f"/{REDELIVER}")
    return Plain(metadata, idempotency_key or metadata.message_id, attributes, others)


def _named(attributes: Attributes, body_bytes: int, message_id: str, key: str | None) -> Attributes:
    """With its id beside it, unless there is no place for that, or no room."""
    said = {"message_id": message_id} if key is None else {"message_id": message_id, "idempotency_key": key}
    with_id = {
        **attributes,
        REDELIVER: Attribute("String", json.dumps(said, ensure_ascii=False, separators=(",", ":"))),
    }
    has_room = body_bytes + size_of(with_id) + _FAILURE_ROOM_BYTES <= MESSAGE_BYTES_MAX
    return with_id if len(attributes) <= ATTRIBUTES_MAX - 2 and has_room else attributes


def id_of(sources: IdSources, body: str, attributes: Attributes, first_id: str) -> tuple[str, str | None]:
    """A UUID and a key, of a producer's own id if there is one, else of SQS's: it is a UUID, or becomes one."""
    in_attribute = None if sources.attribute is None else text(attributes.get(sources.attribute))
    found = in_attribute or _in_body(sources, body) or _of_cloud_event(body) or first_id
    return (found, None) if is_uuid(found) else (_uuid_of(found), found if _KEY.fullmatch(found) else None)


def _uuid_of(name: str) -> str:
    """A UUID of version 5."""
    digest = bytearray(hashlib.sha1(_NAMESPACE + name.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = (digest[6] & 0x0F) | 0x50
    digest[8] = (digest[8] & 0x3F) | 0x80
    written = digest.hex()
    return "-".join((written[:8], written[8:12], written[12:16], written[16:20], written[20:]))


def _in_body(sources: IdSources, body: str) -> str | None:
    if sources.pointer is None:
        return None
    value: str | None = body.strip(SPACE)
    for name in sources.pointer:
        value = None if value is None else member(inside(value) or [], name)
    # A number as it is written: 12345678901234567890 is not what a float makes of it.
    return value if value is not None and value[0] in "-0123456789" else string_of(value)


def _of_cloud_event(body: str) -> str | None:
    """``source`` and ``id``, which are unique together ("CloudEvents", version 1.0.2). No URI reference has a space."""
    of = members(body.lstrip(WHITE_SPACE)) or []
    version, own, source = (string_of(member(of, name)) for name in ("specversion", "id", "source"))
    return f"{source} {own}" if version and own and source and " " not in source else None


def why_no_id_attribute(name: str) -> str | None:
    """Why no id can stand in an attribute of this name, if so."""
    if name in (FAILURE, REDELIVER):
        return "is an attribute that redeliver itself writes"
    return None if is_attribute_name(name) else "is not the name of a message attribute"


def pointer_of(pointer: str) -> tuple[str, ...] | None:
    """The names of a JSON Pointer (RFC 6901) to a member; none if it is no such pointer."""
    names = pointer.split("/")[1:]
    if not pointer.startswith("/") or not all(re.fullmatch("(?:[^~]|~[01])*", name) for name in names):
        return None
    # In this order, or `~01` would become `/`.
    return tuple(name.replace("~1", "/").replace("~0", "~") for name in names)
