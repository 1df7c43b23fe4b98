"""The rules that other languages have, too: schemas/vectors/README.md. A file that is missing fails its test."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import pytest

from redeliver import Message, PermanentError, RetryAfter, Snooze, Unavailable
from redeliver._accept import Refused, accept
from redeliver._attributes import Attributes
from redeliver._breaker import Breaker, Closed, Opened, Permit
from redeliver._errors import HandlerError, error_of, ours
from redeliver._hand_off import Sending, handed_off, refusal
from redeliver._permits import Failed, Held, NotStarted
from redeliver._read_policy import read_policy
from redeliver._record import records_of
from redeliver._settings import read_settings
from redeliver._spread import spread
from redeliver._time import parse_rfc3339

VECTORS = Path(__file__).parents[3] / "schemas" / "vectors"
EPOCH = 1_767_225_600_000


def read(file: str) -> list[dict[str, Any]]:
    vectors: list[dict[str, Any]] = json.loads((VECTORS / file).read_text())
    assert vectors, file
    return vectors


def test_each_record_is_handed_off_as_the_vectors_say() -> None:
    vectors = read("hand-offs.json")
    wrong = {
        vector["name"]: (what, vector["expect"]) for vector in vectors if (what := found(vector)) != vector["expect"]
    }
    assert wrong == {}


def found(vector: dict[str, Any]) -> dict[str, Any]:
    moment, outcome = time_of(vector["now"]), vector.get("outcome")
    policy = {"RETRY_POLICY": json.dumps(vector["policy"])} if "policy" in vector else {}
    queue = {"INTERMEDIATE_DLQ_URL": "https://sqs.invalid/0/intermediate"}
    settings = read_settings({**queue, **vector.get("settings", {}), **policy})
    record = {**vector["record"], "body": filled(vector["record"]["body"], vector.get("body_filled"))}
    [received], _ = records_of({"Records": [record]})
    opened = accept(settings.id_sources, received)
    if isinstance(opened, Refused):
        outgoing = refusal(opened, moment).outgoing
        if outgoing is not None:
            failure = json.loads(str(outgoing.attributes["Failure"].value))
            assert (failure["kind"], failure["type"]) == ("permanent", "InvalidMessage")
        return {"invalid": True}
    got: Message[Any] = Message(opened, None, lambda: 0)
    message = {
        "message_id": got.message_id,
        "idempotency_key": got.idempotency_key,
        "retry_attempt": got.retry_attempt,
        "redrive_generation": got.redrive_generation,
        "attributes": written(got.attributes),
    }
    assert outcome is not None
    if outcome.get("success"):
        return {"message": message, "done": True}
    return {"message": message, **sent(handed_off(opened, not_done(outcome), moment))}


def time_of(text: str) -> float:
    moment = parse_rfc3339(text)
    assert moment is not None
    return moment


def filled(body: str, fill: dict[str, Any] | None) -> str:
    if fill is None:
        return body
    times = (fill["to_bytes"] - len(body.encode()) + len("<fill>")) // len(fill["with"].encode())
    return body.replace("<fill>", fill["with"] * times)


def sent(sending: Sending) -> dict[str, Any]:
    outgoing = sending.outgoing
    if outgoing is None:
        return {"no_place": True}
    group, trace = outgoing.message_group_id, outgoing.trace_header
    more = {"message_group_id": group, "trace_header": trace}
    there = {name: value for name, value in more.items() if value is not None}
    return {"hand_off": {"attributes": written(outgoing.attributes), **there}}


def written(attributes: Attributes) -> dict[str, Any]:
    return {
        name: {"DataType": data_type, "StringValue": value}
        if isinstance(value, str)
        else {"DataType": data_type, "BinaryValue": base64.b64encode(value).decode()}
        for name, (data_type, value) in attributes.items()
    }


def not_done(outcome: dict[str, Any]) -> Failed | NotStarted | Held:
    if "not_started" in outcome:
        return NotStarted()
    if "held" in outcome:
        return Held(time_of(outcome["held"]["since"]))
    if "probed" in outcome:
        return Held(time_of(outcome["probed"]["since"]), raised(outcome["probed"]["error"]))
    return Failed(raised(outcome["error"]))


def raised(error: dict[str, Any]) -> HandlerError:
    """As a handler raises it. Only the library's errors can have any name."""
    kind, name, details = error["kind"], error["type"], error.get("details", "")
    after: Any = error.get("retry_after_seconds")
    if name == "":
        return ours(name, details, kind)._replace(retry_after_seconds=after)
    if kind == "permanent":
        return error_of(PermanentError(details, type=name))
    if kind == "snooze":
        return error_of(Snooze(after, details, type=name))
    if kind == "unavailable":
        return error_of(Unavailable(details, retry_after_seconds=after, type=name))
    if after is not None:
        return error_of(RetryAfter(after, details, type=name))
    module, _, qualname = name.rpartition(".")
    named = {"__module__": module or "builtins", "__qualname__": qualname}
    return error_of(type("Any", (Exception,), named)(details))


def test_the_circuit_breaker_goes_through_its_states_as_the_vectors_say() -> None:
    for vector in read("breaker.json"):
        settings = read_policy(json.dumps({"circuit_breaker": vector["circuit_breaker"]})).circuit_breaker
        assert settings is not None
        breaker = Breaker(settings)
        permits: dict[str, Permit] = {}
        for index, step in enumerate(vector["steps"]):
            result = stepped(breaker, permits, step)
            since = None if breaker.open_since is None else breaker.open_since - EPOCH
            assert (result, since) == (step["expect"], step["open_since_ms"]), f"{vector['name']}, step {index}: {step}"


def stepped(breaker: Breaker, permits: dict[str, Permit], step: dict[str, Any]) -> object:
    now = EPOCH + step["at_ms"]
    if "ask" in step:
        permission = breaker.ask(now)
        if isinstance(permission, str):
            return permission
        permits[step["ask"]] = permission
        return "probe" if permission.is_probe else "call"
    if "record" in step:
        of = step["record"]
        change = breaker.record(permits[of["permit"]], of["met"], of["message_id"], of.get("tenant"), now)
        if change is None:
            return None
        if isinstance(change, Opened):
            return {"opened": {"calls": change.calls, "outages": change.outages, "probe_in_ms": change.probe_in}}
        if isinstance(change, Closed):
            return {"closed": {"open_for_ms": change.open_for, "probes": change.probes}}
        return {"probe_failed": {"probe_in_ms": change.probe_in}}
    if "give_back" in step:
        breaker.give_back(permits[step["give_back"]])
    else:
        breaker.learn(EPOCH + step["learn"]["down_since_ms"], EPOCH + step["learn"]["told_at_ms"], now)
    return None


def test_a_draw_is_the_one_that_all_languages_make() -> None:
    for vector in read("backoff.json"):
        for retry in vector["retries"]:
            bounds = retry["shortest_seconds"], retry["longest_seconds"]
            drawn = spread(vector["message_id"], vector["generation"], retry["attempt"], *bounds)
            assert drawn == retry["delay_seconds"], f"{vector['name']}, retry {retry['attempt']}"


def test_a_policy_is_taken_or_refused_as_far_as_a_handler_follows_it() -> None:
    ours = re.compile("/(?:circuit_breaker|immediate|retryable|non_retryable|preset)")
    for vector in read("policies.json"):
        text = vector["text"] if "text" in vector else json.dumps(vector["document"])
        refused = vector.get("refused", [])
        wrong = [pointer for pointer in refused if ours.match(pointer)]
        if not wrong:
            assert "" in refused or read_policy(text), vector["name"]
            continue
        with pytest.raises(ValueError, match="is refused: ") as error:
            read_policy(text)
        pointers = {one.split(" ")[0] for one in str(error.value).removeprefix("is refused: ").split("; ")}
        assert sorted(pointers) == wrong, vector["name"]
