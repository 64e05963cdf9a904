"""Indexes and segments that are damaged, missing, or somebody else's."""

from __future__ import annotations

import logging
import re
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ResourceAllocationException
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.kahadb.segments import JournalFiles
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.message import SubscriptionKey
from pyjms_broker.store.api import OperationContext, StoredSubscription, StoreState
from pyjms_broker.store.kahadb.recovery import OUR_INDEX
from pyjms_broker.store.kahadb.tools.verification import verify_journal
from tests.kit.stores.kahadb_store import Home

Q = Queue("Q")


async def fill(home: Home, count: int = 30) -> list[Any]:
    await home.open()
    store = home.adapter.queue_message_store(Q)
    references: list[Any] = await home.send(store, *range(1, count + 1), content=bytes(500))
    await home.adapter.checkpoint()
    return references


def texts(home: Home) -> list[str]:
    store = home.adapter.queue_message_store(Q)
    return [m.message.type for m in store.next_messages(None, 1000)]


ALL = [str(n) for n in range(1, 31)]


@pytest.mark.parametrize("damage", ["rubbish", "empty", "page", "version"])
async def test_an_index_that_is_damaged_is_rebuilt(home: Home, damage: str) -> None:
    await fill(home)
    await home.close()
    path = home.directory / OUR_INDEX
    if damage == "rubbish":
        path.write_bytes(b"rubbish" * 1000)
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "page":
        data = bytearray(path.read_bytes())
        data[100:4096] = bytes(3996)
        path.write_bytes(data)
    else:
        with sqlite3.connect(path) as database:
            database.execute("PRAGMA user_version = 999")
        database.close()
    await home.open()
    assert home.adapter.rebuilt
    assert texts(home) == ALL


async def test_a_corrupted_index_can_be_kept(home: Home) -> None:
    await fill(home)
    await home.close()
    (home.directory / OUR_INDEX).write_bytes(b"rubbish" * 1000)
    await home.open(archive_corrupted_index=True)
    assert texts(home) == ALL
    assert (home.directory / "corrupted" / OUR_INDEX).read_bytes().startswith(b"rubbish")


async def test_a_good_index_is_used_unless_it_shall_not_be(home: Home) -> None:
    await fill(home)
    await home.reopen()
    assert not home.adapter.rebuilt
    await home.reopen(force_recover_index=True)
    assert home.adapter.rebuilt
    assert texts(home) == ALL


async def test_another_journals_index_is_not_used(home: Home, tmp_path: Path) -> None:
    await fill(home)
    await home.close()
    kept = (home.directory / OUR_INDEX).read_bytes()
    for path in home.directory.glob("db-*.log"):
        path.unlink()
    await home.open(ignore_missing_journalfiles=True)
    assert home.adapter.rebuilt
    assert texts(home) == []
    await home.send(home.adapter.queue_message_store(Q), 7)
    await home.close()
    (home.directory / OUR_INDEX).write_bytes(kept)
    await home.open()
    assert home.adapter.rebuilt
    assert texts(home) == ["7"]


@pytest.mark.fact("activemq-persistence K23")
async def test_missing_segments_are_an_error_unless_they_are_to_be_ignored(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(home)
    await home.close()
    (home.directory / "db-2.log").unlink()
    with pytest.raises(ResourceAllocationException, match="missing/corrupt journal files: db-2"):
        await home.open()
    with caplog.at_level(logging.ERROR):
        await home.open(ignore_missing_journalfiles=True)
    left = texts(home)
    assert "1" in left
    assert "30" in left
    lost = 30 - len(left)
    assert lost > 0
    assert f"{lost} messages were dropped" in caplog.text
    assert home.adapter.queue_message_store(Q).message_count == len(left)
    await home.reopen()
    assert texts(home) == left


def last_segment(home: Home) -> int:
    return max(JournalFiles(home.directory).segments())


@pytest.mark.parametrize("count", [1, 2, 3, 100])
async def test_missing_last_segments_are_an_error_unless_they_are_to_be_ignored(
    home: Home, caplog: pytest.LogCaptureFixture, count: int
) -> None:
    await fill(home)
    before = set(texts(home))
    await home.close()
    segments = JournalFiles(home.directory).segments()
    gone = [f"db-{each}.log" for each in segments[-count:]]
    for name in gone:
        (home.directory / name).unlink()
    names = ", ".join(gone)
    for _ in range(2):  # also when a failed start has made a new segment
        problems = verify_journal(home.directory).problems
        assert set(gone) <= {each.location for each in problems}
        assert any("messages of queue://Q" in each.text for each in problems)
        with pytest.raises(ResourceAllocationException, match="missing/corrupt journal") as caught:
            await home.open()
        assert f": {names}: the journal ends at db-" in str(caught.value)
        assert "ignore_missing_journalfiles" in str(caught.value)
    await home.open(ignore_missing_journalfiles=True)
    lost = before - set(texts(home))
    assert lost
    (error,) = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    for text in (error, str(caught.value)):
        assert f"Lost: {len(lost)} messages of queue://Q. Messages whose ack" in text
    await home.reopen()
    assert lost == before - set(texts(home))


async def test_what_durable_subscriptions_have_lost_is_reported(home: Home) -> None:
    news, key = Topic("news"), SubscriptionKey("c", "s")
    topic = (await home.open()).topic_message_store(news)
    for each in (key, SubscriptionKey("c", "t")):
        await wait_for(topic.add_subscription(StoredSubscription(each, news), False))
    sent = await home.send(topic, *range(1, 31), content=bytes(1000))
    await wait_for(topic.acknowledge(OperationContext(), key, sent[-1]))
    await home.close()
    for number in JournalFiles(home.directory).segments()[-2:]:
        (home.directory / f"db-{number}.log").unlink()
    with pytest.raises(ResourceAllocationException) as caught:
        await home.open()
    found = re.search(
        r"Lost: (\d+) messages of topic://news \(pending for durable subscriptions: "
        r"(\d+) of c:s, (\d+) of c:t\)",
        str(caught.value),
    )
    assert found is not None, str(caught.value)
    messages, first, second = map(int, found.groups())
    assert 0 < messages == second == first + 1


async def test_a_truncated_last_segment_is_reported(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    """A torn end does not stop a start; but here the index shows that more was there."""
    await fill(home)
    await home.close()
    path = home.directory / f"db-{last_segment(home)}.log"
    data = path.read_bytes()
    path.write_bytes(data[: data.index(b"WRITE BATCH", 100) + 30])
    assert any("Lost: " in each.text for each in verify_journal(home.directory).problems)
    await home.open()
    lost = 30 - len(texts(home))
    assert lost > 0
    errors = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
    assert any(f"Lost: {lost} messages of queue://Q" in text for text in errors), errors


async def test_an_empty_segment_before_others_is_reported(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(home)
    await home.close()
    (home.directory / "db-2.log").write_bytes(b"")
    (home.directory / OUR_INDEX).unlink()
    (problem,) = verify_journal(home.directory).problems
    assert problem == ("db-2.log", "it is empty: what it held is lost")
    await home.open()
    assert len(texts(home)) < 30
    assert f"{home.directory / 'db-2.log'} is empty: what it held is lost" in caplog.text


async def test_an_empty_last_segment_is_that_of_a_crash(
    home: Home, caplog: pytest.LogCaptureFixture
) -> None:
    await fill(home)
    await home.close()
    (home.directory / f"db-{last_segment(home) + 1}.log").write_bytes(b"")
    assert verify_journal(home.directory).problems == []
    await home.open()
    assert texts(home) == ALL
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@pytest.mark.parametrize("damage", [b"rubbish" * 1000, b"", b"SQLite format 3\0" + bytes(50)])
async def test_verifying_says_that_an_index_is_rubbish(home: Home, damage: bytes) -> None:
    await fill(home)
    await home.close()
    (home.directory / OUR_INDEX).write_bytes(damage)
    found = verify_journal(home.directory)
    assert [each.location for each in found.problems] == [OUR_INDEX]
    assert found.messages == 30


async def test_corrupt_segments_are_found_when_looked_for(home: Home) -> None:
    await fill(home)
    await home.close()
    path = home.directory / "db-2.log"
    data = bytearray(path.read_bytes())
    record = next(
        r for r in JournalFiles(home.directory).records() if r.location.file_id == 2
        and r.size > 500
    )  # fmt: skip
    data[record.location.offset + 300] ^= 1
    path.write_bytes(data)
    journal = {"check_for_corrupt_journal_files": True}
    with pytest.raises(ResourceAllocationException, match="missing/corrupt journal files: db-2"):
        await home.open(journal=journal)
    await home.open(journal=journal, ignore_missing_journalfiles=True)
    left = texts(home)
    assert 0 < 30 - len(left) < 10
    await home.rebuild(ignore_missing_journalfiles=True)
    assert texts(home) == left


async def test_a_replay_says_how_far_it_is(home: Home) -> None:
    await fill(home, 120)
    await home.close()
    home.delete_index()
    seen: list[int] = []
    adapter = await home.open()
    await home.close()
    home.delete_index()
    adapter.on_progress = lambda count, location: seen.append(count)
    await adapter.start()
    await adapter.stop()
    assert seen
    assert seen == sorted(seen)
    assert seen[-1] > 120


@pytest.mark.fact("activemq-persistence K21")
async def test_replaying_what_is_there_already_changes_nothing(home: Home) -> None:
    references = await fill(home)
    await home.remove(home.adapter.queue_message_store(Q), *references[:5])
    expected = home.state()
    index = {path: path.read_bytes() for path in home.directory.glob(f"{OUR_INDEX}*")}
    await home.close()
    for _ in range(2):  # an older index, twice
        home.delete_index()
        for path, data in index.items():
            path.write_bytes(data)
        await home.open()
        assert not home.adapter.rebuilt
        assert home.state() == expected
        await home.close()


async def test_segments_from_nowhere_begin_another_epoch(home: Home) -> None:
    """Numbers that nobody knows any more must not look like the old ones."""
    references = await fill(home)
    store = home.adapter.queue_message_store(Q)
    epoch, last = store.epoch, store.last_arrival
    await home.remove(store, *references[:20])
    await home.close()
    # As ActiveMQ would leave it: its segments have no heads.
    from pyjms.wire.kahadb.commands import KahaTraceCommand
    from pyjms.wire.kahadb.journal import segment_name
    from tests.kit.stores.batches import encode_batch

    records = list(JournalFiles(home.directory).records())
    segments = sorted({r.location.file_id for r in records})
    for file_id in segments:
        payloads = [
            r.payload for r in records
            if r.location.file_id == file_id and not isinstance(r.command(), KahaTraceCommand)
        ]  # fmt: skip
        path = home.directory / segment_name(file_id)
        if file_id <= 2 or not payloads:
            path.unlink()
        else:
            path.write_bytes(encode_batch(payloads).data)
    home.delete_index()
    await home.open()
    store = home.adapter.queue_message_store(Q)
    assert store.epoch != epoch
    assert store.last_arrival < last
    expected = home.state()
    await home.rebuild()
    assert home.state() == expected
    assert home.adapter.state is StoreState.RUNNING
