"""Spark and JMS: rows from a journal, messages through a stream, and what a micro-batch costs.

    python -m benchmarks.spark [--quick]

Beside each stands what the machine gives without it: a Parquet read of the same rows, a plain loop
over the same journal, a plain consumer of the same queue, a batch of Spark's own source. Runs are
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
    """Rows a second from a journal, and the processor time of a row without Spark."""
    data, parquet = str(folder / "data"), str(folder / "rows.parquet")

    def load(**options: str) -> Any:
        return spark.read.format("jms-journal").options(**options).load(data)

    load(command="addMessage").write.parquet(parquet)
    every = count / median_of(lambda: nowhere(spark.read.parquet(parquet)))
    plain = count / median_of(lambda: plain_loop(data))
    found = {
        "Parquet, the same rows": beside(every, every),
        "plain Python loop, one process": beside(plain, every),
    }
    for name, options in VIEWS.items():
        rate = count / median_of(lambda options=options: nowhere(load(**options)))
        found[f"jms-journal, {name}"] = f"{beside(rate, every)}; to plain {rate / plain:.2f} : 1"
    return found, {
        "plain Python loop": us_a_row(lambda: plain_loop(data), count),
        **{
            f"jms-journal, {name}": us_a_row(lambda options=options: read(data, options), count)
            for name, options in VIEWS.items()
        },
    }


VIEWS = {
    "all columns": {},
    "message_id, timestamp, text": {"columns": "message_id,timestamp,text"},
    "text": {"columns": "text"},
    "view=messages": {"view": "messages"},
}


def plain_loop(data: str) -> int:
    """Do what a user without Spark does: read each message of the journal's files as an object."""
    from pyjms.client.messages import from_command
    from pyjms.wire.kahadb.commands import KahaAddMessageCommand
    from pyjms.wire.kahadb.frames import decode_message
    from pyjms.wire.kahadb.segments import JournalFiles

    rows = []
    for record in JournalFiles(Path(data) / "kahadb").records():
        command = record.command()
        if isinstance(command, KahaAddMessageCommand):
            message = from_command(decode_message(command.message))
            properties = dict(message.properties.items())
            rows.append((message.message_id, message.timestamp, properties, message.text))
    return len(rows)


def read(data: str, options: dict[str, str]) -> int:
    """Do what the planning and the tasks do, in this process."""
    from pyjms.spark.formats import JournalDataSource

    reader = JournalDataSource({"path": data, **options}).reader(None)
    return sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part))


def us_a_row(work: Callable[[], int], count: int) -> str:
    """Return the least processor time of a row, after a first run."""
    work()
    taken = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        assert work() >= count
        taken.append(time.process_time() - begun)
    return f"{min(taken) / count * 1e6:.1f} us of processor time a row"


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
            options = {"mode": mode, "partitions": str(part)}
            if mode == "spool":
                options["spool"] = str(folder / name)
            options["maxMessagesPerTrigger"] = str(count // 6)  # the first batch warms up
            batches = progress(spark, url, folder / f"{name}-checkpoint", options)
            rate = rate_of(batches)
            found[f"stream, {mode}, {part} partitions"] = beside(rate, plain, "msg/s")
    found |= queue_to_queue(spark, url, folder, count, plain)
    return found


def queue_to_queue(spark: Any, url: str, folder: Path, count: int, plain: float) -> Rows:
    """Messages a second from a queue through a stream to another queue."""
    found = {}
    for level in ("off", "epoch"):
        fill(url, count)
        name = f"through-{level}"
        options = {"mode": "ranges", "maxMessagesPerTrigger": str(count // 6)}
        sink = {"url": url, "destination": f"bench.{level}", "exactlyOnce": level}
        batches = progress(spark, url, folder / name, options, ("jms", sink))
        found[f"queue to queue, ranges, exactlyOnce={level}"] = beside(
            rate_of(batches), plain, "msg/s"
        )
    return found


def rate_of(batches: list[Any]) -> float:
    """Return the messages a second of all batches but the first, which warms up."""
    seconds = sum(p["durationMs"]["triggerExecution"] for p in batches[1:]) / 1000
    return sum(p["numInputRows"] for p in batches[1:]) / seconds


def progress(
    spark: Any,
    url: str,
    checkpoint: Path,
    options: dict[str, str],
    sink: tuple[str, dict[str, str]] = ("noop", {}),
) -> list[Any]:
    """Run a stream until the queue is empty; return Spark's report of each batch with rows."""
    reader = spark.readStream.format("jms").option("url", url).options(**options)
    query = (
        reader.load(QUEUE)
        .select("text")
        .writeStream.format(sink[0])
        .options(**sink[1])
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
        "The same without Spark": steps,
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
