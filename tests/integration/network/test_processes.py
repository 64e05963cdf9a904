"""Networks of broker processes, some of them ActiveMQ, that are killed and started again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import anyio
import pytest
from anyio.lowlevel import checkpoint

from pyjms.aio import ConnectionFactory, DeliveryMode, Queue
from pyjms.errors import InvalidDestinationException
from pyjms.jms.destination import Destination
from pyjms.jms.message import TextMessage
from tests.kit.processes.children import BrokerProcess
from tests.kit.servers.java_brokers import JavaBroker
from tests.kit.servers.java_programs import JavaProgram, java_program
from tests.kit.waiting import LONGEST_WAIT

__all__ = ["java_program"]

PROGRAM = Path(__file__).parent / "program"
MESSAGES = 120
RECONNECT = "initialReconnectDelay=100&useExponentialBackOff=false"


class OurBroker(BrokerProcess):
    """`pyjms_broker` with its own configuration file and folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self._folder = folder / name
        self._folder.mkdir()
        self.network = ""
        """The network connector, as broker.yaml has it."""
        self._file = self._folder / "broker.yaml"
        self.name = name
        super().__init__([sys.executable, "-m", "pyjms_broker"], self._folder / "log")

    def command(self, port: int) -> list[str]:
        self._file.write_text(
            f"broker_name: {self.name}\n"
            f"data_directory: {self._folder / 'data'}\n"
            f"connectors: [{{uri: 'tcp://127.0.0.1:{port}'}}]\n"
            f"network_connectors: [{self.network}]\n",
            encoding="utf-8",
        )
        return [*super().command(port)[:-1], "--config", str(self._file)]

    def join(self, other: BrokerProcess, *, duplex: bool) -> None:
        """Forward to a broker, from the next start on."""
        uri = f"static:({other.url})?{RECONNECT}"
        self.network = f"{{uri: '{uri}', name: from-us, duplex: {str(duplex).lower()}}}"


class ActiveMQ(JavaBroker):
    """ActiveMQ 5.17.2."""

    name = "activemq"

    def join(self, other: BrokerProcess, *, duplex: bool) -> None:
        self._settings = {"remote": other.url, "duplex": str(duplex).lower()}


Networked: TypeAlias = OurBroker | ActiveMQ
Make: TypeAlias = Callable[[str], Networked]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Makes a broker of a kind, not started: `ours`, `other` (one of ours, too), `activemq`."""
    made: list[Networked] = []

    def broker(kind: str) -> Networked:
        if kind == "activemq":
            program: JavaProgram = request.getfixturevalue("java_program")
            made.append(ActiveMQ(kind, [*program(PROGRAM), "NetworkBroker"], tmp_path, {}))
        else:
            made.append(OurBroker(kind, tmp_path))
        return made[-1]

    yield broker
    for each in made:
        each.end()


def pair(make: Make, source: str, target: str, *, duplex: bool) -> tuple[Networked, Networked]:
    """Two brokers, the first of which has a network connector to the second."""
    first, second = make(source), make(target)
    second.start()
    first.join(second, duplex=duplex)
    first.start()
    return first, second


def reconnecting(broker: BrokerProcess) -> ConnectionFactory:
    return ConnectionFactory(f"failover:({broker.url})?maxReconnectDelay=200&timeout=60000")


async def forward(
    source: BrokerProcess, target: BrokerProcess, destination: Destination, count: int
) -> set[str]:
    """Send to one broker, receive at the other; return what came."""
    came: set[str] = set()
    async with (
        await reconnecting(target).create_connection() as there,
        await reconnecting(source).create_connection() as here,
    ):
        await there.start()
        receiving = await there.create_session()
        consumer = await receiving.create_consumer(destination)
        session = await here.create_session()
        producer = await session.create_producer(destination)
        for number in range(count):
            await producer.send(session.create_text_message(f"m{number}"))
        while len(came) < count:
            message = await consumer.receive(LONGEST_WAIT)
            assert isinstance(message, TextMessage), sorted(came)
            came.add(str(message.text))
    return came


async def ask(requester: BrokerProcess, replier: BrokerProcess) -> None:
    """Have a request at one broker answered at the other one."""
    async with (
        await reconnecting(requester).create_connection() as here,
        await reconnecting(replier).create_connection() as there,
    ):
        await here.start()
        await there.start()
        asking, answering = await here.create_session(), await there.create_session()
        replies = await asking.create_temporary_queue()
        answers = await asking.create_consumer(replies)
        requests = await answering.create_consumer(Queue("requests"))
        request = asking.create_text_message("question")
        request.reply_to = replies
        await (await asking.create_producer(Queue("requests"))).send(request)
        received = await requests.receive(LONGEST_WAIT)
        assert received is not None
        with anyio.fail_after(LONGEST_WAIT):
            while True:  # the destination of the reply may not have come yet
                try:
                    producer = await answering.create_producer(received.reply_to)
                    await producer.send(answering.create_text_message("answer"))
                    break
                except InvalidDestinationException:
                    await checkpoint()
        answer = await answers.receive(LONGEST_WAIT)
        assert isinstance(answer, TextMessage)
        assert answer.text == "answer"


@pytest.mark.activemq
@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("initiator", ["ours", "activemq"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_messages_go_to_and_from_activemq(make: Make, initiator: str, duplex: bool) -> None:
    other = "activemq" if initiator == "ours" else "ours"
    first, second = pair(make, initiator, other, duplex=duplex)
    expected = {f"m{number}" for number in range(5)}
    assert await forward(first, second, Queue("there"), 5) == expected
    if duplex:
        assert await forward(second, first, Queue("back"), 5) == expected
        await ask(first, second)
        await ask(second, first)
    assert await forward(first, second, Queue("again"), 5) == expected


async def kill_both(make: Make, source: str, target: str, *, duplex: bool = False) -> None:
    """Kill either broker while messages are forwarded; none may be lost."""
    first, second = pair(make, source, target, duplex=duplex)
    sender, receiver = (second, first) if duplex else (first, second)
    queue = Queue("killed")
    for broker in (sender, receiver):
        async with await reconnecting(sender).create_connection() as here:
            session = await here.create_session()
            producer = await session.create_producer(queue)
            producer.delivery_mode = DeliveryMode.PERSISTENT
            for number in range(MESSAGES):
                await producer.send(session.create_text_message(f"{broker.name}-{number}"))
        expected = {f"{broker.name}-{number}" for number in range(MESSAGES)}
        came: set[str] = set()
        async with await reconnecting(receiver).create_connection() as there:
            await there.start()
            receiving = await there.create_session()
            consumer = await receiving.create_consumer(queue)
            while came < expected:
                message = await consumer.receive(LONGEST_WAIT)
                assert isinstance(message, TextMessage), sorted(expected - came)
                came.add(str(message.text))
                if len(came) == MESSAGES // 3:
                    broker.kill()
                    broker.start()
        assert came == expected


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_is_lost_between_our_brokers(make: Make) -> None:
    await kill_both(make, "ours", "other")


@pytest.mark.nightly
@pytest.mark.activemq
@pytest.mark.parametrize("duplex", [False, True])
@pytest.mark.parametrize("initiator", ["ours", "activemq"])
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_nothing_is_lost_between_ours_and_activemq(
    make: Make, initiator: str, duplex: bool
) -> None:
    other = "activemq" if initiator == "ours" else "ours"
    await kill_both(make, initiator, other, duplex=duplex)
