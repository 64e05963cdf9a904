"""A client of the engine without a socket: what it sends is given to it, what it gets is recorded."""

from __future__ import annotations

from typing import Any, TypeVar

from pyjms.wire.amqp.deliveries import Delivery
from pyjms.wire.amqp.engine import Engine, EngineSettings
from pyjms.wire.amqp.format import AMQP, SASL, AmqpFormat, Fault, Frame, Item, ProtocolHeader
from pyjms.wire.amqp.links import Link, Receiver, Sender
from pyjms.wire.amqp.message import Message
from pyjms.wire.amqp.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Error,
    Flow,
    Open,
    Performative,
    SaslFrame,
    SaslInit,
    Source,
    Target,
    Transfer,
)
from pyjms.wire.amqp.session import Session


def contents(message: Message) -> tuple[object, ...]:
    """Return the sections of a message, which compare by value."""
    return (
        message.header, message.delivery_annotations, message.message_annotations,
        message.properties, message.application_properties, message.body_kind, message.body,
        message.footer,
    )  # fmt: skip


P = TypeVar("P", bound=Performative | SaslFrame)
UNLIMITED = 2**32


class Peer:
    """An engine whose handler records each event, and answers at once unless told not to.

    `refuses` names the events that are not answered: login, open, attach.
    """

    def __init__(self, settings: EngineSettings | None = None, refuses: str = "") -> None:
        self.engine = Engine(self, self._take, settings or EngineSettings())
        self.refuses = refuses
        self.events: list[tuple[Any, ...]] = []
        self.links: list[Receiver | Sender] = []
        self.deliveries: list[Delivery] = []
        self.states: list[Delivery] = []
        self._format = AmqpFormat(UNLIMITED)
        self._received: list[Item] = []

    # what the engine sends: encoded and decoded, as by a socket
    def _take(self, item: Item) -> None:
        data = bytearray()
        AmqpFormat(UNLIMITED).encode_into(data, item)
        self._received += self._format.receive_data(bytes(data))

    def items(self) -> list[Item]:
        """Return what has come since the last call."""
        received, self._received = self._received, []
        assert not any(isinstance(item, Fault) for item in received), received
        return received

    def bodies(self) -> list[Performative | SaslFrame | None]:
        """Return the bodies of the frames that have come since the last call."""
        return [item.body for item in self.items() if isinstance(item, Frame)]

    def one(self, kind: type[P]) -> P:
        """Return the only frame that has come, which is of this class."""
        (body,) = self.bodies()
        assert isinstance(body, kind), body
        return body

    # what the client sends: as items
    def send(self, body: Performative | SaslFrame, payload: bytes = b"", channel: int = 0) -> None:
        self.engine.receive(Frame(channel, body, payload))

    def header(self, protocol: int) -> None:
        self.engine.receive(ProtocolHeader(protocol))

    def log_in(self, mechanism: str = "ANONYMOUS", response: bytes | None = None) -> None:
        self.header(SASL)
        self.send(SaslInit(mechanism, response))

    def open(self, max_frame_size: int = 2**32 - 1) -> None:
        self.log_in()
        self.header(AMQP)
        self.send(Open("c", max_frame_size=max_frame_size))

    def begin(self, channel: int = 0, window: int = 1000) -> Session:
        self.send(Begin(None, 0, window, 1000), channel=channel)
        return self.engine.sessions[channel]

    def sender(self, handle: int = 0, name: str = "s", **more: Any) -> Receiver:
        """Attach a link on which the client sends."""
        self.send(Attach(name, handle, SENDER, source=Source(), target=Target("q"), **more))
        link = self.links[-1]
        assert isinstance(link, Receiver)
        return link

    def receiver(
        self, handle: int = 0, name: str = "r", credit: int | None = None, mode: int = 2
    ) -> Sender:
        """Attach a link on which the client receives."""
        self.send(Attach(name, handle, RECEIVER, mode, source=Source("q"), target=Target()))
        if credit is not None:
            self.flow(handle, credit)
        link = self.links[-1]
        assert isinstance(link, Sender)
        return link

    def flow(self, handle: int | None, credit: int | None = None, **more: Any) -> None:
        fields = {"delivery_count": 0, **more}
        self.send(Flow(1, 1000, 0, 1000, handle, link_credit=credit, **fields))

    def transfer(self, number: int, payload: bytes = b"m", handle: int = 0, **more: Any) -> None:
        self.send(Transfer(handle, number, b"%d" % number, 0, **more), payload)

    # what the client does
    def on_login(self, mechanism: str, user: str | None, password: str | None) -> None:
        self.events.append(("login", mechanism, user, password))
        if "login" not in self.refuses:
            self.engine.accept_login()

    def on_open(self, peer: Open) -> None:
        self.events.append(("open", peer.container_id))
        if "open" not in self.refuses:
            self.engine.open(Open("broker"))

    def on_begin(self, session: Session) -> None:
        self.events.append(("begin", session.channel))
        if "begin" in self.refuses:
            session.end(Error("amqp:not-allowed"))

    def on_attach(self, link: Receiver | Sender) -> None:
        self.events.append(("attach", link.name))
        self.links.append(link)
        if "attach" not in self.refuses:
            self.accept(link)

    def accept(self, link: Receiver | Sender) -> None:
        if isinstance(link, Receiver):
            link.accept(self)
        else:
            link.accept(self)

    def on_end(self, session: Session, error: Error | None) -> None:
        self.events.append(("end", session.channel, error))

    def on_close(self, error: Error | None) -> None:
        self.events.append(("close", error))

    def on_finish(self) -> None:
        self.events.append(("finish",))

    def on_deliveries(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self.on_delivery(delivery)

    def on_delivery(self, delivery: Delivery) -> None:
        self.events.append(("delivery", delivery.link.name, delivery.payload))
        self.deliveries.append(delivery)

    def on_credit(self, link: Sender) -> None:
        self.events.append(("credit", link.name, link.credit))

    def on_dispositions(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            self.on_disposition(delivery)

    def on_disposition(self, delivery: Delivery) -> None:
        self.events.append(("disposition", delivery.id, delivery.state, delivery.settled))
        self.states.append(delivery)

    def on_detach(self, link: Link, closed: bool, error: Error | None) -> None:
        self.events.append(("detach", link.name, closed, error))
        if "detach" not in self.refuses:
            link.detach(closed)


def opened(settings: EngineSettings | None = None, refuses: str = "", window: int = 1000,
           max_frame_size: int = 2**32 - 1) -> Peer:  # fmt: skip
    """Return a client with a session on channel 0; what led to it is not recorded."""
    peer = Peer(settings)
    peer.open(max_frame_size)
    peer.begin(window=window)
    peer.items()
    peer.events.clear()
    peer.refuses = refuses
    return peer
