"""Messages a second from one AMQP client to another. Run: python -m benchmarks.amqp.

100 bytes, a message id and one property, to one queue, with transformer jms, settled and unsettled;
`WINDOW` messages are under way. Both clients have raw sockets and send frames written beforehand,
so that they take little of the time. `--peer` measures another broker, see `benchmarks.pairs`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Iterator

from benchmarks import pairs
from benchmarks.pairs import BATCH, SUBSCRIBER, Protocol
from pyjms.wire.amqp.format import AMQP, SASL, AmqpFormat, Frame, Item, ProtocolHeader
from pyjms.wire.amqp.message import DATA, Message, encode_message
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    Attach,
    Begin,
    Disposition,
    Flow,
    Header,
    Open,
    Performative,
    Properties,
    SaslInit,
    Source,
    Target,
    Transfer,
)

ADDRESS = "queue://bench"
WINDOW = 500
CREDIT = 1000
CASES = ("settled", "unsettled")
PAYLOAD = encode_message(
    Message(DATA, [b"x" * 100], header=Header(), properties=Properties("m", to=ADDRESS),
            application_properties={"a": "b"})
)  # fmt: skip
_PLACE = b"\x91\x92\x93\x94"
_TRANSFER = b"\0\x53\x14"


class Client:
    """A connection with a session and a link."""

    def __init__(self, role: str, port: int, case: str) -> None:
        self.settled = case == "settled"
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.done = 0
        self._format = AmqpFormat(2**31)
        is_receiver = role == SUBSCRIBER
        mode = 1 if self.settled else 0
        link = Attach(
            "l", 0, is_receiver, mode, 0, Source(ADDRESS), Target(ADDRESS), None, False, 0
        )
        name = f"bench-{role}-{os.getpid()}"
        self.send(
            ProtocolHeader(SASL), Frame(0, SaslInit("ANONYMOUS")), ProtocolHeader(AMQP),
            Frame(0, Open(name)), Frame(0, Begin(None, 0, 2**31 - 1, 2**31 - 1)), Frame(0, link),
        )  # fmt: skip
        self.bodies = self._bodies()
        while not isinstance(next(self.bodies), Attach):
            pass

    def send(self, *items: Item) -> None:
        data = bytearray()
        for item in items:
            self._format.encode_into(data, item)
        self.socket.sendall(data)

    def _bodies(self) -> Iterator[Performative]:
        while data := self.socket.recv(1 << 18):
            for item in self._format.receive_data(data):
                if isinstance(item, Frame) and item.body is not None:
                    yield item.body


class Publisher(Client):
    """Sends messages, and waits until all are settled."""

    def __init__(self, role: str, port: int, case: str) -> None:
        super().__init__(role, port, case)
        self.sent = self.allowed = 0
        data = bytearray()
        number = int.from_bytes(_PLACE, "big")
        transfer = Transfer(0, number, _PLACE, 0, self.settled)
        self._format.encode_into(data, Frame(0, transfer, PAYLOAD))
        self._parts = bytes(data).split(_PLACE)

    def use(self, count: int) -> None:
        last = self.sent + count
        before, between, behind = self._parts
        while self.done < last:
            room = min(last, self.allowed, self.done + WINDOW) - self.sent
            if room >= BATCH:
                numbers = [n.to_bytes(4) for n in range(self.sent, self.sent + BATCH)]
                parts = [before + n + between + n + behind for n in numbers]
                self.socket.sendall(b"".join(parts))
                self.sent += BATCH
                self.done = self.sent if self.settled else self.done
                continue
            body = next(self.bodies)
            if isinstance(body, Disposition):
                self.done += (body.first if body.last is None else body.last) - body.first + 1
            elif isinstance(body, Flow) and body.link_credit is not None:
                self.allowed = (body.delivery_count or 0) + body.link_credit


class Subscriber(Client):
    """Gets messages, and accepts each batch with one frame."""

    def __init__(self, role: str, port: int, case: str) -> None:
        super().__init__(role, port, case)
        self.bodies = iter(())
        self._rest = b""
        self._allow()

    def _allow(self) -> None:
        window = 2**31 - 1
        self.send(Frame(0, Flow(self.done + 1, window, 0, window, 0, self.done, CREDIT)))

    def use(self, count: int) -> None:
        last = self.done + count
        while self.done < last:
            data = self._rest + self.socket.recv(1 << 18)
            at, size = 0, len(data)
            while size - at >= 11:
                end = at + int.from_bytes(data[at : at + 4], "big")
                if end > size:
                    break
                if data.startswith(_TRANSFER, at + 8):
                    self.done += 1
                    if self.done % BATCH == 0:
                        self._on_batch()
                at = end
            self._rest = data[at:]

    def _on_batch(self) -> None:
        if not self.settled:
            self.send(Frame(0, Disposition(True, self.done - BATCH, self.done - 1, True, ACCEPTED)))
        if self.done % (CREDIT // 2) == 0:
            self._allow()


def open_client(role: str, port: int, case: str) -> Callable[[int], None]:
    """Return what sends or gets so many messages."""
    return (Subscriber if role == SUBSCRIBER else Publisher)(role, port, case).use


URL = "amqp://127.0.0.1:0?transport.transformer=jms"

if __name__ == "__main__":
    pairs.main(Protocol("benchmarks.amqp", URL, CASES, open_client), __doc__)
