"""Messages that cannot be read: they are quarantined, and nothing else waits for them."""

from __future__ import annotations

import errno
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.kahadb.codec import decode_command, encode_command
from pyjms.wire.kahadb.commands import KahaAddMessageCommand
from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.openwire.commands import ActiveMQTextMessage, XATransactionId
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.store.api import OperationContext, StoredSubscription
from pyjms_broker.store.journal.disk import OS_DISK
from pyjms_broker.store.kahadb.tools.verification import verify_journal
from tests.kit.brokers.region import Broker
from tests.kit.stores.kahadb_store import Home

Q = Queue("Q")
NEWS = Topic("news")
KEY = SubscriptionKey("c", "s")
RECORD_HEAD = 5


class BadSectors:
    """The machine's disk with ranges of files that cannot be read."""

    def __init__(self) -> None:
        self.bad: list[tuple[Path, int]] = []
        self.error = errno.EIO
        self._paths: dict[int, Path] = {}

    def open(self, path: Path, *, create: bool = False) -> int:
        fd = OS_DISK.open(path, create=create)
        self._paths[fd] = path
        return fd

    def read(self, fd: int, size: int, offset: int) -> bytes:
        for path, at in self.bad:
            if self._paths[fd] == path and offset <= at < offset + size:
                raise OSError(self.error, "simulated", str(path))
        return OS_DISK.read(fd, size, offset)

    def __getattr__(self, name: str) -> Any:
        return getattr(OS_DISK, name)


def location_of(home: Home, where: Queue, number: int) -> Any:
    return home.adapter.queue_message_store(where)._index.find(f"ID:p:1:1:{number}").location


def damage(home: Home, location: Any, kind: str, disk: BadSectors) -> None:
    """Damage a record on the disk: its head, its body, or the sector that it is in."""
    path = home.directory / f"db-{location.file_id}.log"
    if kind == "sector":
        disk.bad.append((path, location.offset + RECORD_HEAD))
        return
    at = location.offset + (4 if kind == "head" else RECORD_HEAD + 12)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"\xff" * (1 if kind == "head" else 24))


def types(stored: Any) -> list[str]:
    return [each.message.type for each in stored]


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]


KINDS = pytest.mark.parametrize("kind", ["head", "body", "sector"])


@KINDS
@pytest.mark.parametrize("limit", [3, 100])
async def test_a_message_that_cannot_be_read_is_quarantined_with_one_error(
    home: Home, kind: str, limit: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = BadSectors()
    store = (await home.open(disk=disk)).queue_message_store(Q)
    await home.send(store, *range(1, 31), content=bytes(500))
    location = location_of(home, Q, 5)
    assert location.file_id < home.adapter.journal.written.file_id, "it is in an old segment"
    damage(home, location, kind, disk)
    found: list[str] = []
    after = None
    while page := store.next_messages(after, limit):
        found += types(page)
        after = page[-1].position
    assert found == [str(n) for n in range(1, 31) if n != 5]
    assert store.next_messages(None, limit)
    (error,) = errors(caplog)
    assert "ID:p:1:1:5" in error
    assert "queue://Q" in error
    assert store.message_count == 30, "it is still stored"


async def test_a_lack_of_file_handles_quarantines_nothing(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    disk = BadSectors()
    store = (await home.open(disk=disk)).queue_message_store(Q)
    await home.send(store, *range(1, 31), content=bytes(500))
    damage(home, location_of(home, Q, 5), "sector", disk)
    disk.error = errno.EMFILE
    with pytest.raises(Exception, match="simulated"):
        store.next_messages(None, 100)
    disk.bad.clear()
    assert len(store.next_messages(None, 100)) == 30
    assert errors(caplog) == []


@KINDS
async def test_one_message_by_its_id_and_its_removal(home: Home, kind: str) -> None:
    disk = BadSectors()
    store = (await home.open(disk=disk)).queue_message_store(Q)
    (sent, _) = await home.send(store, 1, 2)
    damage(home, location_of(home, Q, 1), kind, disk)
    assert store.get_message(sent.message_id) is None
    await home.remove(store, sent)
    assert store.message_count == 1


@KINDS
async def test_the_messages_of_a_durable_subscription(home: Home, kind: str) -> None:
    disk = BadSectors()
    topic = (await home.open(disk=disk)).topic_message_store(NEWS)
    await wait_for(topic.add_subscription(StoredSubscription(KEY, NEWS), False))
    await home.send(topic, 1, 2, 3)
    damage(home, topic._index.find("ID:p:1:1:1").location, kind, disk)
    assert types(topic.next_subscription_messages(KEY, None, 2)) == ["2", "3"]


@pytest.mark.parametrize("checked", [True, False])
@KINDS
async def test_a_prepared_transaction_does_not_stop_a_start(
    home: Home, kind: str, checked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    disk = BadSectors()
    journal = {"verify_checksums_at_reading": checked}
    store = (await home.open(disk=disk, journal=journal)).queue_message_store(Q)
    first, second = await home.send(store, 1, 2)
    xid = XATransactionId(7, b"global", b"branch")
    for reference in (first, second):
        store.remove_message(home.within(xid), reference)
    for number in (3, 4):
        store.add_message(home.within(xid), home.message(number, Q))
    transactions = home.adapter.transaction_store()
    await wait_for(transactions.prepare(xid))
    added = transactions._open[xid].operations[2].location
    damage(home, location_of(home, Q, 1), kind, disk)
    damage(home, added, kind, disk)
    (found,) = _recovered(home, xid)
    # its messages are in one batch, and a checksum does not say which of them is damaged
    whole = checked and kind != "sector"
    assert [m.type for _, m in found.added] == ([] if whole else ["4"])
    assert [stored.message.type for *_, stored in found.removed] == ["2"]
    assert len(errors(caplog)) == (3 if whole else 2)
    await wait_for(transactions.commit(xid, True))
    assert store.message_count == 2


def _recovered(home: Home, xid: XATransactionId) -> Any:
    transactions = home.adapter.transaction_store()
    transactions._recovered[xid] = transactions._open[xid]
    return transactions.recovered_transactions()


@KINDS
async def test_a_queue_continues_with_old_and_new_messages(
    home: Home, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The reproduction: the page in which one message is damaged was read again every 5 s."""
    disk = BadSectors()
    store = (await home.open(disk=disk)).queue_message_store(Q)
    await home.send(store, *range(1, 31), content=bytes(500))
    await home.reopen(disk=disk)
    for number in (5, 30):
        damage(home, location_of(home, Q, number), kind, disk)
    broker = Broker(store=home.adapter)
    await broker.region.start()
    try:
        client = broker.client()
        consumer = client.consume(Q, prefetch=100)
        client.send(Q, "new", persistent=True)
        expected = [str(n) for n in range(1, 30) if n != 5]
        assert client.received(consumer) == [*expected, "new"]
        assert len(errors(caplog)) == 2
        assert broker.queue(Q).statistics.messages == 31
    finally:
        await broker.region.stop()


@pytest.mark.parametrize("checked", [True, False])
async def test_messages_of_a_batch_with_a_flipped_bit(
    home: Home, checked: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """All its messages are quarantined: the checksum does not say which one is damaged."""
    journal = {"verify_checksums_at_reading": checked}
    store = (await home.open(journal=journal)).queue_message_store(Q)
    await home.send(store, 1)
    for number in (2, 3):
        reference = home.message(number, Q, content=bytes(100))
        store.add_message(OperationContext(), reference)
        store.mark_visible(reference)
    await wait_for(home.adapter.journal.barrier())
    await home.send(store, 4)
    flip_a_bit_of_the_content(home, location_of(home, Q, 2))
    assert types(store.next_messages(None, 10)) == (["1", "4"] if checked else list("1234"))
    found = errors(caplog)
    assert [text.split(" ")[2] for text in found] == (["ID:p:1:1:2", "ID:p:1:1:3"] * checked)
    assert store.message_count == 4, "they are still stored"


async def test_a_durable_subscription_gets_no_flipped_bit(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    topic = (await home.open()).topic_message_store(NEWS)
    await wait_for(topic.add_subscription(StoredSubscription(KEY, NEWS), False))
    await home.send(topic, 1, 2, 3, content=bytes(100))
    topic = (await home.reopen()).topic_message_store(NEWS)
    flip_a_bit_of_the_content(home, topic._index.find("ID:p:1:1:2").location)
    assert types(topic.next_subscription_messages(KEY, None, 10)) == ["1", "3"]
    (error,) = errors(caplog)
    assert "ID:p:1:1:2" in error


def flip_a_bit_of_the_content(home: Home, location: Any) -> None:
    """Damage a message of 100 zeros so that it still decodes."""
    with (home.directory / f"db-{location.file_id}.log").open("r+b") as file:
        file.seek(location.offset)
        at = file.read(400).index(bytes(100)) + 50
        file.seek(location.offset + at)
        file.write(b"\x10")


async def test_a_stored_message_without_an_id_is_quarantined(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """As another program may write it: the whole page was missed until the next restart."""
    store = (await home.open()).queue_message_store(Q)
    await home.send(store, 1, 2, 3)
    command = decode_command(home.adapter.journal.read(location_of(home, Q, 2)))
    assert isinstance(command, KahaAddMessageCommand)
    without_id = encode_message(ActiveMQTextMessage(destination=Q, persistent=True, type="no id"))
    record = encode_command(replace(command, message_id="ID:x:1:1:1", message=without_id))
    home.adapter.journal.append(record)
    await home.rebuild()
    broker = Broker(store=home.adapter)
    await broker.region.start()
    try:
        client = broker.client()
        consumer = client.consume(Q, prefetch=100)
        client.send(Q, "new", persistent=True)
        assert client.received(consumer) == ["1", "2", "3", "new"]
    finally:
        await broker.region.stop()
    (error,) = errors(caplog)
    assert "ID:x:1:1:1" in error


async def test_verifying_names_the_messages_of_a_damaged_batch(home: Home) -> None:
    store = (await home.open()).queue_message_store(Q)
    await home.send(store, 1, 2, 3, content=bytes(100))
    location = location_of(home, Q, 2)
    await home.close()
    flip_a_bit_of_the_content(home, location)
    texts = [problem.text for problem in verify_journal(home.directory).problems]
    found = [text for text in texts if "stored messages are here" in text]
    (text,) = found
    assert text.startswith("1 stored messages are here: ID:p:1:1:2 of queue://Q; they are quar")
