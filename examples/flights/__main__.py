"""Send, handle, request, count; exits with code 0 if all numbers add up."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import AsyncIterable
from pathlib import Path

import anyio
from rich.progress import Progress

from examples.flights import handlers
from examples.flights.handlers import QUEUE, REQUESTS, TOPIC, Board, Container
from examples.flights.records import read_flights
from pyjms.aio import JmsApplication, JmsTemplate, QueueBrowser, Session, Topic
from pyjms.cli.logs import LogOutput

DEAD_LETTERS = "ActiveMQ.DLQ"
DEADLINE = 120.0


async def main() -> int:
    app = JmsApplication(
        handlers, config=Path(__file__).with_name("application.yaml"), container=Container
    )
    levels = {"pyjms.app.application": "INFO", "pyjms.listener": "ERROR"}
    LogOutput(levels=levels).apply(app.settings.logging)
    # from the environment they are texts
    records, requests = (int(app.settings.app[name]) for name in ("records", "requests"))
    board: Board = app.container.board()
    async with app:
        began = time.perf_counter()
        await send_records(app.template, records)
        dead = await wait_until_handled(app.template, board, records)
        seconds = time.perf_counter() - began
        latencies = await ask(app.template, requests)
    return summary(board, records, requests, dead, latencies, seconds)


async def send_records(template: JmsTemplate, records: int) -> None:
    print(f"Sending {records} departures to queue {QUEUE} and to {TOPIC}")
    with Progress(
        transient=True, disable=not sys.stdout.isatty()
    ) as progress:  # nothing where the output is not a terminal
        for row in progress.track(read_flights(records), total=records, description="sending"):
            await template.convert_and_send(QUEUE, row)
            await template.convert_and_send(Topic(TOPIC), row)


async def wait_until_handled(template: JmsTemplate, board: Board, records: int) -> int:
    """Wait until each record was handled or is a dead letter; return the number of those."""
    dead = 0
    with (
        anyio.fail_after(DEADLINE),
        Progress(transient=True, disable=not sys.stdout.isatty()) as progress,
    ):
        handling = progress.add_task("handling", total=2 * records)
        while True:
            counts = board.counts
            dead = await template.browse(DEAD_LETTERS, count_messages)
            seen = counts["on the board"] + counts["cancelled"]
            progress.update(handling, completed=counts["handled"] + dead + seen)
            if counts["handled"] + dead >= records and seen >= records:
                return dead
            await anyio.sleep(0.25)


async def count_messages(_session: Session, browser: QueueBrowser) -> int:
    return await count(browser)


async def count(messages: AsyncIterable[object]) -> int:
    return sum([1 async for _ in messages])


async def ask(template: JmsTemplate, requests: int) -> list[float]:
    """Request average delays, one at a time; return the milliseconds of each request."""
    latencies = []
    origins = ("EWR", "JFK", "LGA")
    for number in range(requests):
        origin = origins[number % len(origins)]
        began = time.perf_counter()
        reply = await template.send_and_receive(
            REQUESTS, lambda session, origin=origin: session.create_text_message(origin)
        )
        if reply is None:
            sys.exit(f"Request {number} got no reply")
        latencies.append((time.perf_counter() - began) * 1000)
    return latencies


def summary(
    board: Board, records: int, requests: int, dead: int, latencies: list[float], seconds: float
) -> int:
    counts = board.counts
    seen = counts["on the board"] + counts["cancelled"]
    percentiles = statistics.quantiles(latencies, n=100)
    handled, redelivered = counts["handled"], counts["redelivered"]
    shown = f"{counts['on the board']} on the board, {counts['cancelled']} cancelled"
    times = f"p50 {percentiles[49]:.2f} ms, p99 {percentiles[98]:.2f} ms"
    print(f"""
Queue {QUEUE}: {records} sent, {handled} handled, {dead} dead letters, {redelivered} redeliveries
Virtual topic {TOPIC}: {records} sent, {shown}
Requests to {REQUESTS}: {requests} asked, {len(latencies)} answered, {times}
{2 * records} messages sent and handled in {seconds:.1f} s""")
    checks = {
        "sent = handled + dead letters": records == counts["handled"] + dead,
        "redeliveries = 2 x dead letters": counts["redelivered"] == 2 * dead,
        "published = on the board + cancelled": records == seen,
        "asked = answered": requests == len(latencies),
    }
    for check, holds in checks.items():
        print(f"  {'ok ' if holds else 'NOT'} {check}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(anyio.run(main))
