"""The listeners, and the service that the container injects into them."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Annotated

from dependency_injector import providers
from dependency_injector.wiring import Provide

from examples.flights.records import Flight
from pyjms import ApplicationContainer, Header, jms_listener

QUEUE = "flights.departures"
TOPIC = "VirtualTopic.flights"
REQUESTS = "flights.average-delay"


class Board:
    """The records that the listeners have handled. It locks: handlers run in several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.delays: dict[str, list[int]] = {}

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def departed(self, flight: Flight) -> None:
        with self._lock:
            self.counts["handled"] += 1
            self.delays.setdefault(flight.origin, []).append(flight.dep_delay)

    def average_delay(self, origin: str) -> float:
        with self._lock:
            delays = self.delays.get(origin, [0])
            return sum(delays) / len(delays)


class Container(ApplicationContainer):
    """The application container with a board added."""

    board = providers.Singleton(Board)


InjectedBoard = Annotated[Board, Provide["board"]]


@jms_listener(QUEUE, id="departures")
def on_departure(
    row: dict[str, str],
    board: InjectedBoard,
    redelivered: Annotated[bool, Header("jms_redelivered")],
) -> None:
    """Accept good records; raise on bad ones, which are rolled back until they are dead letters."""
    if redelivered:
        board.count("redelivered")
    flight = Flight.model_validate(row)
    board.departed(flight)


@jms_listener(f"Consumer.board.{TOPIC}", id="board")
async def on_board(row: dict[str, str], board: InjectedBoard) -> None:
    """Accept every record, bad ones too."""
    board.count("on the board" if row["dep_time"] != "NA" else "cancelled")


@jms_listener(REQUESTS, id="delays")
async def average_delay(origin: str, board: InjectedBoard) -> str:
    """Return the average departure delay at an airport."""
    return f"{board.average_delay(origin):.1f}"
