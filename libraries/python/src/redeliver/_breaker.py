"""The circuit breaker: whether a target may be called.

``crates/core/src/breaker.rs`` draws its states; both are held to schemas/vectors/breaker.json.
"""

import math
from typing import Literal, NamedTuple

from ._policy import CircuitBreaker, Met
from ._spread import spread
from ._window import PastCall, PastCalls

_SLOW_START_CALLS_MAX = 32
"""Calls at once of the last level of a slow start. 1, 2, 4 … 32 are 63 calls: more than an environment has at once."""


class Permit(NamedTuple):
    """A call that was permitted: its outcome must be recorded, or it is given back."""

    epoch: int
    is_probe: bool
    """It asks if a target that is down is back."""


Permission = Permit | Literal["wait", "hold"]
"""``wait``: a call that is running will tell. ``hold``: the target is down."""


class Opened(NamedTuple):
    calls: int
    outages: int
    probe_in: float


class ProbeFailed(NamedTuple):
    probe_in: float


class Closed(NamedTuple):
    open_for: float
    probes: int


Change = Opened | ProbeFailed | Closed
"""What a call has changed; times in milliseconds."""


class _Level(NamedTuple):
    """So many calls at once of a slow start; of those that have ended, how many met an outage."""

    calls_at_once: int
    ended: int = 0
    outages: int = 0


class _IsClosed:
    def __init__(self, calls: PastCalls | None = None) -> None:
        self.calls = calls or PastCalls()


class _IsOpen:
    def __init__(self, since: float, probe_at: float, next_interval: float) -> None:
        self.since = since
        self.probe_at = probe_at
        # What it waits after a probe that fails.
        self.next_interval = next_interval
        self.is_probing = False
        self.probes = 0


class _SlowStart:
    def __init__(self) -> None:
        self.level = _Level(2)
        self.running = 0
        self.calls = PastCalls()


class _ClosedBefore(NamedTuple):
    at: float
    next_interval: float


class Breaker:
    """The breaker of one environment."""

    def __init__(self, settings: CircuitBreaker) -> None:
        self._settings = settings
        self._state: _IsClosed | _IsOpen | _SlowStart = _IsClosed()
        # Which of its states this is: a call that began in another one says nothing of this one.
        self._epoch = 0
        # Of its last closing: a target that flaps is not probed every few seconds anew.
        self._closed_before: _ClosedBefore | None = None

    def ask(self, now: float) -> Permission:
        state = self._state
        if isinstance(state, _IsClosed):
            return Permit(self._epoch, is_probe=False)
        if isinstance(state, _SlowStart):
            if state.running >= state.level.calls_at_once:
                return "wait"
            state.running += 1
            return Permit(self._epoch, is_probe=False)
        if state.is_probing:
            return "wait"
        # A clock that was set back must not keep the target from being probed.
        state.probe_at = min(state.probe_at, now + self._settings.probe_interval_max)
        if now < state.probe_at:
            return "hold"
        state.is_probing = True
        state.probes += 1
        return Permit(self._epoch, is_probe=True)

    def record(self, permit: Permit, met: Met, message_id: str, tenant: str | None, now: float) -> Change | None:
        """What a permitted call met; the message is whose call it was: its id spreads the probes of environments."""
        # It began before the target went down, or before it came back.
        if permit.epoch != self._epoch:
            return None
        state = self._state
        if isinstance(state, _IsOpen):
            return self._probed(state, met, message_id, now)
        state.calls.push(PastCall(now, tenant, met), self._settings)
        if state.calls.show_an_outage(self._settings):
            return self._open(state.calls, message_id, now)
        if isinstance(state, _SlowStart):
            state.running = max(0, state.running - 1)
            level = _after(state.level, met, self._settings.failure_rate)
            if level is None:
                self._become(_IsClosed(state.calls))
            else:
                state.level = level
        return None

    def give_back(self, permit: Permit) -> None:
        """A permitted call was not made."""
        state = self._state
        if permit.epoch != self._epoch:
            return
        if isinstance(state, _SlowStart):
            state.running = max(0, state.running - 1)
        elif isinstance(state, _IsOpen):
            state.is_probing = False
            state.probes -= 1

    def learn(self, down_since: float, told_at: float, now: float) -> None:
        """What a message says that arrives: it was held, its target has been down since then, as was told then.

        An environment that knows nothing better is half-open at once, instead of learning it by calls that fail.
        """
        state, settings = self._state, self._settings
        was_back = self._closed_before is not None and told_at <= self._closed_before.at
        if not isinstance(state, _IsClosed) or was_back or state.calls.are_recent(settings.window, now):
            return
        # After hours nobody needs to begin with short intervals.
        interval = min(max(now - down_since, settings.probe_interval), settings.probe_interval_max)
        self._become(_IsOpen(min(down_since, now), probe_at=now, next_interval=interval))

    @property
    def open_since(self) -> float | None:
        """Since when it is open, if it is."""
        return self._state.since if isinstance(self._state, _IsOpen) else None

    def _probed(self, state: _IsOpen, met: Met, message_id: str, now: float) -> Change:
        if met == "outage":
            probe_in = _jittered(state.next_interval, message_id, state.probes)
            state.is_probing = False
            state.probe_at = now + probe_in
            state.next_interval = self._doubled(state.next_interval)
            return ProbeFailed(probe_in)
        self._closed_before = _ClosedBefore(now, state.next_interval)
        self._become(_SlowStart())
        return Closed(max(0, now - state.since), state.probes)

    def _open(self, calls: PastCalls, message_id: str, now: float) -> Opened:
        before, interval = self._closed_before, self._settings.probe_interval
        # A target that is down again so soon was not really back: it is probed as seldom as before.
        if before is not None and now - before.at < self._settings.probe_interval_max:
            interval = before.next_interval
        probe_in = _jittered(interval, message_id, 0)
        self._become(_IsOpen(now, probe_at=now + probe_in, next_interval=self._doubled(interval)))
        return Opened(len(calls), calls.outages, probe_in)

    def _become(self, state: _IsClosed | _IsOpen | _SlowStart) -> None:
        self._state = state
        self._epoch += 1

    def _doubled(self, interval: float) -> float:
        return min(2 * interval, self._settings.probe_interval_max)


def _after(level: _Level, met: Met, failure_rate: float) -> _Level | None:
    """The level after one more call: again if it did not go well; none after the last one."""
    at_once = level.calls_at_once
    ended, outages = level.ended + 1, level.outages + (met == "outage")
    if ended < at_once:
        return _Level(at_once, ended, outages)
    following = 2 * at_once if outages / ended < failure_rate else at_once
    return _Level(following) if following <= _SLOW_START_CALLS_MAX else None


def _jittered(interval: float, message_id: str, probe: int) -> int:
    """From three quarters of it to all of it: many environments find out at the same moment."""
    longest = math.floor(interval)
    return spread(message_id, 0, probe, longest - longest // 4, longest)
