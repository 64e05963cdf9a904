"""The options of `multicast://default?group=shop`: ActiveMQ's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.transport.options import Options, boolean, duration, integer, options_for, read_all
from pyjms.transport.uri import TransportURI

__all__ = ["MulticastOptions", "read_multicast_options"]

_DEFAULT_HOST: Final = "default"


@dataclass(frozen=True)
class MulticastOptions:
    """The options of a multicast agent; times in seconds."""

    address: str = "239.255.2.3"
    port: int = 6155
    group: str = "default"
    """The group; brokers of other groups at the same address are ignored."""
    keep_alive_interval: float = 0.5
    """The interval of announcements; a broker that misses ten is removed."""
    time_to_live: int = 1
    """The number of networks that datagrams may cross."""
    loop_back_mode: bool = False
    """Whether programs on this machine do not get the datagrams."""
    interface: str | None = None
    """The IP address of the interface; None: the system's choice."""
    network_interface: str | None = None
    """The name of the interface, instead of its address."""
    join_network_interface: str | None = None
    """The name of the interface for receiving, if it is another one."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            ConfigurationException: a value cannot be used.
        """
        try:
            is_group = IPv4Address(self.address).is_multicast
        except ValueError:
            is_group = False
        problem = None
        if not is_group:
            problem = f"{self.address} is not a multicast address (224.0.0.0 to 239.255.255.255)"
        elif not 0 < self.port <= 65535:
            problem = f"{self.port} is not a port"
        elif not self.group or not self.group.isprintable() or "%" in self.group:
            problem = f"group={self.group} is not a valid name"
        elif self.keep_alive_interval < 0.01:
            problem = "keepAliveInterval is less than 10 milliseconds"
        elif not 0 <= self.time_to_live <= 255:
            problem = f"timeToLive={self.time_to_live} is not between 0 and 255"
        if problem is not None:
            raise ConfigurationException(
                f"multicast: {problem}",
                hint="write multicast://default?group=name, or an address: "
                "multicast://239.255.2.3:6155",
            )


_OPTIONS: Final[Options] = {
    **options_for(str, "group", "interface", "network_interface", "join_network_interface"),
    **options_for(duration, "keep_alive_interval"),
    **options_for(integer, "time_to_live"),
    **options_for(boolean, "loop_back_mode"),
}


def read_multicast_options(uri: TransportURI) -> MulticastOptions:
    """Read the address and the options of a `multicast:` URL.

    Raises:
        ConfigurationException: an option is unknown, or a value cannot be used.
    """
    given = read_all(uri, _OPTIONS)
    if uri.host not in ("", _DEFAULT_HOST):
        given["address"] = uri.host
    if uri.port is not None:
        given["port"] = uri.port
    return MulticastOptions(**given)
