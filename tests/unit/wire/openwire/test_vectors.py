"""Every golden frame, both ways, in the form it was recorded in."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest

from pyjms.jms.types import Byte, Char, Float, Long, Short
from pyjms.wire.limits import inflate
from pyjms.wire.openwire.cache import ReadCache, WriteCache
from pyjms.wire.openwire.fast_reader import FastReader
from pyjms.wire.openwire.fast_writer import FastWriter
from pyjms.wire.openwire.primitives import decode_map, decode_text, decode_values, encode_map
from pyjms.wire.openwire.reader import LooseReader, TightReader
from pyjms.wire.openwire.writer import LooseWriter, TightWriter
from tests.kit.golden_frames import Golden

CODES = {
    bool: "boolean",
    Byte: "byte",
    Char: "char",
    Short: "short",
    int: "int",
    Long: "long",
    float: "double",
    Float: "float",
    str: "string",
    bytes: "bytes",
    dict: "map",
    list: "list",
    type(None): "null",
}


def typed(value: Any) -> Any:
    """Return a decoded value as the golden files write it."""
    kind = CODES[type(value)]
    if kind == "map":
        return {kind: {k: typed(v) for k, v in value.items()}}
    if kind == "list":
        return {kind: [typed(v) for v in value]}
    if kind == "bytes":
        return {kind: value.hex()}
    if kind in ("float", "double") and not math.isfinite(value):
        return {kind: "NaN" if math.isnan(value) else ("-" if value < 0 else "") + "Infinity"}
    return {kind: value}


def body_of(message: Any, kind: str) -> Any:
    content = message.content
    if message.compressed and kind == "bytes":
        (size,) = struct.unpack_from(">i", content)
        return inflate(content[4:])[:size].hex()
    if message.compressed:
        content = inflate(content)
    if kind == "text":
        return decode_text(content)
    if kind == "map":
        return typed(decode_map(content))["map"]
    if kind == "stream":
        return [typed(v) for v in decode_values(content)]
    return content.hex()


def check_decoded(command: Any, decoded: dict[str, Any]) -> None:
    """Compare what the bytes mean; in a dispatch it is the message's."""
    message = getattr(command, "message", None) or command
    expected = decoded["properties"]
    if expected is not None:
        properties = decode_map(message.marshalled_properties)
        assert typed(properties)["map"] == expected
        assert decode_map(encode_map(properties)) == properties or "NaN" in str(expected)
    if decoded.get("body") is not None:
        ((kind, value),) = decoded["body"].items()
        assert body_of(message, kind) == value


def unframed(frame: dict[str, Any], size_prefix: bool) -> bytes:
    data = bytes.fromhex(frame["hex"])
    if not size_prefix:
        return data
    assert int.from_bytes(data[:4], "big") == len(data) - 4
    return data[4:]


def check_line(golden: Golden, line: dict[str, Any]) -> int:
    """Check a line's frames in order and return how many they were."""
    tight, version, trace = line["tight"], line["version"], line["stack_trace"]
    size = line.get("cache_size", 1024)
    read_cache = ReadCache(size) if line["cache"] else None
    write_cache = WriteCache(size) if line["cache"] else None
    frames = line.get("sequence", [line])
    for frame in frames:
        data = unframed(frame, line["size_prefix"])
        reader = (TightReader if tight else LooseReader)(data, version, trace, read_cache)
        value = reader.read_frame()
        assert reader.pos == len(data), line["name"]
        assert golden.fields(value, version, trace) == frame["fields"], line["name"]
        writer = (TightWriter if tight else LooseWriter)(version, trace, write_cache)
        built = golden.build(frame["fields"], version)
        assert writer.frame(built).hex() == data.hex(), line["name"]
        if "decoded" in frame:
            check_decoded(value, frame["decoded"])
    return len(frames)


@pytest.mark.fact(
    "openwire-encoding 2/boolean",
    "openwire-encoding 2/byte / short / int / long",
    "openwire-encoding 2/string",
    "openwire-encoding 2/byteArray, byteSequence",
    "openwire-encoding 2/constByteArray",
    "openwire-encoding 2/nested",
    "openwire-encoding 2/cached",
    "openwire-encoding 2/objectArray",
    "openwire-encoding 2/throwable",
    "openwire-encoding 3/boolean",
    "openwire-encoding 3/byte / short / int",
    "openwire-encoding 3/long",
    "openwire-encoding 3/string",
    "openwire-encoding 3/byteArray, byteSequence",
    "openwire-encoding 3/constByteArray",
    "openwire-encoding 3/nested",
    "openwire-encoding 3/cached",
    "openwire-encoding 3/objectArray",
    "openwire-encoding 3/throwable",
    "openwire-encoding 8/ActiveMQMessage",
    "openwire-encoding 8/ActiveMQTextMessage",
    "openwire-encoding 8/ActiveMQBytesMessage",
    "openwire-encoding 8/ActiveMQMapMessage",
    "openwire-encoding 8/ActiveMQStreamMessage",
    "openwire-encoding 8/ActiveMQObjectMessage",
)
def test_every_golden_frame_reads_to_its_fields_and_writes_to_its_bytes(golden: Golden) -> None:
    lines = golden.lines("vectors")
    singles = [line for line in lines if "sequence" not in line]
    sequences = [line for line in lines if "sequence" in line]
    passed = sum(check_line(golden, line) for line in singles)
    frames = sum(check_line(golden, line) for line in sequences)
    print(f"golden frames {passed}/{len(singles)}, cached sequences {len(sequences)} of {frames}")
    assert (passed, len(sequences), frames) == (787, 12, 592)


def test_every_golden_frame_of_versions_1_to_11(golden: Golden) -> None:
    lines = golden.lines("vectors_older")
    passed = sum(check_line(golden, line) for line in lines)
    print(f"golden frames of older versions {passed}/{len(lines)}")
    assert passed == 264


def test_the_fast_codec_reads_and_writes_the_same_as_the_general_codec(golden: Golden) -> None:
    """Hot commands have specialized code for loose, uncached version 12."""
    reader, writer = FastReader(), FastWriter()
    read = written = 0
    for line in golden.lines("vectors"):
        if line["tight"] or line["cache"] or "sequence" in line or not line["stack_trace"]:
            continue
        data = unframed(line, line["size_prefix"])
        command = reader.read_frame(data)
        if command is not None:
            read += 1
            assert golden.fields(command, 12, True) == line["fields"], line["name"]
        built = golden.build(line["fields"], 12)
        out = bytearray(b"before")
        if built is not None and writer.write_frame(out, built):
            written += 1
            assert out[6:].hex() == data.hex(), line["name"]
        else:
            assert out == b"before", line["name"]
    assert (read, written) == (68, 80)
