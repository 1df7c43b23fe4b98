"""The last calls, and whether they show an outage."""

from typing import NamedTuple

from ._policy import CircuitBreaker, Met

_NEWEST_CALLS = 5
"""The newest calls of the window are looked at, so many times ``minimum_calls``."""


class PastCall(NamedTuple):
    at: float
    tenant: str | None
    """Whose message it is: its ``MessageGroupId``."""
    met: Met


class PastCalls:
    """Calls that have ended, the newest last."""

    def __init__(self) -> None:
        self._calls: list[PastCall] = []

    def push(self, call: PastCall, settings: CircuitBreaker) -> None:
        """With it, only those that still say something."""
        calls = [*self._calls, call]
        # What no answer has followed says that the target is down however long ago it was.
        since_answer = next((back for back, past in enumerate(reversed(calls)) if past.met == "answer"), len(calls))
        # A clock that was set back makes nothing old. Half a minute of answers must not outvote a busy flow's last
        # second.
        old = next((index for index, past in enumerate(calls) if call.at - past.at < settings.window), len(calls))
        kept = min(max(len(calls) - old, since_answer), settings.minimum_calls * _NEWEST_CALLS)
        self._calls = calls[len(calls) - kept :]

    def are_recent(self, window: float, now: float) -> bool:
        return bool(self._calls) and now - self._calls[-1].at < window

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def outages(self) -> int:
        return sum(call.met == "outage" for call in self._calls)

    def show_an_outage(self, settings: CircuitBreaker) -> bool:
        """Whether enough of enough calls met an outage, the last one among them.

        Also of those that are not of the tenant with the most outages: what is wrong with one tenant is no outage for
        the others.
        """
        calls, outages = len(self), self.outages
        if calls < settings.minimum_calls or self._calls[-1].met != "outage" or outages / calls < settings.failure_rate:
            return False
        of_worst, outages_of_worst = self._worst_tenant()
        others = calls - of_worst
        return others == 0 or (outages - outages_of_worst) / others >= settings.failure_rate

    def _worst_tenant(self) -> tuple[int, int]:
        """Of two with as many outages that with fewer calls: the other's answers say that the target is there."""
        tenants: dict[str, tuple[int, int]] = {}
        for _, tenant, met in self._calls:
            if tenant is not None:
                calls, outages = tenants.get(tenant, (0, 0))
                tenants[tenant] = (calls + 1, outages + (met == "outage"))
        return min(tenants.values(), key=lambda tenant: (-tenant[1], tenant[0]), default=(0, 0))
