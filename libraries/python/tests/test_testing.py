"""The testing helper, and the decorator: what would be handed off?"""

import asyncio
import json
from typing import Any

import pytest

import redeliver
from redeliver import Attribute, Message, PermanentError
from redeliver.testing import try_message

from .world import id_of, record

PLAIN = {"ENVELOPE": "optional"}


def test_a_message_is_made_around_data_or_is_what_it_is() -> None:
    found: list[Message[Any]] = []
    handler = redeliver.handler(found.append)
    attributes = {"a": Attribute("Binary", b"\0\xff"), "b": Attribute("String", "x")}
    result = try_message(handler, data={"n": 1}, metadata={"retry_attempt": 2}, attributes=attributes)
    assert (result.done, result.called, result.reported, result.hand_off) == (True, True, False, None)
    assert (found[0].data, found[0].retry_attempt, found[0].attributes) == ({"n": 1}, 2, attributes)
    try_message(handler, body='{"order":17}', settings={**PLAIN, "MESSAGE_ID_POINTER": "/order"})
    assert (found[1].data, found[1].idempotency_key, found[1].body) == ({"order": 17}, "17", '{"order":17}')
    try_message(handler, record=record(7))
    assert found[2].message_id == id_of(7)
    assert 0 < found[2].context.get_remaining_time_in_millis() <= 30_000


def test_a_plain_body_that_is_no_json_is_a_permanent_error_without_the_value() -> None:
    hand_off = try_message(lambda message: message.data, body="canary", settings=PLAIN).hand_off
    assert hand_off is not None
    failure = {name: hand_off.failure[name] for name in ("type", "kind", "details")}
    assert failure == {"type": "InvalidData", "kind": "permanent", "details": "the body is not JSON"}
    assert hand_off.body == "canary"
    assert try_message(lambda message: message.body, body="canary", settings=PLAIN).done


def test_it_says_what_is_invalid_what_has_no_place_and_what_hangs() -> None:
    invalid = try_message(print, body="x")
    assert invalid.hand_off is not None
    assert (invalid.called, invalid.hand_off.failure["type"]) == (False, "InvalidMessage")

    def fails(_: object) -> None:
        raise ValueError

    no_place = try_message(fails, attributes={f"a{number}": Attribute("String", "x") for number in range(10)})
    assert (no_place.done, no_place.reported, no_place.hand_off) == (False, True, None)

    async def hangs(_: object) -> None:
        await asyncio.Event().wait()

    cut_off = try_message(hangs, seconds=0.1).hand_off
    assert cut_off is not None
    assert cut_off.failure["type"] == "Timeout"
    with pytest.raises(ValueError, match="RETRY_POLICY is not JSON"):
        try_message(print, settings={"RETRY_POLICY": "x"})


def test_it_can_be_called_inside_an_event_loop() -> None:
    async def handle(message: Message[Any]) -> None:
        await asyncio.sleep(0)
        raise PermanentError("x")

    async def test() -> bool:
        return try_message(handle).done

    assert asyncio.run(test()) is False


class Client:
    def __init__(self) -> None:
        self.sent: list[Any] = []

    def send_message_batch(self, **request: Any) -> Any:
        self.sent += request["Entries"]
        return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]]}


@pytest.mark.parametrize("is_async", [False, True])
def test_a_lambda_function_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], is_async: bool
) -> None:
    monkeypatch.setenv("INTERMEDIATE_DLQ_URL", "https://sqs.invalid/0/intermediate")
    client, loops = Client(), set()

    def sync_handle(message: Message[Any]) -> None:
        """One order."""
        if message.data["n"] == 3:
            raise PermanentError("no such order")

    async def async_handle(message: Message[Any]) -> None:
        """One order."""
        loops.add(asyncio.get_running_loop())
        sync_handle(message)

    handler = redeliver.handler(client=client)(async_handle if is_async else sync_handle)
    assert handler.__doc__ == "One order."
    event = {"Records": [record(number) for number in range(5)]}
    for _ in range(2):
        assert handler(event, None) == {"batchItemFailures": []}
    assert [json.loads(entry["MessageBody"])["data"]["n"] for entry in client.sent] == [3, 3]
    # What a coroutine keeps, such as a connection, is of use to the next one.
    assert len(loops) == (1 if is_async else 0)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["event"], line["Processed"], line["HandedOff"]) for line in lines] == [("batch", 4, 1)] * 2
