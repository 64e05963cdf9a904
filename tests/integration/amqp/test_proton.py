"""Programs that use Qpid Proton, in a thread of their own, with the broker in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import anyio.to_thread
import pytest

from pyjms_broker.settings.security import AuthorizationSettings
from tests.kit.amqp.client import AmqpBroker, StartAmqp
from tests.kit.brokers.security import simple, user

proton = pytest.importorskip("proton", reason="it is built where there is a C compiler")
from proton.handlers import MessagingHandler, TransactionHandler  # noqa: E402
from proton.reactor import AtLeastOnce, Container, Copy, DurableSubscription, Selector  # noqa: E402
from proton.utils import BlockingConnection, LinkDetached  # noqa: E402

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])
T = TypeVar("T")
TIMEOUT = 20


async def program(amqp: AmqpBroker, run: Callable[[Any], T], **options: Any) -> T:
    """Run a program with a connection, in a thread."""

    def connect() -> T:
        url = f"amqp://127.0.0.1:{amqp.port}"
        connection = BlockingConnection(url, timeout=TIMEOUT, **options)
        try:
            return run(connection)
        finally:
            connection.close()

    return await anyio.to_thread.run_sync(connect)


def drained(connection: Any, address: str, **options: Any) -> list[Any]:
    """Return the bodies of the messages that there are, which are accepted."""
    receiver = connection.create_receiver(address, credit=100, **options)
    bodies = []
    try:
        while True:
            bodies.append(receiver.receive(timeout=0.3).body)
            receiver.accept()
    except proton.Timeout:
        return bodies
    finally:
        receiver.close()


async def test_messages_come_back(amqp: AmqpBroker) -> None:
    def run(connection: Any) -> Any:
        message = proton.Message(
            {"k": "v"}, id="m", subject="s", reply_to="queue://r", correlation_id="c", durable=True,
            priority=7, properties={"text": "t", "flag": True, "number": 5},
        )  # fmt: skip
        connection.create_sender("queue://a").send(message)
        receiver = connection.create_receiver("queue://a")
        found = receiver.receive()
        receiver.accept()
        return found

    found = await program(amqp, run)
    assert found.body == {"k": "v"}
    assert (found.subject, found.correlation_id, found.priority) == ("s", "c", 7)
    assert found.durable
    assert (found.address, found.reply_to) == ("queue://a", "queue://r")
    assert found.properties == {"text": "t", "flag": True, "number": 5}


@pytest.mark.fact("amqp-connector A47")
async def test_large_messages(amqp: AmqpBroker) -> None:
    body = bytes(range(256)) * 4000

    def run(connection: Any) -> bytes:
        message = proton.Message(body)
        message.inferred = True
        connection.create_sender("queue://a").send(message)
        received = connection.create_receiver("queue://a").receive()
        return bytes(received.body)  # it is a part of the message, and must not outlive it

    assert await program(amqp, run) == body


async def test_outcomes(amqp: AmqpBroker) -> None:
    def run(connection: Any) -> tuple[list[Any], list[Any]]:
        sender = connection.create_sender("queue://a")
        for number in range(3):
            sender.send(proton.Message(str(number), durable=True))
        receiver = connection.create_receiver("queue://a", credit=3)
        for settle in (receiver.accept, receiver.reject, receiver.release):
            receiver.receive()
            settle()
        receiver.close()
        return drained(connection, "queue://a"), drained(connection, "queue://ActiveMQ.DLQ")

    assert await program(amqp, run) == (["2"], ["1"])


@pytest.mark.fact("amqp-connector A80")
async def test_selectors(amqp: AmqpBroker) -> None:
    def run(connection: Any) -> list[Any]:
        sender = connection.create_sender("queue://a")
        for number in range(4):
            sender.send(proton.Message(str(number), properties={"odd": number % 2}))
        return drained(connection, "queue://a", options=Selector("odd = 1"))

    assert await program(amqp, run) == ["1", "3"]


@pytest.mark.fact("amqp-connector A83")
async def test_browsers(amqp: AmqpBroker) -> None:
    def run(connection: Any) -> tuple[list[Any], list[Any]]:
        sender = connection.create_sender("queue://a")
        for number in range(3):
            sender.send(proton.Message(str(number)))
        return drained(connection, "queue://a", options=Copy()), drained(connection, "queue://a")

    assert await program(amqp, run) == (["0", "1", "2"], ["0", "1", "2"])


@pytest.mark.fact("amqp-connector A100", "amqp-connector A102")
async def test_durable_subscriptions(amqp: AmqpBroker) -> None:
    def subscribe(connection: Any) -> None:
        options = [DurableSubscription(), AtLeastOnce()]
        receiver = connection.create_receiver("topic://t", name="sub", options=options)
        receiver.detach()

    def publish(connection: Any) -> None:
        connection.create_sender("topic://t").send(proton.Message("kept"))

    def read(connection: Any) -> list[Any]:
        options = [DurableSubscription(), AtLeastOnce()]
        return drained(connection, "topic://t", name="sub", options=options)

    named = Container(container_id="durable")
    await program(amqp, subscribe, container=named)
    await program(amqp, publish)
    assert await program(amqp, read, container=Container(container_id="durable")) == ["kept"]


async def test_a_dynamic_node_takes_answers(amqp: AmqpBroker) -> None:
    def run(connection: Any) -> Any:
        replies = connection.create_receiver(None, dynamic=True)
        address = replies.link.remote_source.address
        connection.create_sender(address).send(proton.Message("answer"))
        return address, replies.receive().body

    address, body = await program(amqp, run)
    assert address.startswith("temp-queue://")
    assert body == "answer"


@pytest.mark.fact("amqp-connector A74")
async def test_an_anonymous_sender(amqp: AmqpBroker) -> None:
    def run(connection: Any) -> list[Any]:
        sender = connection.create_sender(None)
        sender.send(proton.Message("1", address="queue://a"))
        sender.send(proton.Message("2", address="b"))
        return drained(connection, "queue://a") + drained(connection, "queue://b")

    assert await program(amqp, run) == ["1", "2"]


@pytest.mark.fact("amqp-connector A61")
async def test_what_is_not_allowed_is_refused(amqp_broker: StartAmqp) -> None:
    entry = {"destination": ">", "read": "users", "write": "admins", "admin": "users"}
    rights = AuthorizationSettings.model_validate({"entries": [entry]})
    users = simple(user("scott", password="tiger", groups="users"))

    def run(connection: Any) -> str:
        with pytest.raises(LinkDetached) as error:
            connection.create_sender("queue://a").send(proton.Message("1"))
        return str(error.value)

    async with amqp_broker(plugins=[users, rights]) as amqp:
        login = {"user": "scott", "password": "tiger", "allowed_mechs": "PLAIN"}
        assert "not authorized to write to: queue://a" in await program(amqp, run, **login)
        with pytest.raises(proton.ConnectionException):
            await program(amqp, run, **{**login, "password": "wrong"})


class Transfers(MessagingHandler, TransactionHandler):  # type: ignore[misc]
    """Sends a message in a transaction which is committed, and one in another that is aborted."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.aborts = False

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.connection = event.container.connect(self.url, reconnect=False)
        self.sender = event.container.create_sender(self.connection, "queue://a")
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event: Any) -> None:
        body = "aborted" if self.aborts else "committed"
        event.transaction.send(self.sender, proton.Message(body))
        if self.aborts:
            event.transaction.abort()
        else:
            event.transaction.commit()

    def on_transaction_committed(self, event: Any) -> None:
        self.aborts = True
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_aborted(self, event: Any) -> None:
        self.connection.close()


@pytest.mark.fact("amqp-connector A112", "amqp-connector A115", "amqp-connector A116")
async def test_transactions(amqp: AmqpBroker) -> None:
    handler = Transfers(f"amqp://127.0.0.1:{amqp.port}")
    await anyio.to_thread.run_sync(Container(handler).run)
    assert await program(amqp, lambda each: drained(each, "queue://a")) == ["committed"]
