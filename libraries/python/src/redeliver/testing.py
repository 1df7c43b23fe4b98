"""A handler on one message, without AWS: what would be handed off?

::

    result = try_message(handler, data={"order": 17})
    assert result.hand_off is None
"""

import asyncio
import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ._attributes import FAILURE, Attribute, base64_of, text
from ._batch import World
from ._breaker import Breaker
from ._clock import system_clock
from ._guard import Handle, is_async
from ._handler import HANDLE, LambdaHandler, handler_in
from ._loop import run_in
from ._message import Message
from ._sending import Outgoing
from ._settings import read_settings

__all__ = ["HandedOff", "Result", "try_message"]


class HandedOff(NamedTuple):
    """What would be sent to the intermediate DLQ."""

    failure: dict[str, Any]
    """The attribute ``Failure``, read: ``type``, ``details``, ``kind``, ``retry_after_seconds`` and the delivery."""
    body: str
    attributes: dict[str, Attribute]
    """All message attributes, ``Failure`` among them."""


class Result(NamedTuple):
    """What has become of a message."""

    done: bool
    """The target is done with it: nothing is sent."""
    called: bool
    """Whether the handler was called: a message that is invalid does not come to it."""
    hand_off: HandedOff | None
    """What would be sent to the intermediate DLQ."""
    reported: bool
    """It would be reported as failed, without a reason: it cannot be read, or has no place for one. SQS moves it."""
    lines: list[dict[str, Any]]
    """The lines of logs and metrics."""


class _Context(NamedTuple):
    end: float

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int(1000 * (self.end - time.monotonic())))


class _Taken:
    """A queue that takes everything."""

    def __init__(self) -> None:
        self.sent: list[Outgoing] = []

    async def send(self, entries: Sequence[Outgoing]) -> list[None]:
        self.sent += entries
        return [None] * len(entries)


def try_message(
    handler: LambdaHandler | Handle,
    *,
    data: Any = None,
    metadata: Mapping[str, Any] | None = None,
    body: str | None = None,
    attributes: Mapping[str, Attribute] | None = None,
    record: Mapping[str, Any] | None = None,
    settings: Mapping[str, str] | None = None,
    seconds: float = 30,
) -> Result:
    """Runs what ``redeliver.handler`` was given, or has made of it, on one message.

    Each trial has a circuit breaker and an event loop of its own. With neither ``data`` nor ``body`` nor ``record`` the
    message is an envelope with an empty ``data``.

    :param data: what an envelope is made around.
    :param metadata: further members of the envelope's ``metadata``, such as ``retry_attempt``.
    :param body: the body as it is, instead of an envelope.
    :param attributes: the producer's message attributes.
    :param record: a record as Lambda gives it, instead of all of the above.
    :param settings: as in the environment, such as ``ENVELOPE`` and ``RETRY_POLICY``.
    :param seconds: what is left of the invocation: the handler is cut off 5 s before that, or after half of it.
    :raises ValueError: if the settings are not right.
    """
    handle: Any = getattr(handler, HANDLE, handler)
    read = read_settings({"INTERMEDIATE_DLQ_URL": "https://sqs.invalid/0/intermediate-dlq", **(settings or {})})
    breaker = None if read.policy.circuit_breaker is None else Breaker(read.policy.circuit_breaker)
    queue = _Taken()
    lines: list[dict[str, Any]] = []
    world = World(read, queue, system_clock, breaker, lambda line: lines.append(json.loads(line)))
    calls: list[str] = []
    loop = asyncio.new_event_loop()
    try:
        one = handler_in(lambda: world, lambda work: run_in(loop, work), _counted(handle, calls))
        event = {"Records": [_record(data, metadata, body, attributes, record)]}
        answer = one(event, _Context(time.monotonic() + seconds))
        # What was cut off hears of it.
        run_in(loop, asyncio.sleep(0))
    finally:
        loop.close()
    reported = bool(answer["batchItemFailures"])
    hand_off = _handed_off(queue.sent[0]) if queue.sent else None
    return Result(hand_off is None and not reported, bool(calls), hand_off, reported, lines)


def _counted(handle: Any, calls: list[str]) -> Handle:
    if is_async(handle):

        async def waiting(message: Message[Any]) -> object:
            calls.append(message.message_id)
            return await handle(message)

        return waiting

    def blocking(message: Message[Any]) -> object:
        calls.append(message.message_id)
        return handle(message)

    return blocking


def _handed_off(outgoing: Outgoing) -> HandedOff:
    failure = json.loads(text(outgoing.attributes.get(FAILURE)) or "{}")
    return HandedOff(failure, outgoing.body, dict(outgoing.attributes))


def _record(
    data: Any,
    metadata: Mapping[str, Any] | None,
    body: str | None,
    attributes: Mapping[str, Attribute] | None,
    record: Mapping[str, Any] | None,
) -> Mapping[str, Any]:
    if record is not None:
        return record
    named = {"message_id": str(uuid.uuid4()), **(metadata or {})}
    return {
        "messageId": str(uuid.uuid4()),
        "body": json.dumps({"metadata": named, "data": {} if data is None else data}) if body is None else body,
        "attributes": {"SentTimestamp": str(int(system_clock())), "ApproximateReceiveCount": "1"},
        "messageAttributes": {name: _written(attribute) for name, attribute in (attributes or {}).items()},
        "eventSourceARN": "arn:aws:sqs:eu-west-1:000000000000:source",
    }


def _written(attribute: Attribute) -> dict[str, str]:
    data_type, value = attribute
    if isinstance(value, str):
        return {"dataType": data_type, "stringValue": value}
    return {"dataType": data_type, "binaryValue": base64_of(value)}
