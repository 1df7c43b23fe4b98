"""One batch: parse → call the handler → hand off what failed → report."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypedDict

from ._accept import Accepted, Refused, accept
from ._breaker import Breaker
from ._calls import Call, Calling, call_all
from ._clock import Clock, keep_free
from ._delivery import deliver
from ._guard import Guarded
from ._hand_off import Sending, handed_off, refusal
from ._metadata import first_sent
from ._permits import Held, Permits, Succeeded
from ._record import Received, records_of
from ._sending import EntryError, Queue
from ._settings import Settings
from ._telemetry import Event, Telemetry

_SEND_RESERVE = 5000
"""Milliseconds kept free at the end of an invocation, for the sends and the answer."""
_ANSWER_RESERVE = 500
"""Of that, for the answer."""


class ItemFailure(TypedDict):
    itemIdentifier: str


class BatchResponse(TypedDict):
    """What Lambda reads of the answer: which records come back."""

    batchItemFailures: list[ItemFailure]


class World(NamedTuple):
    """What a batch needs of the world, and what outlives it."""

    settings: Settings
    queue: Queue
    clock: Clock
    breaker: Breaker | None
    write: Callable[[str], object]
    """Takes a line of telemetry."""


async def process_batch(world: World, handle: Guarded, event: Any, context: Any, deadline: float) -> BatchResponse:
    """:raises ValueError: if the event is none of SQS: nothing of it is known to be done, and SQS delivers it again."""
    telemetry = Telemetry(world.settings.function_name, world.settings.logging, world.clock, world.write)
    readable, unreadable = records_of(event)
    try:
        for message_id in unreadable:
            telemetry.observe(Event("unreadable_record", {"sqs_message_id": message_id}, {"UnreadableRecord": 1}))
        failed = await _process(world, telemetry, handle, readable, context, deadline)
        return {"batchItemFailures": [{"itemIdentifier": one} for one in sorted({*unreadable, *failed})]}
    finally:
        telemetry.flush()


async def _process(
    world: World,
    telemetry: Telemetry,
    handle: Guarded,
    records: Sequence[Received],
    context: Any,
    deadline: float,
) -> list[str]:
    """SQS's ids of the records that are not done."""
    settings, queue, clock, breaker, _ = world
    now = clock()
    opened = [accept(settings.id_sources, received) for received in records]
    accepted = [one for one in opened if isinstance(one, Accepted)]
    permits = Permits(breaker, settings.policy, telemetry, clock)
    permits.learn(accepted)
    # Fixed before the calls begin: a handler that hangs must leave the time in which its messages are sent on.
    end = keep_free(_SEND_RESERVE, now, deadline)
    calling = Calling(handle, context, settings.policy, permits, clock, telemetry, settings.max_concurrency, end)
    calls = await call_all(calling, accepted)

    ended = clock()
    _tell_held(telemetry, calls, ended)
    sendings: list[Sending] = []
    for one, (outcome, seconds) in zip(accepted, calls, strict=True):
        if isinstance(outcome, Succeeded):
            _tell_processed(telemetry, one, seconds, ended)
        else:
            sendings.append(handed_off(one, outcome, ended))
    sendings += [refusal(one, now) for one in opened if isinstance(one, Refused)]
    return await _send(queue, clock, keep_free(_ANSWER_RESERVE, clock(), deadline), telemetry, sendings)


async def _send(
    queue: Queue, clock: Clock, answer_by: float, telemetry: Telemetry, sendings: Sequence[Sending]
) -> list[str]:
    """A record is done when, and only when, its own send is confirmed."""
    outgoing = [sending.outgoing for sending in sendings if sending.outgoing is not None]
    outcomes = iter(await deliver(queue, clock, answer_by, outgoing))
    failed: list[str] = []
    for sending in sendings:
        error = next(outcomes) if sending.outgoing is not None else EntryError("refused", "NoPlaceForFailure")
        if error is not None:
            message_id = sending.received.id
            fields = {"sqs_message_id": message_id, "send": "hand-off", "code": error.code}
            telemetry.observe(Event("not_confirmed", fields, {"NotConfirmed": 1}))
            failed.append(message_id)
        elif sending.confirmed is not None:
            telemetry.observe(sending.confirmed)
    return failed


def _tell_processed(telemetry: Telemetry, accepted: Accepted, seconds: float, now: float) -> None:
    metadata = accepted.metadata
    age = max(0.0, now - first_sent(metadata, accepted.received.sent_at)) / 1000
    fields = {
        "message_id": metadata.message_id,
        "retry_attempt": metadata.retry_attempt,
        "age_seconds": age,
        "target_seconds": seconds,
    }
    metrics = {"Processed": 1, "MessageAgeSeconds": age, "TargetSeconds": seconds}
    telemetry.observe(Event("processed", fields, metrics))


def _tell_held(telemetry: Telemetry, calls: Sequence[Call], now: float) -> None:
    since = [outcome.since for outcome, _ in calls if isinstance(outcome, Held)]
    if since:
        open_seconds = max(0.0, now - min(since)) / 1000
        metrics = {"Held": len(since), "CircuitOpen": 1}
        telemetry.observe(Event("held", {"messages": len(since), "open_seconds": open_seconds}, metrics))
