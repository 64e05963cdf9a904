"""Stored things with damaged content: none of them stops a start."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import (
    DestinationType,
    KahaAddMessageCommand,
    KahaDestination,
    KahaPrepareCommand,
    KahaSubscriptionCommand,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
)
from pyjms_broker.api.completion import wait_for
from pyjms_broker.service import BrokerService
from pyjms_broker.store.kahadb.records import ARRIVALS, AUDIT, DUPLICATES, TRANSACTION, trace_record
from tests.kit.brokers.region import Broker
from tests.kit.stores.kahadb_store import Home

Q = Queue("Q")
QUEUE = KahaDestination(DestinationType.QUEUE, "Q")
TOPIC = KahaDestination(DestinationType.TOPIC, "T")
RUBBISH = b"\xff" * 40

RECORDS = {
    "unknown command": b"\x63" + b"\x01\x00",
    "truncated command": b"\x01\x7f\x0a",
    "message": encode_command(KahaAddMessageCommand(QUEUE, "ID:x:1:1:1", RUBBISH)),
    "update": encode_command(
        KahaUpdateMessageCommand(KahaAddMessageCommand(QUEUE, "ID:x:1:1:1", RUBBISH))
    ),
    "prepare": encode_command(KahaPrepareCommand(KahaTransactionInfo())),
    "arrivals": trace_record(ARRIVALS, {"0:Q": ["x", None]}),
    "arrivals of no destination": trace_record(ARRIVALS, {"x": [1, 1]}),
    "arrivals of too large numbers": trace_record(ARRIVALS, {"0:Q": [1 << 63, 1]}),
    "audit": trace_record(AUDIT, {"last": None}),
    "audit of producers": trace_record(AUDIT, {"last": 1, "producers": [1], "openwire": 12}),
    "audit of no version": trace_record(AUDIT, {"last": 1, "producers": {}, "openwire": None}),
    "duplicates": trace_record(DUPLICATES, {"0:Q": 5}),
    "duplicates of numbers": trace_record(DUPLICATES, {"0:Q": [5]}),
    "transaction": trace_record(TRANSACTION, ["XID", [5], {}]),
    "transaction of no messages": trace_record(TRANSACTION, ["XID", [], {"0:Q": [[1]]}]),
}


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


@pytest.mark.parametrize("kind", RECORDS)
async def test_a_record_that_cannot_be_applied(
    home: Home, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    store = (await home.open()).queue_message_store(Q)
    await home.send(store, 1)
    location = home.adapter.journal.append(RECORDS[kind])
    await home.send(store, 2)
    await home.rebuild()
    store = home.adapter.queue_message_store(Q)
    assert [m.message.type for m in store.next_messages(None, 10)] == ["1", "2"]
    if kind != "prepare":  # an id without a format is one
        (error,) = errors(caplog)
        name = f"db-{location.file_id}-{location.offset}.record"
        assert name in error
        assert (home.directory / "quarantine" / name).read_bytes() == RECORDS[kind]


async def test_the_start_logs_what_was_quarantined(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = tmp_path / "found" / "KahaDB"
    for name in ("db-1-10.record", "db-2-20.record"):
        (store / "quarantine").mkdir(parents=True, exist_ok=True)
        (store / "quarantine" / name).write_bytes(RUBBISH)
    (store / "db-3.log.cut-30").write_bytes(RUBBISH)
    service = BrokerService("found", data_directory=tmp_path)
    await service.start()
    await service.stop()
    lines = [r.getMessage() for r in caplog.records if "data is kept" in r.getMessage()]
    assert [line[line.index("data is kept") :] for line in lines] == [
        f"data is kept in {store / 'quarantine'} (2 files) until you remove it",
        f"data is kept in {store} (1 files) until you remove it",
    ]


@pytest.mark.parametrize("info", [RUBBISH, b""])
async def test_a_durable_subscription_that_cannot_be_read(
    home: Home, info: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    await home.open()
    command = KahaSubscriptionCommand(TOPIC, "c:s", False, info)
    home.adapter.journal.append(encode_command(command))
    await wait_for(home.adapter.journal.barrier())
    await home.rebuild()
    broker = Broker(store=home.adapter)
    await broker.region.start()
    await broker.region.stop()
    assert home.adapter.topic_message_store(Topic("T")).subscriptions() == []
    assert any("c:s" in error for error in errors(caplog))
