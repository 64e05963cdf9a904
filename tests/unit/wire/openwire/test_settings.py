from __future__ import annotations

from typing import Any

import pytest

from pyjms.errors import ConfigurationException, RemoteProtocolError
from pyjms.jms.types import Long
from pyjms.wire.openwire.commands import WireFormatInfo
from pyjms.wire.openwire.primitives import encode_map
from pyjms.wire.openwire.settings import (
    NegotiatedSettings,
    WireFormatSettings,
    wire_format_properties,
)

FLAGS = {
    "tight_encoding_enabled": "TightEncodingEnabled",
    "cache_enabled": "CacheEnabled",
    "size_prefix_disabled": "SizePrefixDisabled",
    "stack_trace_enabled": "StackTraceEnabled",
    "tcp_no_delay_enabled": "TcpNoDelayEnabled",
}


def agree(ours: WireFormatSettings, theirs: WireFormatSettings) -> NegotiatedSettings:
    """Negotiate on both sides; they must come to the same."""
    agreed = ours.negotiate(theirs.info())
    assert theirs.negotiate(ours.info()) == agreed
    return agreed


def settings(**values: Any) -> WireFormatSettings:
    return WireFormatSettings(**values)


@pytest.mark.fact(
    "openwire-encoding 6/MaxFrameSizeEnabled",
    "openwire-encoding 6/Host",
    "openwire-encoding 6/ProviderName, ProviderVersion, PlatformDetails",
)
def test_the_info_has_the_properties_that_java_has() -> None:
    info = WireFormatSettings(host="broker.example").info()
    assert info.magic == b"ActiveMQ"
    assert info.version == 12
    assert wire_format_properties(info) == {
        "TightEncodingEnabled": False,
        "CacheEnabled": False,
        "CacheSize": 1024,
        "SizePrefixDisabled": False,
        "StackTraceEnabled": True,
        "TcpNoDelayEnabled": True,
        "MaxFrameSize": 104857600,
        "MaxFrameSizeEnabled": True,
        "MaxInactivityDuration": 30000,
        "MaxInactivityDurationInitalDelay": 10000,
        "Host": "broker.example",
        "ProviderName": "ActiveMQ",
        "ProviderVersion": "5.17.2",
        "PlatformDetails": "Python",
    }


def test_the_info_has_javas_types() -> None:
    values = wire_format_properties(WireFormatSettings().info())
    longs = {name for name, value in values.items() if type(value) is Long}
    assert longs == {"MaxFrameSize", "MaxInactivityDuration", "MaxInactivityDurationInitalDelay"}
    assert type(values["CacheSize"]) is int
    assert "Host" not in values


def test_platform_details_are_sent_on_request_only() -> None:
    values = wire_format_properties(WireFormatSettings(include_platform_details=True).info())
    assert str(values["PlatformDetails"]).startswith("Python 3.")


@pytest.mark.fact(
    "activemq-edges I2",
    "openwire-encoding 6/TightEncodingEnabled",
    "openwire-encoding 6/CacheEnabled",
    "openwire-encoding 6/SizePrefixDisabled",
    "openwire-encoding 6/StackTraceEnabled",
    "openwire-encoding 6/TcpNoDelayEnabled",
)
@pytest.mark.parametrize("name", FLAGS)
@pytest.mark.parametrize("ours", [False, True])
@pytest.mark.parametrize("theirs", [False, True])
def test_a_flag_holds_if_both_sides_want_it(name: str, ours: bool, theirs: bool) -> None:
    agreed = agree(settings(**{name: ours}), settings(**{name: theirs}))
    assert getattr(agreed, name) is (ours and theirs)


@pytest.mark.fact(
    "activemq-edges I2",
    "openwire-encoding 6/CacheSize",
    "openwire-encoding 6/MaxFrameSize",
    "openwire-encoding 6/MaxInactivityDuration",
    "openwire-encoding 6/MaxInactivityDurationInitalDelay",
)
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("version", 9, 12),
        ("cache_size", 16, 1024),
        ("max_inactivity_duration", 5.0, 30.0),
        ("max_inactivity_duration_inital_delay", 0.5, 10.0),
        ("max_frame_size", 1000, 2000),
    ],
)
def test_of_two_numbers_the_smaller_holds(name: str, low: float, high: float) -> None:
    agreed = agree(settings(**{name: low}), settings(**{name: high}))
    assert getattr(agreed, name) == low


@pytest.mark.fact("activemq-edges I2", "openwire-encoding 6/MaxInactivityDuration")
def test_0_on_either_side_turns_the_inactivity_monitor_off() -> None:
    agreed = agree(settings(max_inactivity_duration=0), settings(max_inactivity_duration=30))
    assert agreed.max_inactivity_duration == 0


def test_no_properties_mean_loose_uncached_and_untimed() -> None:
    agreed = settings(tight_encoding_enabled=True, cache_enabled=True).negotiate(
        WireFormatInfo(version=12)
    )
    assert not agreed.tight_encoding_enabled
    assert not agreed.cache_enabled
    assert not agreed.stack_trace_enabled
    assert agreed.cache_size == 0
    assert agreed.max_inactivity_duration == 0
    assert agreed.max_frame_size == 104857600


@pytest.mark.fact("openwire-encoding 6/MaxFrameSize")
@pytest.mark.parametrize("size", [0, -1])
def test_a_frame_size_of_zero_is_not_a_limit(size: int) -> None:
    info = WireFormatInfo(
        version=12, marshalled_properties=encode_map({"MaxFrameSize": Long(size)})
    )
    assert settings(max_frame_size=4096).negotiate(info).max_frame_size == 4096


def test_unknown_and_mistyped_properties_are_ignored() -> None:
    values = {"Later": 1, "CacheEnabled": "yes", "CacheSize": True, "MaxFrameSize": "big"}
    info = WireFormatInfo(version=12, marshalled_properties=encode_map(values))
    agreed = settings(cache_enabled=True).negotiate(info)
    assert not agreed.cache_enabled
    assert agreed.cache_size == 0


def test_a_newer_peer_speaks_our_version() -> None:
    assert settings().negotiate(WireFormatInfo(version=99)).version == 12


def test_wrong_magic_is_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="Remote wire format magic is invalid"):
        settings().negotiate(WireFormatInfo(b"RabbitMQ", 12))


@pytest.mark.parametrize("version", [0, -1])
def test_a_version_below_1_is_refused(version: int) -> None:
    with pytest.raises(RemoteProtocolError, match="version"):
        settings().negotiate(WireFormatInfo(version=version))


def test_too_many_properties_are_refused() -> None:
    data = encode_map({str(n): None for n in range(4097)})
    with pytest.raises(RemoteProtocolError, match="4096"):
        wire_format_properties(WireFormatInfo(version=12, marshalled_properties=data))


@pytest.mark.parametrize(
    "wrong", [{"version": 0}, {"version": 13}, {"cache_size": -1}, {"cache_size": 16384}]
)
def test_invalid_settings_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationException) as caught:
        settings(**wrong)
    assert "wireFormat." in caught.value.hint
