"""Records are read by their locations from batches whose checksum matches."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ResourceAllocationException
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import BATCH_CONTROL_HEAD, BATCH_CONTROL_SIZE, Location
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.journal.journal import Journal
from pyjms_broker.store.journal.settings import JournalSettings
from tests.kit.stores.simulated_disk import SimulatedDisk

Answer = Callable[[Completion], Awaitable[Exception | None]]

FOLDER = Path("/journal")
RECORD_HEAD = 5
BATCHES = 12
RECORDS = 3
LENGTH = 100


def payload(batch: int, record: int) -> bytes:
    return bytes([batch, record]) * (LENGTH // 2)


class Written:
    """A journal on a simulated disk with some batches of three records in each segment."""

    def __init__(self, disk: Any, journal: Journal, locations: list[list[Location]]) -> None:
        self.disk = disk
        self.journal = journal
        self.locations = locations

    def start(self, batch: int) -> Location:
        first = self.locations[batch][0]
        return Location(first.file_id, first.offset - BATCH_CONTROL_SIZE)

    def flip(self, location: Location, at: int = 0) -> None:
        """Flip a bit of the byte `at` behind a location."""
        self.disk.flip_bit(FOLDER / f"db-{location.file_id}.log", location.offset + at)

    def read(self) -> dict[int, list[bytes]]:
        """Return what single reads return, by the numbers of the batches."""
        found: dict[int, list[bytes]] = {}
        for number, locations in enumerate(self.locations):
            for location in locations:
                try:
                    read = self.journal.read(location)
                    found.setdefault(number, []).append(read)
                except (KahaDBFormatError, ResourceAllocationException):
                    continue
        return found

    def all_but(self, *damaged: int) -> dict[int, list[bytes]]:
        return {
            number: [payload(number, record) for record in range(RECORDS)]
            for number in range(BATCHES)
            if number not in damaged
        }


async def written(disk: SimulatedDisk, answer: Answer, journal: Journal) -> Written:
    locations = []
    for batch in range(BATCHES):
        locations.append([journal.append(payload(batch, record)) for record in range(RECORDS)])
        assert await answer(journal.barrier()) is None
    assert len({each[0].file_id for each in locations}) == 2, "there is an old segment, too"
    return Written(disk, journal, locations)


def settings(**options: Any) -> JournalSettings:
    return JournalSettings(max_file_length=3000, **options)


DAMAGE: dict[str, Callable[[Written, int], None]] = {
    "payload": lambda w, n: w.flip(w.locations[n][1], RECORD_HEAD + 7),
    "record head": lambda w, n: w.flip(w.locations[n][1], 2),
    "magic": lambda w, n: w.flip(w.start(n), 8),
    "size": lambda w, n: w.flip(w.start(n), len(BATCH_CONTROL_HEAD) + 3),
    "large size": lambda w, n: w.flip(w.start(n), len(BATCH_CONTROL_HEAD)),
    "checksum": lambda w, n: w.flip(w.start(n), len(BATCH_CONTROL_HEAD) + 11),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("batch", [0, 4, BATCHES - 1])
@pytest.mark.parametrize("backwards", [False, True])
async def test_a_flipped_bit_takes_its_batch_and_no_other(
    simulated_disk: SimulatedDisk, answer: Answer, kind: str, batch: int, backwards: bool
) -> None:
    async with Journal(FOLDER, settings(), simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        DAMAGE[kind](here, batch)
        if backwards:
            assert journal.read(here.locations[-2][0]) == payload(BATCHES - 2, 0)
        assert here.read() == here.all_but(batch)
        assert here.read() == here.all_but(batch), "also when it is known"


async def test_a_run_with_a_damaged_batch_is_refused(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, settings(), simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        here.flip(here.locations[4][1], RECORD_HEAD)
        locations = [each for batch in here.locations for each in batch]
        with pytest.raises(KahaDBFormatError, match="damaged"):
            journal.read_run(locations)
        first, last = locations[: 4 * RECORDS], locations[5 * RECORDS :]
        expected = [each for batch in here.all_but(4).values() for each in batch]
        assert journal.read_run(first) + journal.read_run(last) == expected
        assert journal.read_run([here.locations[3][0], here.locations[5][0]]) == [
            payload(3, 0),
            payload(5, 0),
        ], "nothing is read from the damaged one between them"


async def test_a_run_across_a_wrong_header_has_no_record_of_damaged_batches(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    """Once the wrong header is found, the batches before it have other numbers."""
    async with Journal(FOLDER, settings(), simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        DAMAGE["payload"](here, 0)
        DAMAGE["payload"](here, 1)
        DAMAGE["magic"](here, 2)
        with pytest.raises(KahaDBFormatError, match="damaged"):
            journal.read_run([here.locations[1][1], here.locations[3][0]])
        assert here.read() == here.all_but(0, 1, 2)


async def test_a_run_of_sound_batches_across_a_wrong_header_is_returned(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, settings(), simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        DAMAGE["payload"](here, 0)
        DAMAGE["payload"](here, 1)
        DAMAGE["magic"](here, 3)
        assert journal.read_run([here.locations[2][0], here.locations[4][0]]) == [
            payload(2, 0),
            payload(4, 0),
        ]


async def test_a_journal_that_is_opened_again_checks_again(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    """Its files may be others: restored from a copy, or written by another broker meanwhile."""
    journal = Journal(FOLDER, settings(), simulated_disk)
    async with journal:
        here = await written(simulated_disk, answer, journal)
        assert here.read() == here.all_but()
    DAMAGE["payload"](here, 4)
    async with journal:
        assert here.read() == here.all_but(4)


async def test_batches_without_a_checksum_are_returned(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    """As ActiveMQ writes them with checksumJournalFiles=false."""
    async with Journal(FOLDER, settings(checksum=False), simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        assert here.read() == here.all_but()


@pytest.mark.parametrize("checked", [True, False])
async def test_checks_can_be_switched_off(
    simulated_disk: SimulatedDisk, answer: Answer, checked: bool
) -> None:
    options = settings(verify_checksums_at_reading=checked)
    async with Journal(FOLDER, options, simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        here.flip(here.locations[4][1], RECORD_HEAD + 7)
        found = here.read()
        assert {k: v for k, v in found.items() if k != 4} == here.all_but(4)
        if checked:
            assert 4 not in found
        else:
            assert found[4][1] != payload(4, 1)


async def test_a_bad_sector_costs_only_the_records_in_it(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    """The disk says which bytes are bad; the checksum of their batch cannot be computed."""
    disk: Any = BadSector(simulated_disk)
    async with Journal(FOLDER, settings(), disk) as journal:
        here = await written(simulated_disk, answer, journal)
        disk.bad = here.locations[4][1].offset + RECORD_HEAD + 7
        first_segment = here.locations[0][0].file_id
        found = here.read()
        expected = here.all_but()
        expected[4] = [payload(4, 0), payload(4, 2)]
        for number, locations in enumerate(here.locations):
            if locations[0].file_id == first_segment:
                assert found[number] == expected[number], number


async def test_a_bad_sector_beside_a_damaged_batch(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    disk: Any = BadSector(simulated_disk)
    async with Journal(FOLDER, JournalSettings(max_file_length=1 << 20), disk) as journal:
        locations = []
        for batch in range(4):
            locations.append([journal.append(bytes([65 + batch]) * 9000) for _ in range(2)])
            assert await answer(journal.barrier()) is None
        here = Written(simulated_disk, journal, locations)
        disk.bad = here.locations[2][0].offset + 4500
        here.flip(here.start(0), 8)
        found = {number: [each[:1] for each in read] for number, read in here.read().items()}
        assert found == {1: [b"B", b"B"], 2: [b"C"], 3: [b"D", b"D"]}


async def test_a_lack_of_file_handles_is_not_damage(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, settings(), simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        for times in (1, 2):  # of the headers, and of the batch behind them
            simulated_disk.fail_once("read", errno.ENOMEM, times)
            for _ in range(times):
                with pytest.raises(ResourceAllocationException, match="Cannot read"):
                    journal.read(here.locations[times][1])
        assert here.read() == here.all_but()


async def test_a_batch_is_checked_once(simulated_disk: SimulatedDisk, answer: Answer) -> None:
    async with Journal(FOLDER, settings(), simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        assert here.read() == here.all_but()
        simulated_disk.log.clear()
        assert here.read() == here.all_but()
        assert simulated_disk.log == ["read"] * (BATCHES * RECORDS)


async def test_what_is_appended_behind_damage_is_readable(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, settings(), simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        here.flip(here.start(BATCHES - 1), 8)
        assert here.read() == here.all_but(BATCHES - 1)
        later = [journal.append(b"later 1"), journal.append(b"later 2")]
        assert await answer(journal.barrier()) is None
        assert journal.read_run(later) == [b"later 1", b"later 2"]


async def test_a_record_read_for_its_digest_is_not_checked(
    simulated_disk: SimulatedDisk, answer: Answer
) -> None:
    async with Journal(FOLDER, settings(), simulated_disk) as journal:
        here = await written(simulated_disk, answer, journal)
        here.flip(here.locations[4][1], RECORD_HEAD + 7)
        assert journal.read_unchecked(here.locations[4][0]) == payload(4, 0)


class BadSector:
    """A disk with one byte that cannot be read."""

    def __init__(self, disk: Any) -> None:
        self._disk = disk
        self.bad = -1

    def read(self, fd: int, size: int, offset: int) -> Any:
        if offset <= self.bad < offset + size:
            raise OSError(errno.EIO, "simulated")
        return self._disk.read(fd, size, offset)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._disk, name)
