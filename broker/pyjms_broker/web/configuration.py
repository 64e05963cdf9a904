"""The configuration of the web server: the section `web` of broker.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network

from pyjms.transport.tls import TlsOptions
from pyjms_broker.attribute import Unit, attribute, count, duration, flag


@dataclass(frozen=True, kw_only=True)
class WebAttributes:
    """The settings of the web server, except its parts, groups and TLS."""

    enabled: bool = flag(
        "Whether the web server runs; false: this section has no effect.", default=True
    )
    host: str = attribute(
        "127.0.0.1", "Address to listen on; 0.0.0.0: all interfaces, which needs users."
    )
    port: int = count(8161, "Port to listen on; 0: any free port.", maximum=65_535)
    maximum_connections: int = count(200, "Maximum number of simultaneous connections.", minimum=1)
    maximum_body_size: int = attribute(
        8 * 1024 * 1024, "Maximum size of a request's body.", unit=Unit.BYTES
    )
    request_timeout: float = duration(
        20.0, "Maximum time to receive a request's header, and its body."
    )
    session_timeout: float = duration(
        1800.0, "Time without requests after which a login session ends."
    )
    history: bool = flag(
        "Whether depth, rates and memory of an hour and a day are recorded for the charts.",
        default=True,
    )
    history_destinations: int = count(
        200, "Number of destinations, the busiest, with a history; 44 KB each.", maximum=300
    )
    history_save_interval: float = duration(
        120.0, "Time between writes of the history to its file; a crash loses what is newer."
    )


@dataclass(frozen=True, kw_only=True)
class WebConfiguration(WebAttributes):
    """The complete configuration of the web server (`BrokerService(web=...)`).

    Args:
        tls: certificate and key; None: no encryption.
        parts: the names of the site's parts; None: the built-in ones.
        admin_groups: groups whose users may read and change everything.
        reader_groups: groups whose users may read everything, including message bodies.
        allowed_origins: origins of other sites whose pages may use this one, `https://host:port`.
        allowed_hosts: additional host names of this machine for a broker without users.
        trusted_proxies: addresses of reverse proxies whose `X-Forwarded-` headers are believed.
    """

    tls: TlsOptions | None = None
    parts: tuple[str, ...] | None = None
    admin_groups: frozenset[str] = frozenset({"admins"})
    reader_groups: frozenset[str] = frozenset()
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] = ()
