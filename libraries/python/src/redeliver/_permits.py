"""The circuit breaker of this environment: all its calls ask it, and tell it what they met."""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from ._accept import Accepted
from ._breaker import Breaker, Change, Opened, Permit, ProbeFailed
from ._errors import TIMEOUT, HandlerError
from ._metadata import held_since
from ._policy import Policy, may_be_held, met
from ._telemetry import Event, Fields, Telemetry


class Succeeded:
    """The target is done with it."""


class Failed(NamedTuple):
    error: HandlerError


class NotStarted:
    """The calls' end came before its turn."""


class Held(NamedTuple):
    """Its target has been down since then: it was not called, or its call was the probe that met this."""

    since: float
    probed: HandlerError | None = None


Outcome = Succeeded | Failed | NotStarted | Held
"""What became of one message."""

_HELD_MOMENTS_AGO = 1_800_000
"""What a held message says of its target is believed for so long: the longest delay, and as long on the queue."""


class Permitted:
    """One call that was permitted: recorded, given back or cut off, whatever comes first."""

    def __init__(
        self,
        permit: Permit | None,
        tell: Callable[[Permit, HandlerError | None], float | None],
        give_back: Callable[[Permit], None],
    ) -> None:
        self.is_probe = permit is not None and permit.is_probe
        self._permit = permit
        self._tell = tell
        self._give_back = give_back

    def record(self, error: HandlerError | None) -> Outcome:
        """What the call met. A probe of a target that is still down spends no attempt: it was this side's question."""
        permit = self._take()
        since = None if permit is None else self._tell(permit, error)
        if error is None:
            return Succeeded()
        return Failed(error) if since is None else Held(since, error)

    def give_back(self) -> None:
        """The call is not made."""
        permit = self._take()
        if permit is not None:
            self._give_back(permit)

    def cut_off(self) -> None:
        """The invocation's end came before the call's."""
        self.record(TIMEOUT)

    def _take(self) -> Permit | None:
        permit, self._permit = self._permit, None
        return permit


class Permits:
    """The breaker of an environment, as one batch sees it."""

    def __init__(self, breaker: Breaker | None, policy: Policy, telemetry: Telemetry, now: Callable[[], float]) -> None:
        self._breaker = breaker
        self._policy = policy
        self._telemetry = telemetry
        self._now = now

    def learn(self, accepted: Sequence[Accepted]) -> None:
        """What a batch says: an environment that has just begun knows of an outage by messages that were held."""
        now = self._now()
        sent = [(held_since(one.metadata, one.received.sent_at), one.received.sent_at) for one in accepted]
        told = [(since, at) for since, at in sent if since is not None and now - at < _HELD_MOMENTS_AGO]
        if told and self._breaker is not None:
            self._breaker.learn(min(since for since, _ in told), max(at for _, at in told), now)

    def ask(self, accepted: Accepted) -> Permitted | Held | Literal["wait"]:
        """Whether this message may be called now."""
        breaker, now = self._breaker, self._now()
        # What was held for as long as it may be is called whatever is known: its failures spend its attempts.
        if breaker is None or not may_be_held(self._policy, accepted.metadata.held_seconds):
            return Permitted(None, lambda *_: None, lambda _: None)
        permission = breaker.ask(now)
        if permission == "wait":
            return "wait"
        if permission == "hold":
            since = breaker.open_since
            return Held(now if since is None else since)
        return Permitted(
            permission, lambda permit, error: self._record(breaker, permit, accepted, error), breaker.give_back
        )

    @property
    def open_since(self) -> float | None:
        """Since when the target is down, if it is."""
        return None if self._breaker is None else self._breaker.open_since

    def _record(self, breaker: Breaker, permit: Permit, accepted: Accepted, error: HandlerError | None) -> float | None:
        """Since when the target is down, if that was its probe, and still is."""
        said = "answer" if error is None else met(self._policy, error)
        tenant = accepted.received.message_group_id
        change = breaker.record(permit, said, accepted.metadata.message_id, tenant, self._now())
        if change is not None:
            self._telemetry.observe(_event_of(change, "" if error is None else error.loggable))
        return breaker.open_since if isinstance(change, ProbeFailed) else None


def _event_of(change: Change, error_type: str) -> Event:
    fields: Fields
    if isinstance(change, Opened):
        calls, outages, probe_in = change
        fields = {"calls": calls, "outages": outages, "error_type": error_type, "probe_in_seconds": probe_in / 1000}
        return Event("circuit_opened", fields, {"CircuitOpen": 1})
    if isinstance(change, ProbeFailed):
        fields = {"error_type": error_type, "probe_in_seconds": change.probe_in / 1000}
        return Event("probe_failed", fields, {"Probes": 1, "CircuitOpen": 1})
    fields = {"open_seconds": change.open_for / 1000, "probes": change.probes}
    return Event("circuit_closed", fields, {"Probes": 1})
