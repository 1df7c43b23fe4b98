"""Sends: confirmed entry by entry, tried again where that helps, and never a storm of copies."""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import pytest

from redeliver import Attribute
from redeliver._delivery import deliver
from redeliver._sending import EntryError, Outgoing

from .world import START, FakeQueue, Never, VirtualClock

REFUSED = EntryError("refused", "refused")
THROTTLED = EntryError("throttled", "throttled")
NOT_SENT = EntryError("not sent", "not sent")
SERVICE = EntryError("service", "service")
LOST = EntryError("no answer", "no answer")

Delivered = Callable[..., tuple[list[str], list[str], float]]


@pytest.fixture
def delivered() -> Iterator[Delivered]:
    """Codes, the bodies of each request, and the seconds that it took."""
    clocks = []

    def run(queue: FakeQueue, messages: list[Outgoing] | None = None) -> tuple[list[str], list[str], float]:
        clock = VirtualClock()
        clocks.append(clock)
        both = [Outgoing("a", {}), Outgoing("b", {})]
        outcomes = clock.run_until_complete(deliver(queue, clock, START + 20_000, messages or both))
        bodies = ["".join(entry.body for entry in request) for request in queue.requests]
        return [outcome.code if outcome else "confirmed" for outcome in outcomes], bodies, clock.seconds

    yield run
    for clock in clocks:
        clock.close()


def one() -> list[Outgoing]:
    return [Outgoing("a", {})]


def test_what_is_confirmed_is_not_sent_again_and_what_is_refused_neither(delivered: Delivered) -> None:
    assert delivered(FakeQueue()) == (["confirmed", "confirmed"], ["ab"], 0)
    assert delivered(FakeQueue([None, REFUSED])) == (["confirmed", "refused"], ["ab"], 0)


@pytest.mark.parametrize("fault", [THROTTLED, NOT_SENT])
def test_what_is_throttled_or_did_not_get_there_is_sent_again_soon_and_alone(
    delivered: Delivered, fault: EntryError
) -> None:
    again = delivered(FakeQueue([fault, None], [fault]))
    assert again == (["confirmed", "confirmed"], ["ab", "a", "a"], 0.1475)


def test_throttles_go_on_until_the_deadline_with_longer_and_longer_waits(delivered: Delivered) -> None:
    codes, bodies, seconds = delivered(FakeQueue(*[[THROTTLED]] * 99), one())
    assert (codes, len(bodies)) == (["throttled"], 15)
    assert seconds < 20


@pytest.mark.parametrize("fault", [SERVICE, LOST])
def test_what_may_have_been_done_is_sent_once_more_after_a_pause_and_no_further(
    delivered: Delivered, fault: EntryError
) -> None:
    assert delivered(FakeQueue([fault], [fault], [None]), one()) == ([fault.code], ["a", "a"], 2)
    assert delivered(FakeQueue([fault]), one()) == (["confirmed"], ["a", "a"], 2)
    # No refusal of the second takes back that the first may have been done.
    assert delivered(FakeQueue([fault], [REFUSED]), one())[0] == [fault.code]


def test_a_request_without_an_answer_is_made_once_more_after_half_of_the_time(delivered: Delivered) -> None:
    assert delivered(FakeQueue(Never, Never), one()) == (["NoAnswerBeforeDeadline"], ["a", "a"], 20)
    assert delivered(FakeQueue(Never), one()) == (["confirmed"], ["a", "a"], 10)


class Late(FakeQueue):
    """Answers each request after so many seconds."""

    def __init__(self, *answers: tuple[float, list[EntryError | None]]) -> None:
        super().__init__(*(outcomes for _, outcomes in answers))
        self._seconds = [seconds for seconds, _ in answers]

    async def send(self, entries: Sequence[Outgoing]) -> Sequence[EntryError | None]:
        seconds = self._seconds[len(self.requests)]
        outcomes = await super().send(entries)
        await asyncio.sleep(seconds)
        return outcomes


def test_a_confirmation_stands_whatever_a_later_answer_says(delivered: Delivered) -> None:
    # The second request is made at 10 s; its answer for `b` is waited for.
    queue = Late((11, [None, SERVICE]), (2, [LOST, None]))
    assert delivered(queue) == (["confirmed", "confirmed"], ["ab", "ab"], 12)


def test_an_answer_with_too_few_entries_confirms_only_those(delivered: Delivered) -> None:
    assert delivered(FakeQueue([None], [None]))[:2] == (["confirmed", "confirmed"], ["ab", "b"])


def test_one_batch_that_waits_holds_up_no_other(delivered: Delivered) -> None:
    codes, bodies, _ = delivered(FakeQueue([THROTTLED] * 10), [Outgoing(str(n), {}) for n in range(95)])
    assert set(codes) == {"confirmed"}
    assert (len(bodies), bodies[-1]) == (11, "0123456789")


def test_what_sqs_would_refuse_fails_alone_and_is_not_sent(delivered: Delivered) -> None:
    def of(name: str, data_type: str, value: str | bytes) -> Outgoing:
        return Outgoing("x", {name: Attribute(data_type, value)})

    wrong = [
        (Outgoing("", {}), "EmptyBody"),
        (Outgoing("\0", {}), "IllegalCharacter"),
        (Outgoing("x" * 1_048_577, {}), "TooLarge"),
        (Outgoing("x", {f"a{n}": Attribute("String", "x") for n in range(11)}), "TooManyAttributes"),
        (of("a b", "String", "x"), "AttributeName"),
        (of("AWS.a", "String", "x"), "AttributeName"),
        (of("a..b", "String", "x"), "AttributeName"),
        (of("a\n", "String", "x"), "AttributeName"),
        (of("a", "Text", "x"), "AttributeType"),
        (of("a", "Binary", "x"), "AttributeValue"),
        (of("a", "String", b"\1"), "AttributeValue"),
        (of("a", "String", "\ufffe"), "IllegalCharacter"),
        (of("a", "String", ""), "EmptyAttribute"),
        (of("a", "Number", "x"), "NotANumber"),
        (of("a", "Number", "\u0661"), "NotANumber"),
        (Outgoing("x", {}, "a b"), "MessageGroupId"),
        (Outgoing("x", {}, None, ""), "EmptyTraceHeader"),
        (Outgoing("x", {}, None, "\1"), "IllegalCharacter"),
    ]
    right = [
        of("ä", "String.json", "x"),
        of("a", "Number.int", " +1e5 "),
        of("a", "Binary_", b"\0"),
        Outgoing("x", {}, "ü!"),
    ]
    codes, bodies, _ = delivered(FakeQueue(), [message for message, _ in wrong] + right)
    assert codes == [code for _, code in wrong] + ["confirmed"] * 4
    assert bodies == ["xxxx"]
