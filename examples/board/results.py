"""Reading and printing the results of the pipelines, and checking that they add up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from examples.board.alerts import LATE, is_late
from examples.board.counting import Hour, difference, hours_of
from examples.board.names import (
    ALERTS,
    ARCHIVE,
    BOARD,
    CANCELLED,
    FLIGHTS,
    dead_letters_of,
    queue_of,
)
from examples.board.records import Departure
from examples.messages import take_texts
from pyjms import Connection

__all__ = ["Sent", "check_alerts", "check_archive", "check_cancelled", "check_delays", "take_hours"]

Checks = dict[str, bool]
DEAD_LETTERS = "ActiveMQ.DLQ"


class Sent(NamedTuple):
    """The messages sent to the topic. `clock`: the last flight, whose hour stays open."""

    flights: Sequence[Departure]
    clock: Departure
    broken: int

    @property
    def messages(self) -> int:
        return len(self.flights) + 1 + self.broken


def take_hours(connection: Connection) -> list[Hour]:
    return [Hour.model_validate_json(text) for text in take_texts(connection, BOARD)]


def check_delays(connection: Connection, sent: Sent, hours: Sequence[Hour]) -> Checks:
    found = difference(hours_of(sent.flights), hours)
    out = sum(hour.flights for hour in hours)
    dead = len(take_texts(connection, dead_letters_of("delays")))
    left = len(take_texts(connection, queue_of("delays")))
    in_state = sent.messages - out - dead - left - found.lost
    print(f"""
Pipeline delays, from topic {FLIGHTS} to queue {BOARD}
  sent            {sent.messages:>8}
  in the output   {out:>8}   flights in {len(hours)} hours at the airports
  in the state    {in_state:>8}   the clock, whose hour is still open
  dead letters    {dead:>8}
  left            {left:>8}
  lost            {found.lost:>8}
  duplicated      {found.duplicated:>8}""")
    return {
        "every hour at every airport is right": found.wrong == 0,
        "sent = in the output + in the state + dead letters": in_state == 1 and left == 0,
        "dead letters = broken messages": dead == sent.broken,
        "0 lost, 0 duplicated": found.lost == found.duplicated == 0,
    }


def check_alerts(connection: Connection, sent: Sent) -> Checks:
    found = sorted(take_texts(connection, ALERTS))
    wanted = sorted(f.model_dump_json() for f in (*sent.flights, sent.clock) if is_late(f))
    dead = len(take_texts(connection, DEAD_LETTERS))
    left = len(take_texts(connection, queue_of("alerts")))
    print(f"Listener alerts: {len(found)} flights {LATE} minutes late or more to queue {ALERTS}, "
          f"{dead} dead letters")  # fmt: skip
    return {
        "alerts: exactly those": found == wanted and left == 0,
        "alerts: dead letters = broken messages": dead == sent.broken,
    }


def check_cancelled(connection: Connection, sent: Sent) -> Checks:
    texts = take_texts(connection, CANCELLED)
    found = sorted(Departure.model_validate_json(text).model_dump_json() for text in texts)
    wanted = sorted(f.model_dump_json() for f in sent.flights if f.dep_delay is None)
    dead = len(take_texts(connection, dead_letters_of("cancelled")))
    print(f"Pipeline cancelled: {len(found)} flights to queue {CANCELLED}, {dead} dead letters")
    return {"cancelled: exactly those": found == wanted and dead == sent.broken}


def check_archive(connection: Connection, sent: Sent, folder: Path) -> Checks:
    import pyarrow.dataset

    rows = pyarrow.dataset.dataset(folder / ARCHIVE, partitioning="hive").to_table().to_pylist()
    flights = sorted(Departure.model_validate(row).model_dump_json() for row in rows)
    wanted = sorted(flight.model_dump_json() for flight in (*sent.flights, sent.clock))
    dead = len(take_texts(connection, dead_letters_of("archive")))
    print(f"Pipeline archive: {len(rows)} flights in Parquet files, {dead} dead letters")
    return {"archive: exactly those": flights == wanted and dead == sent.broken}
