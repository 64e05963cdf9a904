"""The figures of a soak: disturbances of the broker, and their effects on its clients."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final, NamedTuple

from tests.kit.soak.events import Event

__all__ = ["RESTART", "Rounds", "table", "up_part"]

RESTART: Final = "restart"
_AROUND: Final = 3.0
"""Seconds before a round trip in which a disturbance may have begun that it suffers from."""


class Round(NamedTuple):
    """A round trip of the canary, and the disturbances during it."""

    seconds: float
    during: str


class Rounds:
    """The disturbances of a soak, and the round trips of its canary."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.counts: Counter[str] = Counter()
        """How often each disturbance was made."""
        self._disturbances: list[tuple[float, float, str]] = []
        rounds: list[tuple[float, float]] = []
        down = 0.0
        for event in events:
            match event.kind, event.fields:
                case "round", (seconds,):
                    rounds.append((event.time - float(seconds), event.time))
                case "disturb", (name, seconds):
                    self.counts[name] += 1
                    self._disturbances.append((event.time, event.time + float(seconds), name))
                case "down", _:
                    down = event.time
                case "ready", _ if down:
                    self._disturbances.append((down, event.time, RESTART))
        self.all = [Round(end - begin, self._during(begin, end)) for begin, end in rounds]
        self.all.sort()

    def _during(self, begin: float, end: float) -> str:
        names = Counter(
            name
            for since, until, name in self._disturbances
            if since <= end and until >= begin - _AROUND
        )
        return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in sorted(names.items()))

    def percentile(self, part: float) -> float:
        """Return the seconds within which this part of the round trips was made."""
        if not self.all:
            return float("nan")
        return self.all[min(len(self.all) - 1, int(len(self.all) * part))].seconds

    def slowest(self, kinds: Iterable[str]) -> Round | None:
        """Return the slowest round trip during which none of these disturbances was going on."""
        excluded = tuple(kinds)
        for each in reversed(self.all):
            if not any(kind in each.during for kind in excluded):
                return each
        return None


def up_part(events: Iterable[Event]) -> float:
    """Return the part of the time in which the broker accepted clients."""
    up, since, begin, end = 0.0, None, None, 0.0
    for event in events:
        begin, end = event.time if begin is None else begin, event.time
        if event.kind == "ready":
            since = event.time
        elif event.kind == "down" and since is not None:
            up, since = up + event.time - since, None
    if since is not None:
        up += end - since
    return up / (end - begin) if begin is not None and end > begin else 0.0


def table(rows: Iterable[tuple[str, object]]) -> str:
    """Return two columns of text."""
    lines = [(str(name), str(value)) for name, value in rows]
    width = max(len(name) for name, _ in lines)
    return "\n".join(f"{name:{width}}  {value}" for name, value in lines)
