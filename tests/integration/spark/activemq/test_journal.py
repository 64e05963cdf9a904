"""`jms-journal` over a KahaDB folder of ActiveMQ 5.17.2, filled by its Java client: it is all there.

The broker runs, and is stopped; some segments are in its archive. (spark-pipeline 5 C)
"""

from __future__ import annotations

import base64
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from tests.kit.servers.java_brokers import run_killing_activemq

pytestmark = [pytest.mark.activemq, pytest.mark.timeout(300)]

SAME = ("message_id", "destination", "correlation_id", "type", "reply_to", "priority", "text",
        "delivery_mode", "group_id", "group_seq", "body_kind", "properties")  # fmt: skip
SUBSCRIPTION = "journal:all"


class Filled(NamedTuple):
    """A broker's folder, and the Java client's report of sent messages."""

    folder: Path
    sent: list[dict[str, Any]]
    archived: int


@pytest.fixture(scope="module", params=["running", "stopped", "killed"])
def filled(
    request: pytest.FixtureRequest,
    activemq_command: list[str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Filled]:
    with run_killing_activemq(activemq_command, tmp_path_factory.mktemp("journal")) as broker:
        done = subprocess.run(
            [*activemq_command, "JournalFiller", broker.url],
            capture_output=True, text=True, timeout=120, check=False, encoding="utf-8",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
        archive = broker.data / "kahadb" / "data-archive"
        while not list(archive.glob("db-*.log")):  # it tidies up every second
            assert broker.child.poll() is None
            time.sleep(0.05)
        if request.param != "running":
            getattr(broker, request.param.removesuffix("ped").removesuffix("ed"))()
        sent = [json.loads(line) for line in done.stdout.splitlines()]
        yield Filled(broker.data, sent, len(list(archive.glob("db-*.log"))))


def plain(row: Any) -> dict[str, Any]:
    """A row of the journal as the Java client describes messages."""
    found = {name: row[name] for name in SAME}
    for name in ("timestamp", "expiration"):
        moment = row[name]
        found[name] = 0 if moment is None else round(moment.timestamp() * 1000)
    if row.body_kind in ("map", "stream"):
        found["values"] = json.loads(found.pop("text"))
    if row.body_kind == "bytes":
        found["bytes"] = base64.b64encode(row.bytes).decode()
    return found


def expected(message: dict[str, Any]) -> dict[str, Any]:
    found = {name: value for name, value in message.items() if name != "taken"}
    return found if "values" in found else {"text": None, **found}


def test_every_message_is_as_java_sent_it(spark: SparkSession, filled: Filled) -> None:
    rows = spark.read.format("jms-journal").load(str(filled.folder)).collect()
    assert filled.archived > 0
    kinds = Counter(row.command for row in rows)
    added = [row for row in rows if row.command == "addMessage"]
    rolled_back = 30
    wanted = {message["message_id"]: message for message in filled.sent}
    assert len(wanted) == 4000 + 300 + 60 + 120 + 40
    found = {row.message_id: plain(row) for row in added if row.message_id in wanted}
    assert len(added) - len(found) in (0, rolled_back)
    assert all(row.error is None for row in added)
    different = {
        name: (found.get(name), expected(message))
        for name, message in wanted.items()
        if found.get(name) != expected(message)
    }
    assert not different, [
        {key: (a and a.get(key), b[key]) for key in b if not a or a.get(key) != b[key]}
        for a, b in list(different.values())[:3]
    ]
    assert kinds["removeMessage"] >= 4090


def test_what_is_there_are_the_messages_that_java_did_not_take(
    spark: SparkSession, filled: Filled
) -> None:
    reader = spark.read.format("jms-journal").option("view", "messages")
    rows = reader.load(str(filled.folder)).collect()
    left = {m["message_id"]: m for m in filled.sent if not m["taken"]}
    assert len(left) == len(filled.sent) - 4090
    assert Counter(row.message_id for row in rows) == Counter(left.keys())
    assert all(plain(row) == expected(left[row.message_id]) for row in rows)
    topics = {row.subscription for row in rows if row.destination.startswith("topic:")}
    assert topics == {SUBSCRIPTION}
    assert Counter(row.destination for row in rows) == {
        "queue://kinds": 330, "queue://small": 60, "topic://news": 40
    }  # fmt: skip
