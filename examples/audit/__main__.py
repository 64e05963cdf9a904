"""Flights sent, read in part, and then accounted for from the journal of the stopped broker.

`python -m examples.audit` makes a journal of its own and replays an hour of it. `python -m
examples.audit FOLDER` audits a broker's data folder, this one's or ActiveMQ's, and changes
nothing there. Exit code 0: every message is explained.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from pydantic import ValidationError
from pyspark.sql import Row, SparkSession

from examples.audit.journal import balance, bodies_between, replay
from examples.board.records import Departure, departures, with_broken
from examples.messages import connected, send_texts, take_texts
from examples.processes import running_broker, short_session
from pyjms import Connection, Queue, TextMessage

QUEUE, REPLAY = "flights.departures", "flights.replay"
DAY, HOUR = date(2013, 1, 1), datetime(2013, 1, 1, 14, tzinfo=UTC)
BROKEN_EVERY = 100
LEFT = 150
COLUMNS = ("sent", "consumed", "dead_lettered", "pending", "unexplained")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.audit")
    parser.add_argument("folder", type=Path, nargs="?", help="a broker's data folder")
    options = parser.parse_args(arguments)
    if options.folder is not None:
        rows = show(short_session("audit"), options.folder)
        return 0 if all(row.unexplained == 0 for row in rows.values()) else 1
    with tempfile.TemporaryDirectory(prefix="audit-") as name:
        checks = demonstrate(Path(name) / "data")
    for check, holds in checks.items():
        print(f"  {'ok ' if holds else 'NOT'} {check}")
    return 0 if all(checks.values()) else 1


def demonstrate(data: Path) -> dict[str, bool]:
    flights = departures(DAY, DAY)
    texts = list(with_broken(flights, BROKEN_EVERY))
    with running_broker(data) as url:
        with connected(url) as connection:
            print(f"Sending {len(texts)} messages to queue {QUEUE}", flush=True)
            send_texts(connection, Queue(QUEUE), texts)
        # a message that fails becomes a dead letter at once
        with connected(f"{url}?jms.redeliveryPolicy.maximumRedeliveries=0") as c:
            handled, refused = handle(c, len(texts) - LEFT)
        print(f"  {handled} handled, {refused} refused, {LEFT} left alone")
    print("The broker is stopped; its journal says", flush=True)
    spark = short_session("audit")
    found = show(spark, data)[f"queue://{QUEUE}"]
    hour = [f for f in flights if HOUR <= f.sched_dep < HOUR + timedelta(hours=1)]
    again = replayed(spark, data)
    print(f"Replayed {len(again)} flights of {HOUR:%H:%M} UTC into queue {REPLAY}")
    return {
        "sent = consumed + dead-lettered + pending": found.unexplained == 0,
        "the journal says what the clients say": (
            found.sent, found.consumed, found.dead_lettered, found.pending
        ) == (len(texts), handled, refused, LEFT),
        "the hour came again, each flight once": sorted(again)
        == sorted(flight.model_dump_json() for flight in hour),
    }  # fmt: skip


def handle(connection: Connection, number: int) -> tuple[int, int]:
    """Receive messages, each in a transaction; return the numbers of good and bad ones."""
    session = connection.create_session(transacted=True)
    consumer = session.create_consumer(Queue(QUEUE))
    handled = refused = 0
    for _ in range(number):
        message = consumer.receive(5)
        assert isinstance(message, TextMessage)
        try:
            Departure.model_validate_json(message.text or "")
        except ValidationError:
            session.rollback()
            refused += 1
        else:
            session.commit()
            handled += 1
    return handled, refused


def show(spark: SparkSession, folder: Path) -> dict[str, Row]:
    """Print the balance of each queue."""
    rows = balance(spark, folder).collect()
    print(f"  {'':<48}" + "".join(f"{name:>14}" for name in COLUMNS))
    for row in rows:
        print(f"  {row.destination:<48}" + "".join(f"{row[name]:>14}" for name in COLUMNS))
    return {row.destination: row for row in rows}


def replayed(spark: SparkSession, data: Path) -> list[str]:
    """Replay the flights of an hour, twice by mistake, and return the messages received."""
    wanted = bodies_between(spark, data, QUEUE, "sched_dep", HOUR, HOUR + timedelta(hours=1))
    with running_broker(data) as url:
        for _ in range(2):
            replay(wanted.select("text", "message_id"), url, REPLAY, "first hour")
        spark.stop()
        with connected(url) as connection:
            return take_texts(connection, REPLAY)


if __name__ == "__main__":
    sys.exit(main())
