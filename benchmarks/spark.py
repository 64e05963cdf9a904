"""Spark and JMS: rows from a journal, messages through a stream, and what a micro-batch costs.

    python -m benchmarks.spark [--quick]

Beside each stands what the machine gives without it: a Parquet read of the same rows, plain Python
over the same segments, a plain consumer of the same queue, a batch of Spark's own source. Runs are
taken when Spark is warm; medians of three. Compare ratios. The broker is a process of its own.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BODY = "x" * 1000
QUEUE = "bench"
ROUNDS = 3
SENT_AT_ONCE = 1000
BATCHES = 30
PHASES = ("latestOffset", "walCommit", "queryPlanning", "addBatch", "commitOffsets",
          "triggerExecution")  # fmt: skip
Rows = dict[str, str]


@contextmanager
def broker(folder: Path) -> Iterator[str]:
    """A broker process with a KahaDB; its URL."""
    command = [
        sys.executable,
        "-m",
        "pyjms_broker",
        "--data",
        str(folder),
        "--openwire",
        "127.0.0.1:0",
    ]
    with (folder.parent / "broker.log").open("a") as log:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            assert child.stdout is not None
            line = next(line for line in child.stdout if "accepts connections at" in line)
            yield line.split()[-1].split("?")[0]
        finally:
            child.send_signal(signal.SIGTERM)
            child.communicate(timeout=60)


def fill(url: str, count: int) -> None:
    """Send so many persistent messages of 1 KB with four properties."""
    from pyjms import ConnectionFactory

    with ConnectionFactory(url).create_connection() as connection:
        session = connection.create_session(True)
        producer = session.create_producer(session.create_queue(QUEUE))
        for number in range(count):
            message = session.create_text_message(BODY)
            message.correlation_id = f"order-{number}"
            message.properties.update(number=number, origin="JFK", delay=1.5, late=True)
            producer.send(message)
            if number % SENT_AT_ONCE == SENT_AT_ONCE - 1:
                session.commit()
        session.commit()


def drain(url: str, count: int) -> None:
    """Take so many messages as a plain consumer does, in transactions."""
    from pyjms import ConnectionFactory

    with ConnectionFactory(url).create_connection() as connection:
        connection.start()
        session = connection.create_session(True)
        consumer = session.create_consumer(session.create_queue(QUEUE))
        for number in range(count):
            message = consumer.receive(60)
            assert message is not None
            assert len(message.text) == len(BODY)
            if number % SENT_AT_ONCE == SENT_AT_ONCE - 1:
                session.commit()
        session.commit()


def median_of(work: Callable[[], object]) -> float:
    """Return the seconds that `work` takes: once to warm up, then the median."""
    work()
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        work()
        taken.append(time.perf_counter() - begun)
    return statistics.median(taken)


def beside(value: float, other: float, unit: str = "rows/s") -> str:
    return f"{value:,.0f} {unit}, 1 : {value / other:.2f}"


def nowhere(frame: Any) -> None:
    frame.write.format("noop").mode("overwrite").save()


def journal(spark: Any, folder: Path, count: int) -> tuple[Rows, Rows]:
    """Rows a second from a journal, and where the time of plain Python goes."""
    data, parquet = str(folder / "data"), str(folder / "rows.parquet")
    load = spark.read.format("jms-journal").load
    load(data).write.parquet(parquet)
    every = count / median_of(lambda: nowhere(spark.read.parquet(parquet)))
    plain = count / median_of(lambda: decode(data))
    journal_rate = count / median_of(lambda: nowhere(load(data)))
    pending = spark.read.format("jms-journal").option("view", "messages").load
    pending_rate = count / median_of(lambda: nowhere(pending(data)))
    return {
        "Parquet, the same rows": beside(every, every),
        "plain Python, one process, same columns": beside(plain, every),
        "jms-journal, view=records": beside(journal_rate, every),
        "jms-journal, view=messages": beside(pending_rate, every),
        "view=records beside plain Python": f"1 : {journal_rate / plain:.2f}",
    }, {name: f"{seconds / count * 1e6:.1f} us a row" for name, seconds in decode(data).items()}


def decode(data: str) -> dict[str, float]:
    """Do what the tasks do, without Spark; the processor's seconds of each step."""
    from pyjms.spark.journal import read_slice, segments, slices
    from pyjms.spark.rows import MESSAGE_COLUMNS, arrow_batch, arrow_schema, message_values
    from pyjms.wire.kahadb.codec import decode_command
    from pyjms.wire.kahadb.commands import KahaAddMessageCommand
    from pyjms.wire.kahadb.frames import decode_message

    schema = arrow_schema(MESSAGE_COLUMNS)
    steps: list[tuple[str, Callable[[Any], Any]]] = [
        ("read segments, checksums", lambda part: list(read_slice(part))),
        ("decode the journal's records", lambda some: [decode_command(r.payload) for r in some]),
        (
            "leave the others out",
            lambda some: [c for c in some if type(c) is KahaAddMessageCommand],
        ),
        ("decode the messages' headers", lambda some: [decode_message(c.message) for c in some]),
        (
            "decode properties and bodies",
            lambda some: [message_values(message, None, 0) for message in some],
        ),
        ("make Arrow of it", lambda rows: [arrow_batch(some, schema) for some in pieces(rows)]),
    ]
    clock = Steps()
    for part in slices(segments([data]), 1 << 20):
        value: Any = part
        for name, work in steps:
            value = clock.step(name, work, value)
    return clock.seconds


def pieces(rows: list[Any]) -> list[list[Any]]:
    return [rows[at : at + 2000] for at in range(0, len(rows), 2000)]


class Steps:
    """The processor time of each step, over all of its runs."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def step(self, name: str, work: Callable[[Any], Any], value: Any) -> Any:
        begun = time.process_time()
        result = work(value)
        self.seconds[name] = self.seconds.get(name, 0.0) + time.process_time() - begun
        return result


def streams(spark: Any, url: str, folder: Path, count: int) -> Rows:
    """Messages a second through a stream, beside a plain consumer of the same queue."""
    fill(url, count)
    begun = time.perf_counter()
    drain(url, count)
    plain = count / (time.perf_counter() - begun)
    found = {"plain Python consumer, transactions of 1000": beside(plain, plain, "msg/s")}
    for mode in ("ranges", "spool"):
        for part in (1, 2):
            fill(url, count)
            name = f"{mode}-{part}"
            options = {"mode": mode, "spool": str(folder / name), "partitions": str(part)}
            options["maxMessagesPerTrigger"] = str(count // 6)  # the first batch warms up
            batches = progress(spark, url, folder / f"{name}-checkpoint", options)
            seconds = sum(p["durationMs"]["triggerExecution"] for p in batches[1:]) / 1000
            rate = sum(p["numInputRows"] for p in batches[1:]) / seconds
            found[f"stream, {mode}, {part} partitions"] = beside(rate, plain, "msg/s")
    return found


def progress(spark: Any, url: str, checkpoint: Path, options: dict[str, str]) -> list[Any]:
    """Run a stream until the queue is empty; return Spark's report of each batch with rows."""
    reader = spark.readStream.format("jms").option("url", url).options(**options)
    query = (
        reader.load(QUEUE)
        .writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return [batch for batch in query.recentProgress if batch["numInputRows"]]


def micro_batches(spark: Any, url: str, folder: Path, batches: int) -> Rows:
    """What a batch of a few rows costs, by phase; beside one of Spark's own source."""
    rows: dict[str, list[str]] = {phase: [] for phase in PHASES}
    rate = spark.readStream.format("rate").option("rowsPerSecond", "100").load()
    jms = spark.readStream.format("jms").option("url", url)
    sources = {
        "rate": (rate, None),
        "jms": (jms.option("mode", "ranges").load(QUEUE), "noop"),
        "to jms": (jms.option("mode", "ranges").load(QUEUE).select("text"), "jms"),
    }
    for name, (frame, sink) in sources.items():
        writer = frame.writeStream.format(sink or "noop")
        if sink == "jms":
            writer = writer.option("url", url).option("destination", "bench.out")
        query = writer.option("checkpointLocation", str(folder / f"micro-{name}")).start()
        try:
            done = small_batches(query, url if sink else None, batches)
        finally:
            query.stop()
        for phase in PHASES:
            taken = [batch["durationMs"].get(phase, 0) for batch in done]
            rows[phase].append(f"{statistics.median(taken):.0f}")
    return {
        f"{phase}, ms: rate / jms / jms to jms": " / ".join(values)
        for phase, values in rows.items()
    }


def small_batches(query: Any, url: str | None, count: int) -> list[Any]:
    """Run a query with small batches; return Spark's reports of the later half."""
    while len(found := [p for p in query.recentProgress if p["numInputRows"]]) < count:
        if url is not None:
            fill(url, 5)
            query.processAllAvailable()
        else:
            query.awaitTermination(0.2)
    return found[count // 2 :]


def measure(*, quick: bool) -> dict[str, Rows]:
    """Return all tables by title."""
    from pyjms.spark import spark_session

    count = 2_000 if quick else 60_000
    folder = Path(tempfile.mkdtemp(prefix="pyjms-bench-"))
    conf = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
    spark = spark_session("bench", master="local[2]", conf=conf)
    try:
        with broker(folder / "data") as url:
            fill(url, count)
        rows, steps = journal(spark, folder, count)
        with broker(folder / "other") as url:
            through = streams(spark, url, folder, count)
            phases = micro_batches(spark, url, folder, 4 if quick else BATCHES)
    finally:
        spark.stop()
        shutil.rmtree(folder)
    return {
        "Spark: rows of 1 KB from a journal, 2 cores": rows,
        "Where plain Python's time goes there": steps,
        "Spark: messages of 1 KB through a stream, 2 cores": through,
        "Spark: a batch of five messages": phases,
    }


def main() -> None:
    from benchmarks.__main__ import print_table

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="to see that all works")
    for title, rows in measure(quick=parser.parse_args().quick).items():
        print_table(title, rows)


if __name__ == "__main__":
    main()
