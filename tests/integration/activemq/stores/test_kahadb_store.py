"""Our KahaDB store on a folder that ActiveMQ 5.17.2 wrote, and ActiveMQ on it again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.wire.openwire.commands import ActiveMQTextMessage, MessageId, ProducerId
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import MessageReference, OperationContext, SubscriptionKey
from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.adapter import KahaDBPersistenceAdapter
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from tests.kit.processes.children import Start

pytestmark = [pytest.mark.activemq, pytest.mark.timeout(180)]

QUEUES = ("kinds", "large", "flagged", "local", "xa", "bulk")
LENGTH = 262144
ALL, RED = SubscriptionKey("reader", "all"), SubscriptionKey("reader", "red")


@pytest.fixture(scope="module")
def program(java_program: Callable[[Path], list[str]]) -> list[str]:
    return [*java_program(Path(__file__).with_name("kahadb_program")), "KahaFiles"]


@pytest.fixture(scope="module")
def written(program: list[str], process: Start, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder after ActiveMQ's clean stop."""
    folder = tmp_path_factory.mktemp("kahadb")
    with process([*program, "write", str(folder / "data")], folder / "log") as child:
        for line in child.stdout:
            if line.startswith("WRITTEN"):
                child.stdin.write("\n")
                child.stdin.flush()
        assert child.wait(30) == 0, (folder / "log").read_text(encoding="utf-8")
    return folder / "data"


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    shutil.copytree(written, tmp_path / "data")
    return tmp_path / "data"


def adapter_of(data: Path) -> KahaDBPersistenceAdapter:
    settings = KahaDBSettings(journal=JournalSettings(max_file_length=LENGTH))
    return KahaDBPersistenceAdapter(data / "kahadb", settings)


def read_by_activemq(program: list[str], process: Start, data: Path) -> list[str]:
    log = data.parent / "read.log"
    with process([*program, "read", str(data)], log) as child:
        lines = [line.strip() for line in child.stdout]
        assert child.wait(30) == 0, log.read_text(encoding="utf-8")
    assert lines[-1] == "STOPPED"
    return [line for line in lines if line.startswith(("queue", "subscription", "prepared"))]


def counts(adapter: Any) -> list[str]:
    """What `KahaFiles read` prints, of our store: all messages are read, not only counted."""
    found = []
    for name in QUEUES:
        store = adapter.queue_message_store(Queue(name))
        found.append(f"queue {name} {len(store.next_messages(None, 10_000))}")
    news = adapter.topic_message_store(Topic("news"))
    for key in (ALL, RED):
        pending = news.next_subscription_messages(key, None, 10_000)
        assert len(pending) == news.subscription_message_count(key)
        found.append(f"subscription {key.subscription_name} {len(pending)}")
    return [*found, f"prepared {len(adapter.transaction_store().recovered_transactions())}"]


def reference(number: int, where: Destination) -> MessageReference:
    producer = ProducerId("ID:ours", 1, 1)
    message = ActiveMQTextMessage(
        producer_id=producer,
        destination=where,
        message_id=MessageId(None, producer, number),
        persistent=True,
        response_required=True,
        content=b"\0\0\0\4ours",
    )
    place = SimpleNamespace(destination=where)
    place.base = place
    return MessageReference(message, place)  # type: ignore[arg-type]


async def end_prepared(adapter: Any) -> None:
    """Commit one of the prepared transactions, roll another one back."""
    transactions = adapter.transaction_store()
    first, second, _ = transactions.recovered_transactions()
    await wait_for(transactions.commit(first.xid, True))
    for destination, message in first.added:
        position = transactions.position_of(destination, message.message_id)
        assert position is not None
        adapter.queue_message_store(destination)._index.mark_visible(position)
    await wait_for(transactions.rollback(second.xid))


@pytest.mark.fact("activemq-persistence K1")
async def test_the_files_of_both(data: Path) -> None:
    theirs = {path.name: path for path in (data / "kahadb").iterdir()}
    assert {"db-1.log", "db.data", "db.redo", "db.free", "lock"} <= theirs.keys()
    pages = theirs["db.data"].read_bytes()
    assert len(pages) % 4096 == 0
    assert b"pageSize=4096" in pages[:4096], "page 0 is the metadata"
    assert theirs["db-1.log"].stat().st_size == LENGTH  # preallocated, like ours
    adapter = adapter_of(data)
    await adapter.start()
    await adapter.stop()
    ours = {path.name for path in (data / "kahadb").iterdir()}
    assert "db-1.log" in ours
    assert not ours & {"db.data", "db.redo", "db.free"}
    aside = {path.name for path in (data / "kahadb" / "activemq-index").iterdir()}
    assert aside == {"db.data", "db.redo", "db.free"}


async def test_we_find_what_activemq_kept_and_activemq_what_we_did(
    program: list[str], process: Start, data: Path
) -> None:
    expected = [
        *("queue kinds 150", "queue large 1", "queue flagged 5", "queue local 61", "queue xa 13"),
        *("queue bulk 0", "subscription all 20", "subscription red 20", "prepared 3"),
    ]
    assert (data / "kahadb" / "db.data").exists()
    adapter = adapter_of(data)
    await adapter.start()
    try:
        assert adapter.rebuilt
        assert not (data / "kahadb" / "db.data").exists()
        assert counts(adapter) == expected
        flagged = adapter.queue_message_store(Queue("flagged")).next_messages(None, 1)
        assert flagged[0].message.redelivery_counter == 1
        store = adapter.queue_message_store(Queue("kinds"))
        for stored in store.next_messages(None, 7):
            gone = reference(1, Queue("kinds"))
            assert stored.message.message_id is not None
            gone.message_id = stored.message.message_id
            store.remove_message(OperationContext(), gone)
        for number in range(1, 12):
            await wait_for(store.add_message(OperationContext(), reference(number, Queue("kinds"))))
        await end_prepared(adapter)
    finally:
        await adapter.stop()
    again = adapter_of(data)
    await again.start()
    changed = counts(again)
    await again.stop()
    assert not again.rebuilt
    assert changed[0] == "queue kinds 154"
    assert changed[-1] == "prepared 1"
    assert read_by_activemq(program, process, data) == changed
    # It has read the subscriptions empty.
    last = adapter_of(data)
    await last.start()
    found = counts(last)
    await last.stop()
    assert last.rebuilt
    assert found == [*changed[:6], "subscription all 0", "subscription red 0", "prepared 1"]
