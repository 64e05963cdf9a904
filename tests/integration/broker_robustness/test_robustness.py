"""For any bytes, the broker closes the connection, serves the others and keeps running."""

from __future__ import annotations

import random
import resource
import socket
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import pytest

import pyjms
from pyjms.jms.destination import Queue, TemporaryQueue, Topic
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    BaseCommand,
    BrokerInfo,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerControl,
    ConsumerId,
    ConsumerInfo,
    DestinationInfo,
    KeepAliveInfo,
    LocalTransactionId,
    MessageAck,
    MessageId,
    MessagePull,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
    SessionId,
    SessionInfo,
    ShutdownInfo,
    TransactionInfo,
    TransactionType,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.primitives import encode_text

PATIENCE = 5
MEGABYTE = 1 << 20


class BrokerProcess:
    def __init__(self, child: subprocess.Popen[str], url: str, log: Path) -> None:
        self.child = child
        self.url = url
        self.log = log
        self.address = ("127.0.0.1", int(url.rpartition(":")[2]))

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, PATIENCE)

    def talk(self, data: bytes, *, hang_up: bool = True) -> bytes:
        """Send `data` and read until the broker closes; it must, in `PATIENCE` seconds."""
        received = bytearray()
        with self.connect() as line:
            try:
                line.sendall(data)
                if hang_up:
                    line.shutdown(socket.SHUT_WR)
                while part := line.recv(65536):
                    received += part
            except (ConnectionResetError, BrokenPipeError):
                assert self.child.poll() is None
        return bytes(received)

    def check_alive(self) -> None:
        """Send and receive like a well-behaved client, and check the log for unexpected lines."""
        template = pyjms.JmsTemplate(pyjms.ConnectionFactory(self.url), receive_timeout=PATIENCE)
        template.convert_and_send("alive", "yes")
        assert template.receive_and_convert("alive") == "yes"
        assert self.child.poll() is None
        assert "Traceback" not in self.log.read_text(encoding="utf-8")

    @property
    def resident(self) -> int:
        """Bytes of memory the process has; 0 where the system does not say."""
        statm = Path(f"/proc/{self.child.pid}/statm")
        if not statm.exists():
            return 0
        return int(statm.read_text(encoding="ascii").split()[1]) * resource.getpagesize()


@pytest.fixture(scope="module")
def running(
    process: Callable[..., AbstractContextManager[subprocess.Popen[str]]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[BrokerProcess]:
    command = [sys.executable, "-m", "pyjms_broker", "--ephemeral", "--openwire", "127.0.0.1:0"]
    log = tmp_path_factory.mktemp("broker") / "log"
    with process(command, log) as child:
        assert child.stdout is not None
        yield BrokerProcess(child, child.stdout.readline().split()[-1], log)
        child.terminate()
        assert child.wait(PATIENCE) == 0


@pytest.fixture
def broker(running: BrokerProcess) -> Iterator[BrokerProcess]:
    yield running
    running.check_alive()


def frames(client: str) -> list[bytes]:
    """What a client might say, a frame each, the handshake first; some of it is wrong."""
    codec = OpenWireFormat()
    info = codec.local_info()
    first = codec.encode(info)
    codec.negotiate(info)
    return [first, *(codec.encode(command) for command in conversation(client))]


def conversation(client: str) -> list[BaseCommand]:
    connection = ConnectionId(client)
    session, producer = SessionId(client, 1), ProducerId(client, 1, 1)
    consumer = ConsumerId(client, 1, 1)
    transaction = LocalTransactionId(1, connection)

    def message(number: int, **fields: Any) -> ActiveMQTextMessage:
        made = ActiveMQTextMessage(producer, Queue("fuzzed"))
        made.message_id = MessageId(None, producer, number)
        made.content = encode_text("x" * number)
        for name, value in fields.items():
            setattr(made, name, value)
        return made

    ack = MessageAck(Queue("fuzzed"), None, consumer, 2)
    ack.message_count = 7
    ack.last_message_id = MessageId(None, producer, 1)
    commands: list[BaseCommand] = [
        ConnectionInfo(connection, client),
        SessionInfo(session),
        SessionInfo(SessionId("nobody", 1)),
        ProducerInfo(producer, None),
        ConsumerInfo(consumer, destination=Queue("fuzzed"), prefetch_size=10),
        ConsumerInfo(ConsumerId(client, 9, 9), destination=Topic("no.session")),
        ConsumerInfo(ConsumerId(client, 1, 2), destination=Topic("t"), selector="1 = = 2"),
        ConsumerInfo(ConsumerId(client, 1, 3), destination=None),
        ConsumerInfo(ConsumerId(client, 1, 4), destination=TemporaryQueue("ID:nowhere:1")),
        message(1),
        message(2, persistent=True, expiration=1),
        message(3, producer_id=ProducerId(client, 1, 99)),
        message(4, destination=None),
        message(5, transaction_id=transaction),
        message(6, producer_id=None),
        ack,
        MessageAck(None, transaction, consumer, 99),
        TransactionInfo(connection, transaction, 0),
        message(7, transaction_id=transaction),
        TransactionInfo(connection, transaction, 77),
        TransactionInfo(connection, None, 2),
        MessagePull(consumer, Queue("fuzzed"), -1),
        ConsumerControl(consumer_id=consumer, prefetch=-5),
        DestinationInfo(connection, Queue("fuzzed.admin"), 0),
        DestinationInfo(connection, Queue("fuzzed.admin"), 7),
        DestinationInfo(connection, None, 1),
        RemoveSubscriptionInfo(connection, "nobody", "nothing"),
        KeepAliveInfo(),
        BrokerInfo(broker_name="a peer"),
        RemoveInfo(producer),
        RemoveInfo(consumer),
        RemoveInfo(None),
        RemoveInfo(session),
        RemoveInfo(connection),
        ShutdownInfo(),
    ]
    for number, command in enumerate(commands, 1):
        command.command_id = number
        command.response_required = number % 3 > 0
    return commands


FOREIGN = {
    "http": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "stomp": b"CONNECT\naccept-version:1.2\nhost:localhost\n\n\0",
    "tls": bytes.fromhex("16030100c8010000c40303") + bytes(range(190)),
    "amqp": b"AMQP\0\1\0\0",
    "zeros": bytes(4096),
    "ones": b"\xff" * 4096,
    "nothing": b"",
    "a length alone": b"\0\0\0\x40",
    "half a length": b"\0\0",
    "an empty frame": b"\0\0\0\0",
}


@pytest.mark.parametrize("data", FOREIGN.values(), ids=FOREIGN)
def test_other_protocols(broker: BrokerProcess, data: bytes) -> None:
    for _ in range(3):
        broker.talk(data)


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes(broker: BrokerProcess, seed: int) -> None:
    chance = random.Random(seed)
    handshake = frames("ID:random")[0]
    for number in range(40):
        noise = chance.randbytes(chance.choice([1, 5, 50, 500, 5000]))
        length = struct.pack(">i", len(noise)) if number % 2 else b""
        broker.talk((handshake if number % 4 > 1 else b"") + length + noise)


@pytest.mark.parametrize("length", [-1, -(2**31), 2**31 - 1, 104857601, 0x47455420])
@pytest.mark.parametrize("greeted", [False, True])
def test_frames_of_impossible_lengths_end_the_connection(
    broker: BrokerProcess, length: int, greeted: bool
) -> None:
    handshake = frames("ID:lengths")[0] if greeted else b""
    broker.talk(handshake + struct.pack(">i", length) + b"\1\2\3", hang_up=False)


def test_truncated_handshakes_and_commands(broker: BrokerProcess) -> None:
    whole = b"".join(frames("ID:truncated"))
    first = len(frames("ID:truncated")[0])
    cuts = [*range(0, first, 7), *range(first, len(whole), 41)]
    for cut in cuts:
        broker.talk(whole[:cut])


def test_wrong_commands_are_answered_and_do_no_harm(broker: BrokerProcess) -> None:
    answer = broker.talk(b"".join(frames("ID:wrong")))
    assert b"java.lang.IllegalStateException" in answer
    assert b"javax.jms.InvalidSelectorException" in answer


@pytest.mark.parametrize("seed", range(6))
def test_damaged_conversations(broker: BrokerProcess, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(25):
        parts = frames(f"ID:damaged-{seed}-{number}")
        if number % 5 == 0:
            parts[1:] = chance.sample(parts[1:], len(parts) - 1)
        elif number % 5 == 1:
            parts.insert(chance.randrange(len(parts)), parts[0])
        data = bytearray(b"".join(parts))
        for _ in range(chance.choice([1, 3, 30])):
            data[chance.randrange(len(parts[0]), len(data))] = chance.randrange(256)
        broker.talk(bytes(data))


def test_bytes_that_come_one_by_one(broker: BrokerProcess) -> None:
    first, *others = frames("ID:slow")
    with broker.connect() as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in first + others[0]:
            line.sendall(bytes([byte]))
        received = b""
        while b"\x1e" not in received[4:]:  # 30: the response to ConnectionInfo
            part = line.recv(65536)
            assert part
            received += part


def test_announced_bytes_take_no_memory_until_they_come(broker: BrokerProcess) -> None:
    handshake = frames("ID:announced")[0]
    before = broker.resident
    with ExitStack() as lines:
        for _ in range(50):
            line = lines.enter_context(broker.connect())
            line.sendall(handshake + struct.pack(">i", 100 * MEGABYTE) + b"\x1c")
        broker.check_alive()
        assert broker.resident - before < 50 * MEGABYTE


def test_silent_connections_do_not_hinder_others(broker: BrokerProcess) -> None:
    with ExitStack() as lines:
        for _ in range(200):
            lines.enter_context(broker.connect())
        broker.check_alive()


@pytest.mark.parametrize(("kind", "most"), [("keep alive", 4), ("recover", 96)])
def test_a_client_that_never_reads_does_not_harm_the_broker(
    broker: BrokerProcess, kind: str, most: int
) -> None:
    """Its answers pile up to a limit, then its commands are not read any more.

    What the sockets of the system hold, up to 40 MB, counts as sent.
    """
    codec = OpenWireFormat()
    info = codec.local_info()
    opening = codec.encode(info)
    codec.negotiate(info)
    connection = ConnectionId(f"ID:deaf-{kind}")
    opening += codec.encode(ConnectionInfo(connection, connection.value))
    question: Command = KeepAliveInfo()
    if kind == "recover":
        question = TransactionInfo(connection, None, TransactionType.RECOVER)
    question.response_required = True
    questions = codec.encode(question) * 10_000
    broker.check_alive()
    before = broker.resident
    with broker.connect() as line:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        line.sendall(opening)
        line.settimeout(10 if kind == "keep alive" else 2)  # the one is read on, the other not
        sent = 0
        try:
            while sent < most * MEGABYTE:
                sent += line.send(questions[sent % len(questions) :])
        except TimeoutError:
            assert kind == "recover"
        assert (sent < most * MEGABYTE) is (kind == "recover")
        broker.check_alive()
        assert broker.resident - before < 24 * MEGABYTE
