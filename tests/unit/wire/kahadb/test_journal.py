"""Batches, segments and reading them back."""

from __future__ import annotations

import mmap
import re
import struct
import zlib
from pathlib import Path

import pytest

from pyjms.errors import LocalProtocolError
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaTraceCommand
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.journal import (
    END_MARKER,
    MAX_FILE_LENGTH,
    MAX_WRITE_BATCH_SIZE,
    Location,
    preallocation,
    segment_name,
    segment_number,
)
from pyjms.wire.kahadb.segments import (
    JournalFiles,
    SegmentReader,
    Skipped,
    read_located,
    read_record,
)
from tests.kit.stores.batches import SegmentCursor, batch_size, encode_batch


def batch(*payloads: bytes) -> bytes:
    encoded = encode_batch(payloads)
    return encoded.data[: encoded.size]


def payloads(data: bytes, start: int = 0) -> list[bytes]:
    return [record.payload for record in SegmentReader(data, 1, start=start).records()]


@pytest.mark.fact("activemq-persistence K3", "activemq-persistence K4")
def test_a_batch_is_a_control_record_and_its_records() -> None:
    records = b"\0\0\0\x08\x01abc" + b"\0\0\0\x06\x01d"
    head = struct.pack(">ib11siq", 28, 2, b"WRITE BATCH", len(records), zlib.adler32(records))
    encoded = encode_batch([b"abc", b"d"])
    assert encoded.data == head + records + b"-qMa4"
    assert encoded.offsets == (28, 36)
    assert encoded.size == batch_size([3, 1]) == 42
    unchecked = encode_batch([b"abc", b"d"], checksum=False).data
    assert unchecked == head[:-8] + bytes(8) + records + b"-qMa4"
    wrong = bytearray(unchecked)
    wrong[33] ^= 1
    assert payloads(bytes(wrong)) == [b"`bc", b"d"]


def test_bytes_that_are_not_a_batch_are_refused() -> None:
    for wrong in ([], [b"a", b""]):
        with pytest.raises(LocalProtocolError):
            encode_batch(wrong)


def test_defaults_are_activemqs() -> None:
    assert (MAX_FILE_LENGTH, MAX_WRITE_BATCH_SIZE) == (33554432, 4194304)


@pytest.mark.fact("activemq-persistence K5")
def test_markers_end_a_segment() -> None:
    assert preallocation(100) == ((0, b"-qMa4"), (95, b"-qMa4"))
    empty = bytearray(100)
    for offset, mark in preallocation(100):
        empty[offset : offset + 5] = mark
    reader = SegmentReader(bytes(empty), 1)
    assert list(reader.records()) == []
    assert (reader.end, reader.skipped) == (0, [])
    stale = batch(b"old")
    first = encode_batch([b"new"]).data
    assert payloads(first + stale) == [b"new"]


def test_a_cursor_rolls_to_the_next_segment() -> None:
    cursor = SegmentCursor(3, 60, max_file_length=100)
    assert cursor.allocate(40) == Location(3, 60)
    assert cursor.allocate(1) == Location(4, 0)
    assert not cursor.fits(100)
    assert cursor.allocate(500) == Location(5, 0)
    assert cursor.allocate(1) == Location(6, 0)
    assert cursor.roll() == 7
    assert cursor.fits(10**9)
    assert Location(2, 900) < Location(10, 0)


def test_names_of_segments() -> None:
    assert segment_name(12) == "db-12.log"
    assert segment_number("db-12.log") == 12
    for name in ("db-.log", "db-1.log.bak", "db-x.log", "xdb-1.log", "db.data", "db-²1.log"):
        assert segment_number(name) is None


def test_reading_continues_after_a_wrong_checksum() -> None:
    good, bad, last = batch(b"good"), bytearray(batch(b"bad")), batch(b"last")
    bad[-1] ^= 1
    data = good + bytes(bad) + last
    reader = SegmentReader(data, 7)
    assert [r.payload for r in reader.records()] == [b"good", b"last"]
    assert reader.end == len(data)
    begin = len(good)
    assert reader.skipped == [Skipped(7, begin, begin + len(bad), "checksum")]


def test_reading_continues_after_a_wrong_size() -> None:
    for at, value in ((19, 200), (16, 0x7F), (31, 1), (28, 0x7F), (32, 2), (0, 1), (5, 0)):
        bad = bytearray(batch(b"bad"))
        bad[at] = value
        reader = SegmentReader(batch(b"good") + bytes(bad) + batch(b"last"), 1)
        assert [r.payload for r in reader.records()] == [b"good", b"last"], at
        assert [(s.start, s.end) for s in reader.skipped] == [(37, 73)], at


def test_nothing_inside_a_damaged_message_is_taken_for_a_batch() -> None:
    inner = batch(b"never")
    bad = bytearray(batch(inner + b"x"))
    bad[-1] ^= 1
    assert payloads(bytes(bad) + batch(b"last")) == [b"last"]
    whole = batch(b"a", inner + b"tail")
    for cut in range(len(whole)):
        assert payloads(whole[:cut]) == []
        assert payloads(whole[:cut] + bytes(len(whole))) == []


def test_zeros_after_the_last_batch_are_not_damage() -> None:
    for rest in (b"", bytes(200000), bytes(200000) + END_MARKER, bytes(3)):
        reader = SegmentReader(batch(b"a") + rest, 1)
        assert [r.payload for r in reader.records()] == [b"a"]
        assert reader.skipped == []
    reader = SegmentReader(batch(b"a") + bytes(200000) + b"x", 1)
    list(reader.records())
    assert [(s.start, s.reason) for s in reader.skipped] == [(34, "damaged")]


def test_a_batch_far_behind_the_damage_is_found() -> None:
    for gap in (65520, 65530, 65536, 131072):
        reader = SegmentReader(b"x" * gap + batch(b"far"), 1)
        assert [r.payload for r in reader.records()] == [b"far"]
        assert reader.skipped == [Skipped(1, 0, gap, "damaged")]


def test_a_torn_header_is_not_a_batch() -> None:
    data = batch(b"a") + batch(b"b")[:16] + bytes(100)
    reader = SegmentReader(data, 1)
    assert [r.payload for r in reader.records()] == [b"a"]
    assert reader.end == 34


def test_a_mapped_file_is_read_and_released(tmp_path: Path) -> None:
    path = tmp_path / "db-1.log"
    path.write_bytes(encode_batch([b"a", b"b"]).data)
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        reader = SegmentReader(data, 1)
        records = list(reader.records())
        assert [read_record(data, r.location) for r in records] == records
        assert [r.size for r in records] == [6, 6]
        reader.release()
        reader.release()


def test_one_record_is_refused_where_none_is() -> None:
    data = batch(b"abc")
    assert read_record(data, Location(1, 28)).payload == b"abc"
    for offset in (-1, 0, 27, 29, 32, 36, 99):
        with pytest.raises(KahaDBFormatError):
            read_record(data, Location(1, offset))


def journal(folder: Path, segments: dict[int, bytes]) -> JournalFiles:
    for number, data in segments.items():
        (folder / segment_name(number)).write_bytes(data)
    return JournalFiles(folder)


def test_a_folder_is_read_segment_after_segment(tmp_path: Path) -> None:
    (tmp_path / "db-old.log").write_bytes(batch(b"no"))
    (tmp_path / "db-03.log").write_bytes(batch(b"no"))
    (tmp_path / "db.data").write_bytes(b"no")
    fresh = bytearray(64)
    fresh[:5] = fresh[-5:] = END_MARKER
    last = bytes(fresh)
    trace = encode_command(KahaTraceCommand("LOADED"))
    large = b"x" * 3_000_000
    contents = {1: b"", 2: batch(b"a"), 9: batch(trace) + batch(large), 10: batch(b"c")}
    files = journal(tmp_path, contents)
    assert files.segments() == [2, 9, 10]
    records = list(files.records())
    assert [r.location for r in records] == [(2, 28), (9, 28), (9, 71), (10, 28)]
    assert records[1].command() == KahaTraceCommand("LOADED")
    assert records[2].payload == large
    assert files.end == Location(10, 34)
    journal(tmp_path, {11: last})
    assert list(files.records()) == records
    assert files.end == Location(10, 34)
    assert files.skipped == []


def test_a_folder_is_read_from_a_location_and_tells_what_it_skipped(tmp_path: Path) -> None:
    two = batch(b"b", b"c")
    files = journal(tmp_path, {1: batch(b"a"), 2: two, 4: batch(b"d") + b"torn"})
    assert [r.payload for r in files.records(Location(2, 30))] == [b"c", b"d"]
    assert [r.payload for r in files.records(Location(2, len(two)))] == [b"d"]
    assert files.skipped == [Skipped(4, 34, 38, "torn")]
    assert files.end == Location(4, 34)
    assert files.read(Location(2, 34)).payload == b"c"
    for wrong in (Location(2, 0), Location(2, 35), Location(2, 39), Location(2, -1)):
        with pytest.raises(KahaDBFormatError):
            files.read(wrong)


def test_a_record_of_a_batch_with_a_flipped_byte_is_refused(tmp_path: Path) -> None:
    one, two = batch(b"abc", b"def"), batch(b"ghi")
    journal(tmp_path, {1: one + two + batch(b"jkl"), 2: batch(b"mno")})
    first, second, third = Location(1, 28), Location(1, 36), Location(1, len(one) + 28)
    fourth, fifth = Location(1, len(one + two) + 28), Location(2, 28)
    path = tmp_path / "db-1.log"
    data = bytearray(path.read_bytes())
    data[second.offset + 6] ^= 1
    path.write_bytes(data)
    files = JournalFiles(tmp_path)
    for refused in (first, second, first):
        expected = f"^The batch of the record at {re.escape(str(refused))} is damaged$"
        with pytest.raises(KahaDBFormatError, match=expected):
            files.read(refused)
        with pytest.raises(KahaDBFormatError, match=expected):
            next(read_located([(str(path), refused)]))
    payloads = [b"ghi", b"jkl", b"mno"]
    assert [files.read(sound).payload for sound in (third, fourth, fifth)] == payloads
    where = [(str(tmp_path / f"db-{at.file_id}.log"), at) for at in (third, fourth, fifth)]
    assert [record.payload for record in read_located(where)] == payloads
    assert files.read_unchecked(second).payload == b"ddf"


def test_a_segment_deleted_while_reading_is_noted(tmp_path: Path) -> None:
    files = journal(tmp_path, {1: batch(b"a"), 2: batch(b"b"), 3: batch(b"c")})
    found = files.records()
    assert next(found).payload == b"a"
    (tmp_path / "db-2.log").unlink()
    assert [r.payload for r in found] == [b"c"]
    assert files.skipped == [Skipped(2, 0, 0, "deleted")]


def test_a_name_without_a_file_is_not_a_segment(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").symlink_to(tmp_path / "gone")
    assert JournalFiles(tmp_path).segments() == []


def test_an_empty_folder_has_no_end(tmp_path: Path) -> None:
    files = JournalFiles(tmp_path)
    assert list(files.records()) == []
    assert files.end is None
