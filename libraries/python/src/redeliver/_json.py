"""JSON as it stands in a text: members with their own texts, also if one stands twice, and numbers as they are written.

Python's reader takes ``NaN``, fails at numbers of more than 4300 digits, and at a depth that depends on its stack; none
of that is JSON's.
"""

import json
import re
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

from ._text import is_well_formed

NESTING_MAX = 128
"""Objects and arrays inside one another, the outermost included."""

SPACE = " \t\n\r"

_TOO_LONG_FOR_US = 20
"""Digits: more than any number has that is read here."""
_AFTER_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"'
_NUMBER = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_KEY = re.compile(rf"[ \t\n\r]*({_STRING})[ \t\n\r]*:[ \t\n\r]*")
_SCALAR = re.compile(f"{_STRING}|{_NUMBER}|true|false|null")
_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[\]{}]', re.DOTALL)


class Child(NamedTuple):
    """A member of an object, or an element of an array: then its name is its index."""

    name: str
    text: str
    """The value's text, without white space around it."""


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _whole(digits: str) -> int | float:
    try:
        return int(digits)
    except ValueError:
        # More digits than Python reads: infinite, as 1e400 is.
        return float(digits)


_READER = json.JSONDecoder(parse_int=_whole, parse_constant=_refuse)
_FINDER = json.JSONDecoder(parse_int=float, parse_constant=_refuse)


def loads(text: str) -> Any:
    """:raises ValueError: if it is not JSON; :raises RecursionError: if it is nested deeper than Python reads."""
    return _READER.decode(text)


def members(text: str) -> list[Child] | None:
    """The members of the object that a text is; none if it is no object."""
    text = text.strip(SPACE)
    return inside(text) if text.startswith("{") else None


@lru_cache(maxsize=2)
def inside(text: str) -> list[Child] | None:
    """What stands in an object or in an array; none if it is not JSON.

    The last ones are kept: of a body of 1 MiB that is nested as deep as it can be it takes a second, and three ask.
    """
    try:
        return children_of(text)
    except ValueError:
        return None


def member(of: list[Child], name: str) -> str | None:
    """The last member of that name."""
    return next((child.text for child in reversed(of) if child.name == name), None)


def has_twice(children: list[Child]) -> bool:
    return len({child.name for child in children}) < len(children)


def children_of(text: str) -> list[Child]:
    """What stands in an object or in an array, without space around it; nothing in other values.

    :raises ValueError: if it is not JSON.
    """
    if text[:1] not in ("{", "["):
        return []
    is_object = text[0] == "{"
    closing = "}" if is_object else "]"
    children: list[Child] = []
    at = _after_space(text, 1)
    if text[at : at + 1] != closing:
        while True:
            name = str(len(children))
            if is_object:
                name, at = _key(text, at)
            end = _end_of_value(text, at)
            children.append(Child(name, text[at:end]))
            at = _after_space(text, end)
            if text[at : at + 1] != ",":
                break
            at = _after_space(text, at + 1)
    if text[at:] != closing:
        raise ValueError("it is not JSON")
    return children


def nests_too_deep(text: str) -> bool:
    """By the brackets outside strings; whether they match is the parser's business."""
    if text.count("[") + text.count("{") <= NESTING_MAX:
        return False
    depth = 0
    for token in _BRACKETS.finditer(text):
        first = token[0][0]
        if first in "[{":
            depth += 1
            if depth > NESTING_MAX:
                return True
        elif first != '"':
            depth = max(0, depth - 1)
    return False


def string_of(text: str | None) -> str | None:
    """A string that UTF-8 can hold: a lone surrogate can be escaped in JSON, and stand in no text of ours."""
    if text is None or not text.startswith('"'):
        return None
    value: str = json.loads(text)
    return value if is_well_formed(value) else None


def digits_of(text: str | None, most: int) -> int | None:
    """A number that is written in digits."""
    if text is None or len(text) > _TOO_LONG_FOR_US or not (text.isascii() and text.isdigit()):
        return None
    value = int(text)
    return value if value <= most else None


def _after_space(text: str, at: int) -> int:
    match = _AFTER_SPACE.match(text, at)
    return match.end() if match else at


def _key(text: str, at: int) -> tuple[str, int]:
    """A member's name, and where its value begins."""
    key = _KEY.match(text, at)
    if key is None:
        raise ValueError("it is not JSON")
    return json.loads(key[1]), key.end()


def _end_of_value(text: str, at: int) -> int:
    try:
        return _FINDER.raw_decode(text, at)[1]
    except RecursionError:
        return _skimmed(text, at)


def _skimmed(text: str, at: int) -> int:
    """The same for any depth, and slower."""
    inside: list[str] = []
    while True:
        if text[at : at + 1] in ("{", "["):
            opening = text[at]
            at = _after_space(text, at + 1)
            inside.append("}" if opening == "{" else "]")
            if text[at : at + 1] != inside[-1]:
                at = _key(text, at)[1] if opening == "{" else at
                continue
        else:
            scalar = _SCALAR.match(text, at)
            if scalar is None:
                raise ValueError("it is not JSON")
            at = scalar.end()
        while inside:
            at = _after_space(text, at)
            if text[at : at + 1] != inside[-1]:
                break
            inside.pop()
            at += 1
        if not inside:
            return at
        if text[at : at + 1] != ",":
            raise ValueError("it is not JSON")
        at = _after_space(text, at + 1)
        at = _key(text, at)[1] if inside[-1] == "}" else at
