"""How the web server is configured: the keys of `web` in broker.yaml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pyjms.transport.tls import TlsOptions
from pyjms_broker.attribute import Attribute, Unit

__all__ = ["WebAttributes", "WebConfiguration"]


@dataclass(frozen=True, kw_only=True)
class WebAttributes:
    """The settings of the web server, except its parts, groups and TLS."""

    enabled: Annotated[
        bool, Attribute("Whether the web server runs; false: this section has no effect.")
    ] = True
    host: Annotated[
        str, Attribute("Address to listen on; 0.0.0.0: all interfaces, which needs users.")
    ] = "127.0.0.1"
    port: Annotated[
        int, Attribute("Port to listen on; 0: any free one.", minimum=0, maximum=65_535)
    ] = 8161
    maximum_connections: Annotated[
        int, Attribute("Connections at once; further ones are closed.", minimum=1)
    ] = 200
    maximum_body_size: Annotated[
        int, Attribute("Size of a request's body; a larger one is refused.", unit=Unit.BYTES)
    ] = 8 * 1024 * 1024
    request_timeout: Annotated[
        float,
        Attribute("Time for a request to arrive, head and body each.", unit=Unit.SECONDS),
    ] = 20.0
    session_timeout: Annotated[
        float,
        Attribute("Time without requests after which a login ends.", unit=Unit.SECONDS),
    ] = 1800.0


@dataclass(frozen=True, kw_only=True)
class WebConfiguration(WebAttributes):
    """Everything that the web server is configured with (`BrokerService(web=...)`).

    Args:
        tls: certificate and key; None: no encryption.
        parts: names of the parts of the site; None: those that come with the broker.
        admin_groups: groups whose users may see and change everything.
        reader_groups: groups whose users may see everything, message bodies included.
        allowed_origins: pages of other sites that may use this one, `https://host:port`.
        allowed_hosts: further names by which this machine's users reach a broker without users.
    """

    tls: TlsOptions | None = None
    parts: tuple[str, ...] | None = None
    admin_groups: frozenset[str] = frozenset({"admins"})
    reader_groups: frozenset[str] = frozenset()
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
