"""Flights through Spark, which is killed once in the middle: nothing lost, nothing twice.

`python -m examples.board` runs the pipeline `delays` and a listener for alerts; with `--all` the
other two pipelines as well, and then the audit of `examples.audit`.
`--days N` takes more of January; `--chart FILE` says where the chart goes. Ends by itself, with
exit code 0 if every number adds up.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

from examples.board.alerts import listening
from examples.board.counting import Hour
from examples.board.names import BATCH, FLIGHTS, queue_of
from examples.board.records import departures, with_broken
from examples.board.results import (
    Sent,
    check_alerts,
    check_archive,
    check_cancelled,
    check_delays,
    take_hours,
)
from examples.board.running import run_pipelines
from examples.chart import line_chart
from examples.messages import connected, make_queues, send_texts
from examples.processes import ROOT, running_broker
from pyjms import Topic

FIRST = date(2013, 1, 1)
NEW_YORK = ZoneInfo("America/New_York")
BROKEN_EVERY = 100
HOUR = timedelta(hours=1)
HOURS_A_TICK = 12


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.board")
    parser.add_argument("--all", action="store_true", help="all three pipelines")
    parser.add_argument("--days", type=int, default=3, help="days of January 2013")
    parser.add_argument("--chart", type=Path, default=Path("build/departures.svg"))
    options = parser.parse_args(arguments)
    pipelines = ["delays", "cancelled", "archive"] if options.all else ["delays"]
    with tempfile.TemporaryDirectory(prefix="board-") as name:
        folder = Path(name)
        with running_broker(folder / "data") as url:
            with listening(url):
                sent = send(url, options.days, pipelines)
                batches = -(-sent.messages // BATCH)
                checks = run_twice(folder, url, pipelines, batches // 2)
            with connected(url) as connection:
                hours = take_hours(connection)
                checks |= check_delays(connection, sent, hours)
                checks |= check_alerts(connection, sent)
                if options.all:
                    checks |= check_cancelled(connection, sent)
                    checks |= check_archive(connection, sent, folder)
        if options.all:
            checks |= audit(folder / "data")
    draw(hours, options.chart)
    for check, holds in checks.items():
        print(f"  {'ok ' if holds else 'NOT'} {check}")
    return 0 if all(checks.values()) else 1


def send(url: str, days: int, pipelines: Sequence[str]) -> Sent:
    """Send the flights of some days, and one of a later day, which completes earlier hours."""
    last = FIRST + timedelta(days=days - 1)
    flights = departures(FIRST, last)
    clock = departures(last + timedelta(days=2), last + timedelta(days=2))[0]
    texts = [*with_broken(flights, BROKEN_EVERY), clock.model_dump_json()]
    print(f"Sending {len(texts)} messages to topic {FLIGHTS}", flush=True)
    with connected(url) as connection:
        make_queues(connection, *(queue_of(name) for name in pipelines))
        send_texts(connection, Topic(FLIGHTS), texts)
    return Sent(flights, clock, len(texts) - len(flights) - 1)


def run_twice(folder: Path, url: str, pipelines: Sequence[str], kill_from: int) -> dict[str, bool]:
    """Run the pipelines, killed once, then to the end."""
    began = time.monotonic()
    names = ", ".join(pipelines)
    print(
        f"Running {names}, to be killed in batch {kill_from}; Spark takes longest to start",
        flush=True,
    )
    first = run_pipelines(folder, url, pipelines, kill_from=kill_from)
    print("Running again", flush=True)
    second = run_pipelines(folder, url, pipelines)
    if first is not None or second != 0:
        print((folder / "pipelines.log").read_text(encoding="utf-8")[-4000:], file=sys.stderr)
    print(f"  {time.monotonic() - began:.0f} s, most of it for two starts of Spark", flush=True)
    return {"killed in the middle of a batch, then run to the end": first is None and second == 0}


def audit(data: Path) -> dict[str, bool]:
    """Read from the stopped broker's journal what became of every message."""
    print("The broker is stopped; its journal says", flush=True)
    done = subprocess.run([sys.executable, "-m", "examples.audit", data], cwd=ROOT, check=False)
    return {"the journal explains every message": done.returncode == 0}


def draw(hours: Sequence[Hour], path: Path) -> None:
    """Draw the departure delays by hour, one line for each airport."""
    lines: dict[str, list[tuple[float, float]]] = {}
    ticks = {}
    for hour in sorted(hours, key=lambda hour: hour.hour):
        if hour.delay is not None:
            lines.setdefault(hour.origin, []).append((_axis(hour.hour), hour.delay))
    seen = [hour.hour for hour in hours]
    for number in range(int((max(seen) - min(seen)) / HOUR) + 1 if seen else 0):
        local = (min(seen) + number * HOUR).astimezone(NEW_YORK)
        if local.hour % HOURS_A_TICK == 0:
            ticks[_axis(local)] = f"{local:%d %b %H:%M}"
    path.parent.mkdir(parents=True, exist_ok=True)
    title = "Average delay of departures from New York, by local time"
    chart = line_chart(title, lines, ticks, "minutes", gap=1)
    path.write_text(chart, encoding="utf-8")
    print(f"The chart is in {path}")


def _axis(at: datetime) -> float:
    """Return the position on the horizontal axis: hours."""
    return at.timestamp() / HOUR.total_seconds()


if __name__ == "__main__":
    sys.exit(main())
