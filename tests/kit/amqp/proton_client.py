"""Qpid Proton's engine as the client of ours, without sockets: bytes are carried by `pump`."""

from __future__ import annotations

from typing import Any

from proton import Collector, Connection, Transport

from pyjms.wire.amqp.engine import EngineSettings
from pyjms.wire.amqp.format import AmqpFormat, Item
from pyjms.wire.amqp.links import Receiver, Sender
from tests.kit.amqp.peer import Peer


class ProtonPeer(Peer):
    """An engine that records, as `Peer`, with Proton as its client."""

    def __init__(
        self,
        settings: EngineSettings | None = None,
        *,
        user: str | None = None,
        max_frame_size: int = 65536,
    ) -> None:
        super().__init__(settings)
        self.transport = Transport()
        self.transport.max_frame_size = max_frame_size
        self.connection = Connection()
        self.connection.container = "proton"
        self.collector = Collector()
        self.connection.collect(self.collector)
        if user is not None:
            self.connection.user = user
            self.connection.password = "secret"
            self.transport.sasl().allow_insecure_mechs = True
        self.transport.sasl().allowed_mechs("ANONYMOUS" if user is None else "PLAIN")
        self.transport.bind(self.connection)
        self._bytes = bytearray()
        self._codec = AmqpFormat((settings or EngineSettings()).max_frame_size)

    def _take(self, item: Item) -> None:
        self._codec.encode_into(self._bytes, item)

    def pump(self) -> None:
        """Carry bytes until neither side has any."""
        while True:
            pending = self.transport.pending()
            if pending > 0:
                data = bytes(self.transport.peek(pending))
                self.transport.pop(pending)
                for item in self._codec.receive_data(data):
                    self.engine.receive(item)
            elif self._bytes and (capacity := self.transport.capacity()) > 0:
                self.transport.push(bytes(self._bytes[:capacity]))
                del self._bytes[:capacity]
            else:
                return

    def open_connection(self) -> None:
        self.connection.open()
        self.pump()

    def events_of_proton(self) -> list[str]:
        """Return the names of the events since the last call."""
        names = []
        while (event := self.collector.peek()) is not None:
            names.append(str(event.type).removeprefix("PN_").lower())
            self.collector.pop()
        return names

    @property
    def incoming(self) -> Receiver:
        """The link on which Proton sends."""
        (link,) = self.links
        assert isinstance(link, Receiver)
        return link

    @property
    def outgoing(self) -> Sender:
        """The link on which Proton receives."""
        (link,) = self.links
        assert isinstance(link, Sender)
        return link

    def session(self) -> Any:
        session = self.connection.session()
        session.open()
        self.pump()
        return session
