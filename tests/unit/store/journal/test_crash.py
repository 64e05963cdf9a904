"""Power cuts: whatever the disk keeps of what was not synced, the journal is a sound prefix."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.wire.kahadb.journal import END_MARKER, Location
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import JournalSettings, PreallocationScope
from tests.kit.stores.batches import encode_batch
from tests.kit.stores.simulated_disk import SimulatedDisk

Answer = Callable[[Completion], Awaitable[Exception | None]]
FOLDER = Path("/journal")
SETTINGS = JournalSettings(max_file_length=2048, max_write_batch_size=1024)
GROWING = JournalSettings(max_file_length=2048, preallocation_scope=PreallocationScope.NONE)


async def recovered(disk: SimulatedDisk, settings: JournalSettings = SETTINGS) -> list[bytes]:
    """What a new journal finds, also after it was used and closed."""
    async with Journal(FOLDER, settings, disk) as journal:
        found = [record.payload for record in journal.records_from()]
        assert journal.append(b"one more") > journal.written
    async with Journal(FOLDER, settings, disk) as journal:
        assert [record.payload for record in journal.records_from()] == [*found, b"one more"]
    return found


@pytest.mark.parametrize("settings", [SETTINGS, GROWING], ids=["preallocated", "growing"])
async def test_any_part_of_the_last_writes_may_be_lost(
    simulated_disk: Any, answer: Answer, settings: JournalSettings
) -> None:
    sent = [bytes([n]) * (n * 26) for n in range(1, 13)]
    async with Journal(FOLDER, settings, simulated_disk) as journal:
        for payload in sent[:5]:
            journal.append(payload)
        assert await answer(journal.barrier()) is None
        for payload in sent[5:]:  # each in a batch of its own, none of them safe
            journal.append(payload)
            assert await answer(journal.barrier(sync=False)) is None
        assert journal.end.file_id == 2, "the first segment became full meanwhile"
        synced = journal.synced
        safe = sum(1 for r in journal.records_from() if r.location < synced)
        assert safe >= 5
        writes = list(simulated_disk.unsynced)
        seen = set()
        for number, write in enumerate(writes):
            for torn in range(len(write.data)):
                disk = simulated_disk.after_crash(number, torn)
                async with Journal(FOLDER, settings, disk) as after:
                    found = [record.payload for record in after.records_from()]
                assert found == sent[: len(found)]
                assert len(found) >= safe
                seen.add(len(found))
        assert seen == set(range(safe, 13)), "the end marker may be lost, the batch is whole"


async def test_the_journal_continues_after_a_torn_end(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, SETTINGS, simulated_disk) as journal:
        journal.append(b"safe")
        assert await answer(journal.barrier()) is None
        journal.append(b"x" * 900)
        assert await answer(journal.barrier(sync=False)) is None
        for torn in range(0, 933, 67):
            assert await recovered(simulated_disk.after_crash(0, torn)) == [b"safe"]
        assert await recovered(simulated_disk.after_crash(1)) == [b"safe", b"x" * 900]


@pytest.mark.parametrize("settings", [SETTINGS, GROWING], ids=["preallocated", "growing"])
async def test_what_follows_a_hole_is_cut_and_never_comes_back(
    simulated_disk: SimulatedDisk, answer: Answer, settings: JournalSettings
) -> None:
    async with Journal(FOLDER, settings, simulated_disk) as journal:
        for payload in (b"lost", b"kept", b"then"):
            journal.append(payload)
            assert await answer(journal.barrier(sync=False)) is None
        disk = simulated_disk.after_crash_losing(lambda write, sector: write == 0)
        assert b"kept" in disk.content(FOLDER / "db-1.log")
    async with Journal(FOLDER, settings, disk) as journal:
        assert list(journal.records_from()) == []
        assert journal.end == Location(1, 0)
        # a batch as long as the one that was lost ends just where the stale one began
        journal.append(b"anew")
        assert await answer(journal.barrier()) is None
    assert b"kept" not in disk.content(FOLDER / "db-1.log")
    assert b"kept" in disk.content(FOLDER / "db-1.log.cut-0"), "a person may want to look at it"
    assert await recovered(disk, settings) == [b"anew"]


async def test_stale_batches_behind_a_sound_end_are_cleared(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    first, stale = encode_batch([b"sound"]), encode_batch([b"stale"])
    content = bytearray(2048)
    content[: len(first.data)] = first.data
    content[2 * first.size : 2 * first.size + len(stale.data)] = stale.data
    content[-5:] = END_MARKER
    simulated_disk.put(FOLDER / "db-1.log", bytes(content))
    async with Journal(FOLDER, SETTINGS, simulated_disk) as journal:
        assert journal.end == Location(1, first.size)
        assert b"stale" not in simulated_disk.content(FOLDER / "db-1.log")
        assert len(simulated_disk.content(FOLDER / "db-1.log")) == 2048
    assert await recovered(simulated_disk) == [b"sound"]


async def test_checking_for_corruption_keeps_what_follows_damage(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    checking = JournalSettings(max_file_length=2048, check_for_corrupt_journal_files=True)
    async with Journal(FOLDER, SETTINGS, simulated_disk) as journal:
        places = []
        for n in range(1, 7):
            places.append(journal.append(bytes([n]) * 600))
            assert await answer(journal.barrier()) is None
    assert [place.file_id for place in places] == [1, 1, 1, 2, 2, 2]
    for damaged in (places[1], places[4]):
        path = FOLDER / f"db-{damaged.file_id}.log"
        content = bytearray(simulated_disk.content(path))
        content[damaged.offset + 100] ^= 1
        simulated_disk.put(path, bytes(content))
    async with Journal(FOLDER, checking, simulated_disk) as journal:
        assert [(s.file_id, s.reason) for s in journal.corrupt] == [
            (1, "checksum"),
            (2, "checksum"),
        ]
        skipped: list[Any] = []
        found = [r.payload[0] for r in journal.records_from(None, skipped)]
        assert found == [1, 3, 4, 6]
        assert skipped == list(journal.corrupt)
    async with Journal(FOLDER, SETTINGS, simulated_disk) as journal:
        # without the check the last segment ends at its first damage, the others are not read
        assert journal.corrupt == ()
        assert journal.end == Location(2, places[4].offset - 28)
        assert [r.payload[0] for r in journal.records_from()] == [1, 3, 4]


async def test_a_new_segment_is_there_or_not_but_never_before_the_old_one_is_safe(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, SETTINGS, simulated_disk) as journal:
        for n in range(1, 5):
            journal.append(bytes([n]) * 900)
        crashes = []

        def note(call: str, count: int) -> None:
            crashes.append(simulated_disk.after_crash(0))
            crashes.append(simulated_disk.after_crash(1, 100))

        simulated_disk.fail = note
        assert await answer(journal.barrier()) is None
        simulated_disk.fail = lambda call, count: None
        crashes.append(simulated_disk.after_crash())
    counts = []
    for disk in crashes:
        found = await recovered(disk)
        assert [payload[0] for payload in found] == [1, 2, 3, 4][: len(found)]
        counts.append(len(found))
    assert counts[-1] == 4


async def test_a_journal_that_cannot_be_opened_says_so(simulated_disk: SimulatedDisk) -> None:
    import errno

    from pyjms.errors import ResourceAllocationException

    for call in ("names", "open", "write", "sync", "sync_directory"):
        simulated_disk.fail_once(call, errno.EIO, times=99)
        with pytest.raises(ResourceAllocationException, match="Cannot open the journal"):
            await Journal(FOLDER, SETTINGS, simulated_disk).open()
        assert simulated_disk.open_files == 0
        simulated_disk = type(simulated_disk)()


async def test_what_an_earlier_process_wrote_is_durable_once_it_was_read(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    """A killed process leaves writes in the system's cache: the next one must sync them."""
    killed = Journal(FOLDER, SETTINGS, simulated_disk)
    await killed.open()
    killed.append(b"one")
    assert await answer(killed.barrier(sync=False)) is None
    async with Journal(FOLDER, SETTINGS, simulated_disk) as journal:
        assert [record.payload for record in journal.records_from()] == [b"one"]
        disk = simulated_disk.after_crash_losing(lambda _number, _sector: True)
    assert await recovered(disk) == [b"one"]
    await killed.close()
