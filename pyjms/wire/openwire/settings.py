"""Negotiation: the settings that a side offers in its WireFormatInfo, and the common settings.

Both sides compute the same result from the two infos: the lower version, an option only if both
have enabled it, the smaller of two sizes and durations. Durations are seconds here and milliseconds
in the info. (openwire-encoding 6; activemq-edges 1.1)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyjms.errors import ConfigurationException, RemoteProtocolError
from pyjms.jms.metadata import ConnectionMetaData
from pyjms.jms.types import Long
from pyjms.wire.limits import MAX_CACHE_SIZE, MAX_FRAME_SIZE, MAX_NEGOTIATION_VALUES
from pyjms.wire.openwire.commands import WireFormatInfo
from pyjms.wire.openwire.primitives import decode_map, encode_map
from pyjms.wire.openwire.schema import CURRENT_VERSION, OLDEST_VERSION

MAGIC: Final = b"ActiveMQ"
_LONGEST: Final = 0x7FFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True)
class WireFormatSettings:
    """The settings that one side offers.

    Tight encoding and the cache are off by default: loose frames are faster to read, and a
    message's bytes can be kept as received. `max_frame_size` is in bytes, durations are in seconds;
    an inactivity duration of 0 disables monitoring for both sides.
    """

    version: int = CURRENT_VERSION
    tight_encoding_enabled: bool = False
    cache_enabled: bool = False
    cache_size: int = 1024
    size_prefix_disabled: bool = False
    stack_trace_enabled: bool = True
    tcp_no_delay_enabled: bool = True
    max_frame_size: int = MAX_FRAME_SIZE
    max_frame_size_enabled: bool = True
    max_inactivity_duration: float = 30.0
    max_inactivity_duration_inital_delay: float = 10.0
    host: str | None = None
    provider_name: str = "ActiveMQ"
    provider_version: str = ConnectionMetaData().provider_version
    include_platform_details: bool = False

    def __post_init__(self) -> None:
        if not OLDEST_VERSION <= self.version <= CURRENT_VERSION:
            raise ConfigurationException(
                f"Unknown OpenWire version {self.version}",
                hint=f"set wireFormat.version to {OLDEST_VERSION}..{CURRENT_VERSION}",
            )
        if not 0 <= self.cache_size <= MAX_CACHE_SIZE:
            raise ConfigurationException(
                f"Invalid cache size {self.cache_size}",
                hint=f"set wireFormat.cacheSize to 0..{MAX_CACHE_SIZE}",
            )

    def info(self) -> WireFormatInfo:
        """Return the WireFormatInfo that this side sends first."""
        properties: dict[str, object] = {
            "TightEncodingEnabled": self.tight_encoding_enabled,
            "CacheEnabled": self.cache_enabled,
            "CacheSize": self.cache_size,
            "SizePrefixDisabled": self.size_prefix_disabled,
            "StackTraceEnabled": self.stack_trace_enabled,
            "TcpNoDelayEnabled": self.tcp_no_delay_enabled,
            "MaxFrameSize": Long(self.max_frame_size),
            "MaxFrameSizeEnabled": self.max_frame_size_enabled,
            "MaxInactivityDuration": _milliseconds(self.max_inactivity_duration),
            "MaxInactivityDurationInitalDelay": _milliseconds(
                self.max_inactivity_duration_inital_delay
            ),
            "ProviderName": self.provider_name,
            "ProviderVersion": self.provider_version,
            "PlatformDetails": _platform_details(self.include_platform_details),
        }
        if self.host is not None:
            properties["Host"] = self.host
        return WireFormatInfo(MAGIC, self.version, encode_map(properties))

    def negotiate(self, info: WireFormatInfo) -> NegotiatedSettings:
        """Return the common settings of this side and the sender of `info`.

        Raises:
            RemoteProtocolError: the sender does not speak OpenWire.
        """
        if info.magic != MAGIC:
            raise RemoteProtocolError(f"Remote wire format magic is invalid: {info.magic!r}")
        if info.version < OLDEST_VERSION:
            raise RemoteProtocolError(f"OpenWire version {info.version} is too low")
        theirs = wire_format_properties(info)

        def both(ours: bool, name: str) -> bool:
            return ours and theirs.get(name) is True

        return NegotiatedSettings(
            version=min(self.version, info.version),
            tight_encoding_enabled=both(self.tight_encoding_enabled, "TightEncodingEnabled"),
            cache_enabled=both(self.cache_enabled, "CacheEnabled"),
            cache_size=min(self.cache_size, max(_number(theirs, "CacheSize"), 0)),
            size_prefix_disabled=both(self.size_prefix_disabled, "SizePrefixDisabled"),
            stack_trace_enabled=both(self.stack_trace_enabled, "StackTraceEnabled"),
            tcp_no_delay_enabled=both(self.tcp_no_delay_enabled, "TcpNoDelayEnabled"),
            max_frame_size=_smaller_limit(self.max_frame_size, _number(theirs, "MaxFrameSize")),
            max_inactivity_duration=min(
                self.max_inactivity_duration, _seconds(theirs, "MaxInactivityDuration")
            ),
            max_inactivity_duration_inital_delay=min(
                self.max_inactivity_duration_inital_delay,
                _seconds(theirs, "MaxInactivityDurationInitalDelay"),
            ),
        )


@dataclass(frozen=True, slots=True)
class NegotiatedSettings:
    """The settings that both sides use; durations in seconds, 0: off."""

    version: int
    tight_encoding_enabled: bool
    cache_enabled: bool
    cache_size: int
    size_prefix_disabled: bool
    stack_trace_enabled: bool
    tcp_no_delay_enabled: bool
    max_frame_size: int
    max_inactivity_duration: float
    max_inactivity_duration_inital_delay: float


def wire_format_properties(info: WireFormatInfo) -> dict[str, object]:
    """Return the properties of a WireFormatInfo by their names on the wire.

    Raises:
        RemoteProtocolError: they are damaged, or too many.
    """
    data = info.marshalled_properties
    if not data:
        return {}
    if int.from_bytes(data[:4], "big", signed=True) > MAX_NEGOTIATION_VALUES:
        raise RemoteProtocolError(f"WireFormatInfo has more than {MAX_NEGOTIATION_VALUES} values")
    return decode_map(data)


def _milliseconds(seconds: float) -> Long:
    return Long(min(round(max(seconds, 0) * 1000), _LONGEST))


def _seconds(properties: dict[str, object], name: str) -> float:
    return max(_number(properties, name), 0) / 1000


def _number(properties: dict[str, object], name: str) -> int:
    value = properties.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _smaller_limit(ours: int, theirs: int) -> int:
    return min((limit for limit in (ours, theirs) if limit > 0), default=MAX_FRAME_SIZE)


def _platform_details(include: bool) -> str:
    if not include:
        return "Python"
    import platform  # noqa: PLC0415 - few connections send the details

    system = platform.uname()  # platform() would read the interpreter's file and block the loop
    return f"Python {platform.python_version()}, {system.system}-{system.release}-{system.machine}"
