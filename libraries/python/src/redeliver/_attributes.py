"""Message attributes, and which of them SQS takes: "Amazon SQS message metadata" in the Amazon SQS Developer Guide."""

import binascii
import re
from collections.abc import Mapping
from typing import NamedTuple

from ._json import children_of, has_twice, member, string_of
from ._text import WHITE_SPACE, bytes_of, has_illegal


class Attribute(NamedTuple):
    """A message attribute."""

    data_type: str
    """``String``, ``Number`` or ``Binary``, each with an optional ``.label``."""
    value: str | bytes
    """Bytes if it is ``Binary``."""


Attributes = Mapping[str, Attribute]

ATTRIBUTES_MAX = 10
MESSAGE_BYTES_MAX = 1_048_576

# The names that are ours.
FAILURE = "Failure"
REDELIVER = "Redeliver"
DEAD_LETTER = "DeadLetter"
ANNOTATION = (DEAD_LETTER, "ErrorType", "ErrorDetails")

_TYPE = re.compile("String|Number|Binary")
_MAY_BE_NUMBER = re.compile(
    r"[+-]?(?:inf|infinity|nan|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?)", re.IGNORECASE | re.ASCII
)
_ASCII_OF_NAMES = re.compile(r"[\w.-]*", re.ASCII)
_SURE_TYPE = re.compile(r"(?:String|Number|Binary)(?:\..+)?", re.DOTALL)
_NUMBER = re.compile(r"-?([0-9]+)(?:\.([0-9]+))?")


def text(attribute: Attribute | None) -> str | None:
    return attribute.value if attribute is not None and isinstance(attribute.value, str) else None


def size_of(attributes: Attributes) -> int:
    """What attributes take of the message's limit."""
    return sum(
        bytes_of(name) + bytes_of(data_type) + (bytes_of(value) if isinstance(value, str) else len(value))
        for name, (data_type, value) in attributes.items()
    )


def why_refused(name: str, attribute: Attribute) -> str | None:
    """Why SQS would refuse it, by a name for logs. What its documentation leaves open it may take, as it has before."""
    data_type, value = attribute
    if not is_attribute_name(name):
        return "AttributeName"
    if _TYPE.match(data_type) is None or len(data_type) > 256:
        return "AttributeType"
    if has_illegal(data_type) or (isinstance(value, str) and has_illegal(value)):
        return "IllegalCharacter"
    if isinstance(value, str) == data_type.startswith("Binary"):
        return "AttributeValue"
    if len(value) == 0:
        return "EmptyAttribute"
    if data_type.startswith("Number") and isinstance(value, str):
        return None if _MAY_BE_NUMBER.fullmatch(value.strip(WHITE_SPACE)) else "NotANumber"
    return None


def is_attribute_name(name: str) -> bool:
    ascii_part = "".join(character for character in name if character.isascii())
    return (
        1 <= len(name) <= 256
        and _ASCII_OF_NAMES.fullmatch(ascii_part) is not None
        and all(character.isascii() or is_alphanumeric(character) for character in name)
        and all(name.split("."))
        and not name.lower().startswith(("aws.", "amazon."))
    )


def is_alphanumeric(character: str) -> bool:
    """In Unicode's sense, in which marks inside words are letters, too."""
    if character.isalnum():
        return True
    import unicodedata

    return unicodedata.category(character) in ("Mn", "Mc") or "\u24b6" <= character <= "\u24e9"


def _is_surely_taken(name: str, attribute: Attribute) -> bool:
    """Whether SQS takes it by its documentation, with nothing left open."""
    data_type, value = attribute
    return (
        why_refused(name, attribute) is None
        and name.isascii()
        and len(name) <= 255
        and bytes_of(data_type) < 256
        and _SURE_TYPE.fullmatch(data_type) is not None
        and (data_type.split(".")[0] != "Number" or (isinstance(value, str) and _is_documented_number(value)))
    )


def _is_documented_number(number: str) -> bool:
    """At most 38 digits of precision, from 10^-128 to 10^126; zeros at the ends are no digits of precision."""
    found = _NUMBER.fullmatch(number)
    if found is None:
        return False
    whole, fraction = found[1], found[2] or ""
    digits = whole + fraction
    trimmed = digits.lstrip("0")
    precise = trimmed.rstrip("0")
    # The power of ten of its first digit.
    power = len(whole) - (len(digits) - len(trimmed)) - 1
    is_within = -128 <= power < 126 or (power == 126 and precise == "1")
    return precise == "" or (len(precise) <= 38 and is_within)


def unfolded(others: Attributes, folded: str) -> dict[str, Attribute] | None:
    """The attributes beside one of our documents, together with those that the document folds.

    ``folded`` is the text of that member. None if we cannot have folded them: SQS would not surely take them, one has
    the name of another, or they are more than ten.
    """
    if not folded.startswith("{"):
        return None
    # Of two with one name the last one counts, as for every reader of maps.
    found = {child.name: _attribute_of(child.text) for child in children_of(folded)}
    whole = dict(others)
    for name, attribute in found.items():
        if attribute is None or name == FAILURE or name in whole or not _is_surely_taken(name, attribute):
            return None
        whole[name] = attribute
    return whole if len(whole) <= ATTRIBUTES_MAX else None


def _attribute_of(folded: str) -> Attribute | None:
    found = [child for child in children_of(folded) if child.name in ("data_type", "text", "base64")]
    data_type, value, base64 = (string_of(member(found, name)) for name in ("data_type", "text", "base64"))
    if not folded.startswith("{") or has_twice(found) or data_type is None or (value is None) == (base64 is None):
        return None
    either = value if base64 is None else bytes_of_base64(base64)
    return None if either is None else Attribute(data_type, either)


def bytes_of_base64(base64: str) -> bytes | None:
    """Python reads more than base64; what it would not write so is none."""
    try:
        read = binascii.a2b_base64(base64)
    except ValueError:
        return None
    return read if base64_of(read) == base64 else None


def base64_of(value: bytes) -> str:
    return binascii.b2a_base64(value, newline=False).decode()
