"""The files of a store: the journal's names and lengths, the lock, ActiveMQ's index aside."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaRewrittenDataFileCommand
from pyjms_broker.store.journal.settings import JournalSettings
from pyjms_broker.store.kahadb.recovery import INDEX_FILES
from tests.kit.stores.batches import encode_batch
from tests.kit.stores.kahadb_store import Home

Q = Queue("Q")
LENGTH = 65536


@pytest.mark.fact("activemq-persistence K1")
async def test_segments_count_from_1_and_have_their_full_length_at_once(home: Home) -> None:
    scope = JournalSettings().preallocation_scope
    adapter = await home.open(journal={"max_file_length": LENGTH, "preallocation_scope": scope})
    first = home.directory / "db-1.log"
    assert first.stat().st_size == LENGTH
    assert (home.directory / "lock").stat().st_size > 0
    await home.send(adapter.queue_message_store(Q), *range(1, 9), content=bytes(20_000))
    assert adapter.journal.segments()[:3] == [1, 2, 3]
    assert (home.directory / "db-2.log").stat().st_size == LENGTH


@pytest.mark.fact("activemq-persistence K1")
async def test_activemqs_index_is_out_of_the_way_while_we_write(home: Home) -> None:
    await home.open()
    await home.send(home.adapter.queue_message_store(Q), 1, 2)
    await home.close()
    assert {path.name for path in home.directory.iterdir()} == {
        *("db-1.log", "lock", "pyjms-index.db"),
    }
    assert INDEX_FILES == ("db.data", "db.redo", "db.free")
    for name in INDEX_FILES:  # ActiveMQ was here: it wrote, and stopped cleanly
        (home.directory / name).write_bytes(bytes(4096))
    adapter = await home.open()
    assert adapter.rebuilt  # our own index would not know what it wrote
    assert {path.name for path in (home.directory / "activemq-index").iterdir()} == set(INDEX_FILES)
    assert not any((home.directory / name).exists() for name in INDEX_FILES)
    found = adapter.queue_message_store(Q).next_messages(None, 9)
    assert [stored.message.type for stored in found] == ["1", "2"]
    adapter = await home.reopen()
    assert not adapter.rebuilt


@pytest.mark.fact("activemq-persistence K18")
async def test_nothing_is_appended_to_a_segment_of_compacted_acknowledgements(home: Home) -> None:
    await home.open()
    await home.send(home.adapter.queue_message_store(Q), 1, 2)
    await home.close()
    marker = KahaRewrittenDataFileCommand(source_data_file_id=1, rewrite_type=2)
    compacted = encode_batch([encode_command(marker)]).data
    (home.directory / "db-2.log").write_bytes(compacted)  # ActiveMQ's last segment
    adapter = await home.open()
    await home.send(adapter.queue_message_store(Q), 3)
    assert adapter.journal.segments() == [1, 2, 3]
    assert (home.directory / "db-2.log").read_bytes() == compacted
    for _ in range(2):  # nor does each start begin a segment
        adapter = await home.reopen()
        found = adapter.queue_message_store(Q).next_messages(None, 9)
        assert [stored.message.type for stored in found] == ["1", "2", "3"]
        assert adapter.journal.segments() == [1, 2, 3]
