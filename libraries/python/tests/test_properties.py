"""What holds for anything: ids, texts, batches, and JSON as it stands in a text."""

import json
import re
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from redeliver import Attribute
from redeliver._failure import Delivery, HandOff, attached
from redeliver._json import _skimmed, children_of, loads, members, nests_too_deep
from redeliver._metadata import InvalidMessage, is_uuid
from redeliver._plain import IdSources, id_of, read_plain
from redeliver._sending import Outgoing, pack, why_not_sendable
from redeliver._spread import spread
from redeliver._text import bytes_of, clean, has_illegal, is_well_formed, largest_fitting
from redeliver._time import parse_rfc3339, rfc3339

FIRST = "0a0b0c0d-1111-4222-8333-444455556666"
TEXT = st.text(max_size=200)
# With lone surrogates, which UTF-8 cannot hold.
ANY = st.text(st.characters(codec=None, exclude_categories=()), max_size=300)
NUMBER = st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))
SIZES = st.one_of(st.integers(1, 2000), st.integers(90_000, 120_000), st.integers(500_000, 1_048_576))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBER, TEXT),
    lambda inside: st.one_of(st.lists(inside, max_size=5), st.dictionaries(TEXT, inside, max_size=5)),
    max_leaves=20,
)


@given(ANY, st.integers(0, 400))
def test_a_cleaned_text_is_legal_within_its_limit_and_cut_only_if_it_must_be(text: str, most: int) -> None:
    cleaned = clean(text, most)
    legal = "".join("\ufffd" if has_illegal(character) else character for character in text)
    assert bytes_of(cleaned) <= most
    assert not has_illegal(cleaned)
    assert is_well_formed(cleaned)
    if bytes_of(legal) <= most:
        assert cleaned == legal
    elif most >= 3:
        assert cleaned[-1] == "…"
        assert legal.startswith(cleaned[:-1])
        assert bytes_of(cleaned) + 4 > most
    else:
        assert cleaned == ""


@given(st.integers(0, 2000), st.integers(-1, 2000))
def test_the_largest_fitting_number_is_found(wanted: int, limit: int) -> None:
    expected = None if limit < 0 else min(wanted, limit)
    assert largest_fitting(wanted, lambda size: size <= limit) == expected


@given(TEXT, st.none() | TEXT)
def test_every_message_gets_an_id_and_a_key_that_a_header_takes_always_the_same(body: str, said: str | None) -> None:
    attributes = {"Id": Attribute("String", said)} if said else {}
    sources = IdSources("Id", ("id",))
    message_id, key = id_of(sources, body, attributes, FIRST)
    assert is_uuid(message_id)
    assert key is None or (re.fullmatch("[ -~]{1,256}", key) and key == key.strip())
    if said:
        assert is_uuid(said) == (message_id == said)
        assert id_of(sources, "another", attributes, "x")[0] == message_id


@given(st.lists(TEXT, min_size=1, max_size=4), st.one_of(NUMBER, TEXT, st.none(), st.booleans(), st.lists(NUMBER)))
def test_a_pointer_finds_what_it_names_as_it_is_written(names: list[str], value: Any) -> None:
    written = json.dumps(value)
    body = written
    for name in reversed(names):
        body = f'{{"\\u006fther":[1], {json.dumps(name)} :\t{body} }}'
    found, _ = id_of(IdSources(None, tuple(names)), body, {}, FIRST)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    text = value if isinstance(value, str) else written if is_number else ""
    expected = id_of(IdSources("Id", None), "", {"Id": Attribute("String", text)}, FIRST)[0] if text else FIRST
    assert found == expected


@given(TEXT, st.none() | TEXT | JSON.map(json.dumps))
def test_whatever_redeliver_is_a_body_is_plain_or_refused_and_comes_through(body: str, said: str | None) -> None:
    attributes = {} if said is None else {"Redeliver": Attribute("String", said)}
    try:
        first = read_plain(IdSources(), body, attributes, FIRST)
    except InvalidMessage:
        assert said is not None
        return
    again = read_plain(IdSources(), body, first.handed_off, "another")
    assert again[:3] == first[:3]
    assert again.handed_off == first.handed_off


@given(JSON, st.sampled_from([None, 0, 2]), st.booleans())
def test_what_stands_in_json_is_found_as_the_parser_finds_it(value: Any, indent: int | None, is_ascii: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    children = {name: loads(inside) for name, inside in children_of(text)}
    expected = dict(enumerate(value)) if isinstance(value, list) else value if isinstance(value, dict) else {}
    assert children == {str(name): inside for name, inside in expected.items()}
    assert (members(f" {text}\n") is not None) == isinstance(value, dict)
    assert _skimmed(text, 0) == len(text)


@given(st.text('{}[]",:\\u0129azE.+- \ntrue', max_size=30))
def test_both_ways_to_find_a_values_end_take_and_refuse_the_same(text: str) -> None:
    found: list[object] = []
    for way in (lambda: members(f'{{"a":[{text}]}}'), lambda: _skimmed(f'{{"a":[{text}]}}', 0)):
        try:
            result = way()
            found.append(result is not None and (not isinstance(result, int) or result == len(text) + 8))
        except ValueError:
            found.append(False)
    assert found[0] == found[1]


@given(TEXT, st.integers(120, 135))
def test_what_nests_too_deep_is_known_by_the_brackets_outside_texts(text: str, depth: int) -> None:
    nested = "[" * depth + json.dumps([text, '[{\\"']) + "]" * depth
    assert nests_too_deep(nested) == (depth + 1 > 128)
    assert nests_too_deep('"' + "[" * 200 + '"') is False


@given(ANY, ANY, st.integers(0, 1_048_576))
def test_a_document_is_one_that_sqs_takes_with_its_message(name: str, details: str, body_bytes: int) -> None:
    delivery = Delivery(1_785_000_000_000, "m", "arn:aws:sqs:x", 1_785_000_000_000, None)
    attributes = attached(HandOff(name, details, "transient"), delivery, {}, body_bytes)
    if attributes is None:
        assert body_bytes > 1_048_576 - 400
        return
    assert bytes_of(str(attributes["Failure"].value)) <= 1024
    assert why_not_sendable(Outgoing("x" * body_bytes or "x", attributes)) is None


@settings(max_examples=30)
@given(
    st.lists(
        st.one_of(st.integers(1, 2000), st.integers(90_000, 120_000), st.integers(500_000, 1_048_576)), max_size=40
    )
)
def test_packing_breaks_no_limit_and_loses_and_reorders_nothing(sizes: list[int]) -> None:
    batches = pack([Outgoing("x" * size, {}) for size in sizes])
    assert [len(one.body) for batch in batches for one in batch] == sizes
    totals = [sum(len(one.body) for one in batch) for batch in batches]
    assert all(1 <= len(batch) <= 10 for batch in batches)
    assert all(total <= 1_048_576 for total in totals)
    for batch, total, following in zip(batches, totals, batches[1:], strict=False):
        assert len(batch) == 10 or total + len(following[0].body) > 1_048_576


@given(st.integers(-62_167_219_200_000, 253_402_300_799_999), st.integers(0, 999))
def test_a_moment_is_read_as_it_was_written(millis: int, micros: int) -> None:
    assert parse_rfc3339(rfc3339(millis)) == millis
    recent = abs(millis) % 4_102_444_800_000
    written = rfc3339(recent)[:-4] + f"{micros:03}Z"
    moment = parse_rfc3339(written)
    assert moment is not None
    assert rfc3339(moment) == written


def test_times_that_do_not_exist_are_none() -> None:
    for wrong in ("2026-02-29T00:00:00Z", "2026-07-25T24:00:00Z", "2026-07-25T17:20:60Z", "2026-07-25T17:20:00Z\n"):
        assert parse_rfc3339(wrong) is None
    assert parse_rfc3339("2016-12-31t18:59:60.25-05:00") == 1_483_228_800_250
    assert rfc3339(parse_rfc3339("2026-07-25T19:20:00.123456789+02:00") or 0) == "2026-07-25T17:20:00.123456Z"


@given(st.uuids(), st.integers(0, 100), st.integers(0, 1000), st.integers(0, 600_000), st.integers(0, 600_000))
def test_a_draw_stays_within_its_bounds(message_id: Any, generation: int, attempt: int, low: int, width: int) -> None:
    assert low <= spread(str(message_id), generation, attempt, low, low + width) <= low + width
