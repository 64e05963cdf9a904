"""What a soak does to the broker and its clients, and when: all of it follows from the seed."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["DISTURBANCES", "Disturbance", "plan", "timely"]

TOO_LATE: Final = 10.0
"""Seconds after its time in which a disturbance is made, for a restart may take a minute."""


class Disturbance(NamedTuple):
    """Something to do at a time, in seconds from the start."""

    time: float
    kind: str
    seconds: float
    """How long it lasts."""
    seed: int


class Track(NamedTuple):
    """Kinds that take turns, in random order, with random pauses."""

    kinds: Sequence[str]
    every: tuple[float, float]
    lasts: tuple[float, float]


BROKER: Final = (
    "kill", "kill", "pause broker", "write fails", "sync fails", "disk full", "slow disk",
    "no handles",
)  # fmt: skip
CLIENTS: Final = ("kill mortal", "pause steady", "pause mortal", "pause canary")
DISTURBANCES: Final = (*dict.fromkeys(BROKER), *CLIENTS)


def _bag(kinds: Sequence[str], chance: random.Random) -> Iterator[str]:
    while True:
        yield from chance.sample(kinds, len(kinds))


def _follow(track: Track, chance: random.Random) -> Iterator[Disturbance]:
    kinds = _bag(track.kinds, chance)
    time = 0.0
    while True:
        time += chance.uniform(*track.every)
        lasts = chance.uniform(*track.lasts)
        yield Disturbance(time, next(kinds), lasts, chance.getrandbits(32))


def plan(seed: int, attacks: Sequence[str]) -> Iterator[Disturbance]:
    """Return disturbances without end, in order."""
    chance = random.Random(seed)
    tracks = (
        Track(BROKER, (6, 18), (0.5, 9)),
        Track(CLIENTS, (6, 20), (0.5, 9)),
        Track([f"attack {name}" for name in attacks], (1, 5), (2, 14)),
    )
    return heapq.merge(*(_follow(track, random.Random(chance.random())) for track in tracks))


def timely(
    disturbances: Iterable[Disturbance], seconds: float, passed: Callable[[], float]
) -> Iterator[Disturbance]:
    """Return those before `seconds`, without those whose time has long passed.

    On a machine that is so busy that a broker needs a minute to start, making all of them would
    take hours.
    """
    for disturbance in disturbances:
        if disturbance.time >= seconds:
            return
        if passed() - disturbance.time <= TOO_LATE:
            yield disturbance
