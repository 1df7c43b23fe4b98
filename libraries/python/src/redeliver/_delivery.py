"""Delivery: pack → send → try again what can be → one outcome per message. As ``delivery.rs`` of the Rust functions."""

import asyncio
from collections.abc import Sequence

from ._clock import Clock
from ._sending import EntryError, EntryOutcome, Outgoing, Queue, pack, why_not_sendable

_CONCURRENT_BATCHES = 8
"""Batches on their way at the same time."""
_SENDS_PERHAPS_DONE_MAX = 2
"""So often a message may be sent without an answer that it was refused: each except the first may make a copy."""
_FIRST_WAIT = 50
"""Before the first resend of refused entries; doubles each time."""
_LONGEST_WAIT = 2000
"""Between two resends at most, and before one that may make a copy."""
_PATIENCE_MIN = 5000
"""The least time that an answer has."""
_NO_ANSWER = EntryError("no answer", "NoAnswerBeforeDeadline")


async def deliver(queue: Queue, clock: Clock, deadline: float, messages: Sequence[Outgoing]) -> list[EntryOutcome]:
    """Sends all before the deadline. One outcome each, in order; what SQS would refuse fails alone, and is not sent."""
    refused = [why_not_sendable(message) for message in messages]
    batches = pack([message for message, why in zip(messages, refused, strict=True) if why is None])
    outcomes: dict[int, list[EntryOutcome]] = {}
    waiting = iter(enumerate(batches))

    async def work() -> None:
        for number, batch in waiting:
            outcomes[number] = await _Settling(queue, clock, deadline, batch).run()

    await asyncio.gather(*(work() for _ in range(min(_CONCURRENT_BATCHES, len(batches)))))
    in_order = iter([outcome for number in sorted(outcomes) for outcome in outcomes[number]])
    return [next(in_order) if why is None else EntryError("refused", why) for why in refused]


class _Entry:
    def __init__(self, outgoing: Outgoing, now: float) -> None:
        self.outgoing = outgoing
        self.outcome: EntryOutcome = _NO_ANSWER
        self.due: float | None = now
        """When it is sent (again)."""
        self.under_way = 0
        """Requests that may still be answered."""
        self.perhaps_done = 0
        """Sends of which no answer says that they were not done."""

    @property
    def may_change(self) -> bool:
        return self.outcome is not None and (self.due is not None or self.under_way > 0)


class _Settling:
    """Each entry of a batch, tried until it has an outcome that another try cannot better."""

    def __init__(self, queue: Queue, clock: Clock, deadline: float, batch: Sequence[Outgoing]) -> None:
        self._queue = queue
        self._clock = clock
        self._deadline = deadline
        self._entries = [_Entry(outgoing, clock()) for outgoing in batch]
        self._answers = 0

    async def run(self) -> list[EntryOutcome]:
        # An entry sent twice has two requests under way: the first answer that confirms it counts, whichever that is.
        requests: set[asyncio.Task[None]] = set()
        while True:
            now = self._clock()
            if now >= self._deadline or not any(entry.may_change for entry in self._entries):
                for request in requests:
                    request.cancel()
                return [entry.outcome for entry in self._entries]
            due = self._take_due(now)
            if due:
                requests.add(asyncio.create_task(self._request(due)))
            next_due = min((entry.due for entry in self._entries if entry.due is not None), default=self._deadline)
            patience = (min(next_due, self._deadline) - now) / 1000
            if requests:
                _, requests = await asyncio.wait(requests, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            else:
                await asyncio.sleep(patience)

    async def _request(self, entries: Sequence[_Entry]) -> None:
        answers = await self._queue.send([entry.outgoing for entry in entries])
        self._answers += 1
        now = self._clock()
        left = self._deadline - now
        soon = self._in_time(now + _jittered(min(_FIRST_WAIT * 2 ** (self._answers - 1), _LONGEST_WAIT), now))
        last = self._in_time(now + _jittered(min(_LONGEST_WAIT, left / 2), now))
        for index, entry in enumerate(entries):
            # If it has too few answers the rest has none.
            _answered(entry, answers[index] if index < len(answers) else _NO_ANSWER, soon, last)

    def _take_due(self, now: float) -> list[_Entry]:
        """The entries that are to be sent now."""
        # Half of what remains: the one more send must have time for its own answer.
        patience = self._in_time(now + max((self._deadline - now) / 2, _PATIENCE_MIN))
        due = [entry for entry in self._entries if entry.due is not None and entry.due <= now]
        for entry in due:
            # The last refusal says nothing of this send.
            if entry.perhaps_done == 0:
                entry.outcome = _NO_ANSWER
            entry.under_way += 1
            # Counted before there is an answer, since none may come. A refusal takes it back.
            entry.perhaps_done += 1
            entry.due = patience if entry.perhaps_done < _SENDS_PERHAPS_DONE_MAX else None
        return due

    def _in_time(self, then: float) -> float | None:
        """Nothing is sent that the deadline leaves no time for."""
        return then if then < self._deadline else None


def _answered(entry: _Entry, error: EntryOutcome, soon: float | None, last: float | None) -> None:
    entry.under_way -= 1
    if error is None or entry.outcome is None:
        entry.outcome, entry.due = None, None
        return
    may_be_done = error.fault in ("service", "no answer")
    entry.perhaps_done -= 0 if may_be_done else 1
    # No refusal of a later send takes back that an earlier one may have been done.
    if may_be_done or entry.perhaps_done == 0:
        entry.outcome = error
    # What may have been done waits long, since it is sent only once more; what was refused was not done, so soon.
    again = last if may_be_done else soon
    may_be_sent = error.fault != "refused" and entry.perhaps_done < _SENDS_PERHAPS_DONE_MAX
    entry.due = min(again, again if entry.due is None else entry.due) if may_be_sent and again is not None else None


def _jittered(longest: float, now: float) -> float:
    """The clock's own part of a second takes up to half of it away, so that many instances do not move in step."""
    return longest - longest * (now % 1000) / 2000
