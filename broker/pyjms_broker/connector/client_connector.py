"""The connectors that accept clients of protocols other than OpenWire.

A protocol has a `ClientProtocol`, which the connectors that detect it also use, a subclass of
`ClientSession`, and one of `ClientConnector`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, TypeVar

from anyio.abc import ByteStream, SocketStream

from pyjms.runtime.ids import IdGenerator
from pyjms.transport.openwire.options import ACCEPTED
from pyjms.transport.options import (
    IGNORED_BY_SERVERS,
    IGNORED_OF_ACCEPTED,
    SERVER,
    Options,
    ServerOptions,
    TcpOptions,
    check_known,
    read_options,
)
from pyjms.transport.uri import TransportURI, could_not_create, did_you_mean
from pyjms.wire.limits import UnfinishedFrame
from pyjms_broker.connector.base import BrokerHost, TransportConnector
from pyjms_broker.connector.client_session import ClientSession
from pyjms_broker.connector.openwire.command_handlers import serve
from pyjms_broker.connector.tcp import ProtocolConnector

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext

O = TypeVar("O", bound="ClientOptions")  # noqa: E741 - options

LINK_STEALING: Final = "allowLinkStealing"


@dataclass(frozen=True)
class ClientOptions:
    """The options that all protocols have; times are in seconds, None: no limit."""

    tcp: TcpOptions = field(default_factory=TcpOptions)
    server: ServerOptions = field(default_factory=ServerOptions)
    connect_attempt_timeout: float | None = 30.0
    """The maximum wait until a client has identified itself."""


@dataclass(frozen=True)
class Accepted:
    """The connection of a client."""

    stream: ByteStream
    """TCP, TLS or WebSocket."""
    scheme: str
    """Of the client's address in messages."""
    connector: TransportConnector
    tls: TlsContext | None = None
    """With it, the session begins with a handshake."""
    layered: UnfinishedFrame | None = None
    """Counts the frames of a layer of `stream`, such as WebSocket."""


@dataclass(frozen=True)
class ClientProtocol(Generic[O]):
    """A protocol: its options, and the sessions of its clients."""

    name: str
    """Also the scheme of its URLs; with TLS they end in `+ssl`."""
    options: type[O]
    transport: Options
    """Its options of each accepted connection, `transport.x`."""
    wire_format: Options
    """Its options `wireFormat.x`."""
    session: Callable[[Accepted, O, BrokerHost, str], ClientSession[Any]]
    """Returns a session that is not started; the text is the id of its JMS connection."""
    silence: str
    """Why soTimeout has no effect."""
    refused: frozenset[str] = frozenset()
    """Options that other protocols ignore."""
    steals_links: bool = False
    """Whether a client takes over the id of another one, unless the URI says otherwise."""

    def read_options(self, uri: TransportURI) -> O:
        """Return the options of `uri`; `transport.x` is option x of each accepted connection.

        Raises:
            ConfigurationException: an option is unknown or a value cannot be used.
        """
        wire, rest = uri.split_options("wireFormat.")
        accepted, rest = rest.split_options("transport.")
        unknown = [name for name in wire if name not in self.wire_format]
        if unknown:
            raise could_not_create(
                f"Invalid bind parameters: {', '.join(f'wireFormat.{name}' for name in unknown)}",
                hint=did_you_mean(unknown, self.wire_format),
            )
        check_known(rest, set(SERVER), "bind", self._reasons_of(IGNORED_BY_SERVERS))
        check_known(
            TransportURI("transport", options=accepted, reported=uri.reported),
            {*ACCEPTED, *self.transport},
            "bind",
            self._reasons_of(IGNORED_OF_ACCEPTED),
        )
        own = {**read_options(accepted, self.transport), **read_options(wire, self.wire_format)}
        server = {LINK_STEALING: str(self.steals_links), **rest.options}
        return self.options(
            tcp=TcpOptions(**read_options(accepted, ACCEPTED)),
            server=ServerOptions(**read_options(server, SERVER)),
            **own,
        )

    def _reasons_of(self, table: Mapping[str, str]) -> dict[str, str]:
        return {
            name: self.silence if name.endswith("soTimeout") else reason
            for name, reason in table.items()
            if name not in self.refused
        }


class ClientConnector(ProtocolConnector):
    """Listens for clients of one protocol. Subclasses set `PROTOCOL`."""

    PROTOCOL: ClassVar[ClientProtocol[Any]]
    serves_openwire = False

    def __init__(self, host: BrokerHost, uri: TransportURI, name: str | None = None) -> None:
        """Read the options of `uri`, including those of TLS if its scheme ends in `ssl`.

        Raises:
            ConfigurationException: the URI has no port, an option is unknown or invalid, or there
                is no certificate.
        """
        super().__init__(host, uri, name)
        self._options: ClientOptions = self.PROTOCOL.read_options(self.uri)
        self._apply(self._options.server)
        self._ids = IdGenerator()

    @property
    def client_scheme(self) -> str:
        """The protocol's scheme, even if the connector was configured with `nio`."""
        return self.PROTOCOL.name if self._tls is None else f"{self.PROTOCOL.name}+ssl"

    def serve(self, stream: SocketStream) -> None:
        """Wait in the background until a client has identified itself."""
        accepted = Accepted(stream, self.client_scheme, self, self._tls)
        session = self.PROTOCOL.session(accepted, self._options, self.host, self._ids.generate())
        serve(self, session)
