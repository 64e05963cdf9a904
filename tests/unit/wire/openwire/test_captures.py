"""Recorded conversations between a Java client and ActiveMQ 5.17.2, whole connections at a time."""

from __future__ import annotations

from typing import Any

from pyjms.wire.openwire.commands import WireFormatInfo
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.reader import LooseReader
from pyjms.wire.openwire.settings import WireFormatSettings, wire_format_properties
from tests.kit.golden_frames import Golden

OTHER = {"c2b": "b2c", "b2c": "c2b"}
# What the recorder calls the negotiated values.
NAMES = {
    "version": "version",
    "tight": "tight_encoding_enabled",
    "cache": "cache_enabled",
    "cache_size": "cache_size",
    "stack_trace": "stack_trace_enabled",
    "tcp_no_delay": "tcp_no_delay_enabled",
    "size_prefix_disabled": "size_prefix_disabled",
    "max_frame_size": "max_frame_size",
}


def settings_of(frame: dict[str, Any]) -> WireFormatSettings:
    """Return the wishes of the side that sent this WireFormatInfo."""
    info = LooseReader(bytes.fromhex(frame["hex"])[4:], 12, True).read_frame()
    assert isinstance(info, WireFormatInfo)
    wishes: Any = wire_format_properties(info)
    return WireFormatSettings(
        version=info.version,
        tight_encoding_enabled=wishes["TightEncodingEnabled"],
        cache_enabled=wishes["CacheEnabled"],
        cache_size=wishes["CacheSize"],
        size_prefix_disabled=wishes["SizePrefixDisabled"],
        stack_trace_enabled=wishes["StackTraceEnabled"],
        tcp_no_delay_enabled=wishes["TcpNoDelayEnabled"],
        max_frame_size=wishes["MaxFrameSize"],
        max_inactivity_duration=wishes["MaxInactivityDuration"] / 1000,
        max_inactivity_duration_inital_delay=wishes["MaxInactivityDurationInitalDelay"] / 1000,
    )


def check_direction(golden: Golden, capture: dict[str, Any], direction: str) -> int:
    frames = [f for f in capture["frames"] if f["dir"] == direction]
    answers = [f for f in capture["frames"] if f["dir"] == OTHER[direction]]
    if not frames or not answers:
        return 0
    receiver = OpenWireFormat(settings_of(answers[0]))
    commands = receiver.receive_data(b"".join(bytes.fromhex(f["hex"]) for f in frames))
    agreed = receiver.negotiated
    assert agreed is not None
    recorded = capture["negotiated"]
    assert {name: getattr(agreed, ours) for name, ours in NAMES.items()} == recorded
    assert len(commands) == len(frames)
    for command, frame in zip(commands, frames, strict=True):
        version = 12 if isinstance(command, WireFormatInfo) else agreed.version
        trace = isinstance(command, WireFormatInfo) or agreed.stack_trace_enabled
        where = f"{capture['name']} frame {frame['n']}"
        assert golden.fields(command, version, trace) == frame["fields"], where
    check_sending(golden, direction, frames, answers)
    return len(frames)


def check_sending(
    golden: Golden, direction: str, frames: list[dict[str, Any]], answers: list[dict[str, Any]]
) -> None:
    """Write the same conversation from its fields; the bytes must be the reference's."""
    sender = OpenWireFormat(settings_of(frames[0]))
    first = golden.build(frames[0]["fields"], 12)
    written = [sender.encode(first)]
    agreed = sender.negotiate(golden.build(answers[0]["fields"], 12))
    for frame in frames[1:]:
        written.append(sender.encode(golden.build(frame["fields"], agreed.version)))
    for data, frame in zip(written, frames, strict=True):
        assert data.hex() == frame["hex"], f"{direction} frame {frame['n']}"


def test_every_recorded_connection_goes_through_a_wire_format(golden: Golden) -> None:
    captures = golden.lines("captures")
    total = sum(len(c["frames"]) for c in captures)
    passed = sum(check_direction(golden, c, d) for c in captures for d in OTHER)
    print(f"recorded connections {len(captures)}, frames {passed}/{total}")
    assert (len(captures), passed, total) == (54, 1332, 1332)
