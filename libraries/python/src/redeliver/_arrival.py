"""The producer's attributes of a message, taken from ours."""

import re
from collections.abc import Callable, Mapping, Sequence

from ._attributes import ANNOTATION, DEAD_LETTER, FAILURE, Attribute, Attributes, text, unfolded
from ._json import Child, digits_of, has_twice, member, members, string_of
from ._metadata import CameBack
from ._text import has_illegal, is_well_formed

_U32_MAX = 0xFFFF_FFFF
_U64_MAX = 0xFFFF_FFFF_FFFF_FFFF
_CODE = re.compile("[A-Z_]{1,64}")

_Check = Callable[[str], bool]


def _is_text(json: str) -> bool:
    return string_of(json) is not None


def _is_u32(json: str) -> bool:
    return digits_of(json, _U32_MAX) is not None


def _is_u64(json: str) -> bool:
    return digits_of(json, _U64_MAX) is not None


def _is_legal(json: str) -> bool:
    said = string_of(json)
    return said is not None and not has_illegal(said)


def _is_code(json: str) -> bool:
    return _CODE.fullmatch(string_of(json) or "") is not None


def _is_boolean(json: str) -> bool:
    return json in ("true", "false")


def _is_object(json: str) -> bool:
    return json.startswith("{")


def _or_null(check: _Check) -> _Check:
    return lambda json: json == "null" or check(json)


def _is_cause(json: str) -> bool:
    return _document_of(json, _OF_CAUSE, ("type", "message")) is not None


# The members of our documents that this version knows.
_OF_FAILURE: Mapping[str, _Check] = {
    **dict.fromkeys(("type", "details", "kind", "stage", "explanation"), _is_text),
    **dict.fromkeys(("failed_at", "source_message_id", "source_queue_arn", "first_sent_time", "due_at"), _is_legal),
    "retry_after_seconds": _is_u64,
    "new_generation": _is_boolean,
    "generation_before": _is_u32,
    "attempts": _is_u32,
    "verdict": _is_code,
    "folded_attributes": _is_object,
}
_OF_DEAD_LETTER: Mapping[str, _Check] = {
    **dict.fromkeys(("stage", "dead_lettered_at", "sqs_message_id", "fingerprint"), _is_text),
    **dict.fromkeys(("attempts", "redrive_generation", "held_seconds", "redrive_count"), _or_null(_is_u32)),
    **dict.fromkeys(("first_sent_time", "source_queue_arn"), _or_null(_is_text)),
    "cause": _is_cause,
    "folded_attributes": _is_object,
}
_OF_CAUSE: Mapping[str, _Check] = {"type": _is_text, "message": _is_text, "unverified": _is_boolean}
_REQUIRED_OF_DEAD_LETTER = ("stage", "cause", "dead_lettered_at", "sqs_message_id", "fingerprint")


def taken_apart(everything: Attributes) -> tuple[Attributes, CameBack | None]:
    """The producer's attributes, and whether the message came back from the final DLQ.

    ``Failure`` is reserved, so it is never the producer's, and on the source queue nobody believes it; but what it
    folds is put back. ``DeadLetter``, ``ErrorType`` and ``ErrorDetails`` are ours only if ``DeadLetter`` is a document
    that we can have written.
    """
    others = {name: attribute for name, attribute in everything.items() if name != FAILURE}
    failure = _document_of(text(everything.get(FAILURE)), _OF_FAILURE) or []
    folded = member(failure, "folded_attributes")
    # A hand-off folds nothing: what one says that it folds somebody has made up.
    folds = any(name in ("verdict", "due_at") for name, _ in failure)
    whole = unfolded(others, folded) if folds and folded is not None else None
    whole = others if whole is None else whole
    return _unannotated(whole) or (whole, None)


def _unannotated(attributes: Attributes) -> tuple[dict[str, Attribute], CameBack] | None:
    json = text(attributes.get(DEAD_LETTER))
    record = _document_of(json, _OF_DEAD_LETTER, _REQUIRED_OF_DEAD_LETTER)
    # The annotator writes no white space before it.
    if json is None or record is None or not json.startswith("{"):
        return None
    others = {name: attribute for name, attribute in attributes.items() if name not in ANNOTATION}
    whole = unfolded(others, member(record, "folded_attributes") or "{}")
    # The annotator annotates nothing that has an annotation still.
    if whole is None or _unannotated(whole) is not None:
        return None
    return whole, CameBack(digits_of(member(record, "redrive_generation"), _U32_MAX))


def _document_of(json: str | None, known: Mapping[str, _Check], required: Sequence[str] = ()) -> list[Child] | None:
    """The members of a document that we can have written; a later version may have written more."""
    of = None if json is None else members(json)
    if of is None:
        return None
    ours = [child for child in of if child.name in known]
    names = {child.name for child in ours}
    is_ours = (
        all(is_well_formed(child.name) for child in of)
        and not has_twice(ours)
        and all(known[child.name](child.text) for child in ours)
        and names.issuperset(required)
    )
    return of if is_ours else None
