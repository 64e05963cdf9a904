"""KahaDB's codec and reader against generated commands, crashes and damage."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import RemoteProtocolError
from pyjms.wire.kahadb.codec import (
    decode_command,
    encode_command,
    encode_varint,
    read_varint,
    to_signed,
)
from pyjms.wire.kahadb.commands import COMMANDS, FieldKind, KahaStructure, fields_of
from pyjms.wire.kahadb.frames import decode_ack, decode_message, decode_subscription_info
from pyjms.wire.kahadb.journal import END_MARKER, preallocation
from pyjms.wire.kahadb.segments import SegmentReader
from tests.kit.properties import examples
from tests.kit.stores.batches import SegmentCursor, encode_batch

few = examples(38)

VALUES: dict[FieldKind, st.SearchStrategy[Any]] = {
    FieldKind.INT32: st.integers(-(2**31), 2**31 - 1),
    FieldKind.INT64: st.integers(-(2**63), 2**63 - 1),
    FieldKind.BOOL: st.booleans(),
    FieldKind.STRING: st.text(max_size=20),
    FieldKind.BYTES: st.binary(max_size=200),
}


def structures(cls: type[KahaStructure]) -> st.SearchStrategy[Any]:
    fields = {}
    for field in fields_of(cls):
        inner = structures(field.structure) if field.structure else VALUES[field.kind]
        fields[field.name] = inner if field.required else st.none() | inner
    return st.builds(cls, **fields)


commands = st.sampled_from(sorted(COMMANDS)).flatmap(lambda code: structures(COMMANDS[code]))
# Payloads that hold what a reader looks for: whole batches, heads, markers.
pieces = st.one_of(
    st.binary(min_size=1, max_size=40),
    st.lists(st.binary(min_size=1, max_size=10), min_size=1, max_size=3).map(
        lambda payloads: encode_batch(payloads).data
    ),
    st.just(END_MARKER),
    st.just(bytes(40)),
)
payloads = st.lists(pieces, min_size=1, max_size=3).map(b"".join)
segments = st.lists(st.lists(payloads, min_size=1, max_size=4), min_size=1, max_size=5)


def written(batches: list[list[bytes]], length: int = 0) -> tuple[bytearray, list[int]]:
    """A segment with these batches, preallocated, and where each of them ends."""
    data = bytearray(length)
    for offset, mark in preallocation(length) if length else ():
        data[offset : offset + len(mark)] = mark
    cursor, ends = SegmentCursor(), []
    for batch in map(encode_batch, batches):
        at = cursor.allocate(batch.size).offset
        data[at : at + len(batch.data)] = batch.data
        ends.append(cursor.offset)
    return data, ends


def read(data: bytes) -> list[list[bytes]]:
    reader = SegmentReader(data, 1)
    found: dict[int, list[bytes]] = {}
    ends = {o: i for i, b in enumerate(SegmentReader(data, 1).batches()) for o in b.offsets}
    for record in reader.records():
        found.setdefault(ends[record.location.offset], []).append(record.payload)
    return list(found.values())


@few
@given(commands)
def test_every_command_comes_back_with_the_same_bytes(command: Any) -> None:
    payload = encode_command(command)
    assert decode_command(payload) == command
    assert encode_command(decode_command(b"xx" + payload + b"yy", 2, 2 + len(payload))) == payload


@few
@given(st.integers(-(2**63), 2**63 - 1))
def test_numbers_come_back(value: int) -> None:
    data = encode_varint(value)
    assert len(data) <= 10
    unsigned, end = read_varint(data, 0, len(data))
    assert (to_signed(unsigned), end) == (value, len(data))


@few
@given(st.binary(max_size=300), st.sampled_from(sorted(COMMANDS)))
def test_random_payloads_raise_the_documented_error_or_decode(data: bytes, code: int) -> None:
    try:
        decode_command(bytes((code,)) + encode_varint(len(data)) + data)
    except RemoteProtocolError:
        return


@few
@given(commands, st.integers(0, 2**32), st.integers(0, 255))
def test_damaged_payloads_raise_the_documented_error_or_decode(
    command: Any, at: int, byte: int
) -> None:
    payload = bytearray(encode_command(command))
    payload[at % len(payload)] = byte
    try:
        decode_command(bytes(payload))
    except RemoteProtocolError:
        return


@few
@given(st.binary(max_size=100))
def test_random_frames_raise_the_documented_error(data: bytes) -> None:
    for decode in (decode_message, decode_ack, decode_subscription_info):
        if data or decode is not decode_ack:
            with pytest.raises(RemoteProtocolError):
                decode(data)
            with pytest.raises(RemoteProtocolError):
                decode(len(data).to_bytes(4, "big") + data)


@examples(10)
@given(segments)
def test_a_segment_cut_anywhere_has_exactly_the_batches_that_are_whole(
    batches: list[list[bytes]],
) -> None:
    data, ends = written(batches)
    for cut in range(len(data) + 1):
        whole = sum(end <= cut for end in ends)
        reader = SegmentReader(bytes(data[:cut]), 1)
        assert [b.end for b in reader.batches()] == ends[:whole]
        assert reader.end == (ends[whole - 1] if whole else 0)
        assert all(s.start >= reader.end for s in reader.skipped)
    assert read(bytes(data)) == batches


@examples(10)
@given(segments)
def test_a_preallocated_segment_torn_anywhere_has_exactly_the_batches_that_are_whole(
    batches: list[list[bytes]],
) -> None:
    data, ends = written(batches, 8192)
    fresh = written([], 8192)[0]
    for cut in range(ends[-1] + 1):
        torn = data[:cut] + fresh[cut:]
        whole = sum(end <= cut or torn[:end] == data[:end] for end in ends)
        reader = SegmentReader(bytes(torn), 1)
        assert [b.end for b in reader.batches()] == ends[:whole]
        assert reader.end == (ends[whole - 1] if whole else 0)
    reader = SegmentReader(bytes(data), 1)
    assert [b.end for b in reader.batches()] == ends
    assert reader.skipped == []


@few
@given(segments, st.data())
def test_a_wrong_byte_costs_its_own_batch_only(batches: list[list[bytes]], data: Any) -> None:
    segment, ends = written(batches)
    at = data.draw(st.integers(0, ends[-1] - 1))
    wrong = data.draw(st.integers(1, 255))
    segment[at] ^= wrong
    hit = sum(end <= at for end in ends)
    reader = SegmentReader(bytes(segment), 1)
    found = {b.end for b in reader.batches()}
    expected = [end for index, end in enumerate(ends) if index != hit]
    assert found.issuperset(expected[:hit])
    begin = ends[hit - 1] if hit else 0
    in_records = at >= begin + 28 and not _is_head(batches[hit], at - begin - 28)
    if in_records:
        assert sorted(found) == expected
        assert [(s.start, s.end, s.reason) for s in reader.skipped] == [
            (begin, ends[hit], "checksum")
        ]


def _is_head(batch: list[bytes], at: int) -> bool:
    for payload in batch:
        if at < 5:
            return at >= 0
        at -= 5 + len(payload)
    return False


@few
@given(st.binary(max_size=4000), st.integers(0, 4000))
def test_random_segments_neither_hang_nor_raise(data: bytes, start: int) -> None:
    reader = SegmentReader(data, 1, start=start)
    assert list(reader.records()) == []
    assert reader.end == 0


@few
@given(segments, st.integers(0, 2**32))
def test_shuffled_bytes_neither_hang_nor_raise(batches: list[list[bytes]], seed: int) -> None:
    data, _ = written(batches)
    chance = random.Random(seed)
    parts = [bytes(data[i : i + 9]) for i in range(0, len(data), 9)]
    chance.shuffle(parts)
    reader = SegmentReader(b"".join(parts), 1)
    for record in reader.records():
        assert record.location.offset < len(data)


@few
@given(segments, st.data())
def test_reading_from_a_location_gives_what_follows_it(
    batches: list[list[bytes]], data: Any
) -> None:
    segment, _ = written(batches)
    records = list(SegmentReader(bytes(segment), 1).records())
    start = data.draw(st.integers(0, len(segment)))
    expected = [r for r in records if r.location.offset >= start]
    assert list(SegmentReader(bytes(segment), 1, start=start).records()) == expected
