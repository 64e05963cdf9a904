"""What the package stomp.py's own tests do with ActiveMQ, with its client at this broker.

Its source distribution has no tests. A client runs in threads, the broker in the loop.
"""

from __future__ import annotations

import queue
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import stomp  # type: ignore[import-untyped]
from anyio import to_thread

from tests.kit.brokers.security import simple, user
from tests.kit.stomp.client import StartStomp, StompBroker
from tests.kit.tls import CertificateFiles

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])
VERSIONS: dict[str, Any] = {
    "1.0": stomp.Connection10,
    "1.1": stomp.Connection11,
    "1.2": stomp.Connection12,
}
LIMIT = 20


class Frames(stomp.ConnectionListener):  # type: ignore[misc]
    """Keeps received frames in order, by kind."""

    def __init__(self) -> None:
        self.kinds: dict[str, queue.Queue[Any]] = {
            kind: queue.Queue() for kind in ("message", "receipt", "error", "heartbeat", "end")
        }

    def on_message(self, frame: Any) -> None:
        self.kinds["message"].put(frame)

    def on_receipt(self, frame: Any) -> None:
        self.kinds["receipt"].put(frame.headers["receipt-id"])

    def on_error(self, frame: Any) -> None:
        self.kinds["error"].put(frame)

    def on_heartbeat(self) -> None:
        self.kinds["heartbeat"].put(None)

    def on_disconnected(self) -> None:
        self.kinds["end"].put(None)


class Client:
    """A connection of stomp.py, in a thread."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.frames = Frames()
        connection.set_listener("", self.frames)
        self._receipts = 0

    def next(self, kind: str = "message") -> Any:
        return self.frames.kinds[kind].get(timeout=LIMIT)

    def receipt(self, call: Callable[..., Any], *arguments: Any, **headers: Any) -> None:
        """Call a method with a receipt, and wait for it."""
        self._receipts += 1
        call(*arguments, **{"receipt": f"r{self._receipts}", **headers})
        assert self.next("receipt") == f"r{self._receipts}"

    def subscribe(self, destination: str, **more: Any) -> None:
        headers = {"receipt": "sub", **more.pop("headers", {})}
        self.connection.subscribe(destination, id="s", headers=headers, **more)
        assert self.next("receipt") == "sub"

    def nothing_more(self) -> bool:
        self.receipt(self.connection.send, "/topic/nobody.listens", "")
        return self.frames.kinds["message"].empty()


@asynccontextmanager
async def client_of(
    broker: StompBroker, version: str = "1.2", *, headers: Any = None, **options: Any
) -> AsyncIterator[Client]:
    connection = VERSIONS[version]([("127.0.0.1", broker.port)], **options)
    client = Client(connection)
    await to_thread.run_sync(lambda: connection.connect(wait=True, headers=headers or {}))
    try:
        yield client
    finally:
        await to_thread.run_sync(connection.disconnect)


Scenario = Callable[[Client], None]


async def run(broker: StompBroker, scenario: Scenario, version: str = "1.2", **more: Any) -> None:
    async with client_of(broker, version, **more) as client:
        await to_thread.run_sync(scenario, client)


@pytest.mark.parametrize("version", VERSIONS)
async def test_basic(stomp: StompBroker, version: str) -> None:
    def scenario(client: Client) -> None:
        client.subscribe("/queue/test", ack="auto")
        client.receipt(client.connection.send, "/queue/test", "this is a test")
        message = client.next()
        assert message.body == "this is a test"
        assert message.headers["destination"] == "/queue/test"

    await run(stomp, scenario, version)


@pytest.mark.parametrize("version", VERSIONS)
async def test_commit_and_abort(stomp: StompBroker, version: str) -> None:
    def scenario(client: Client) -> None:
        client.subscribe("/queue/test")
        connection = client.connection
        first = connection.begin()
        connection.send("/queue/test", "one", transaction=first)
        connection.send("/queue/test", "two", transaction=first)
        assert client.nothing_more()
        connection.commit(transaction=first)
        assert [client.next().body, client.next().body] == ["one", "two"]
        second = connection.begin()
        connection.send("/queue/test", "never", transaction=second)
        connection.abort(second)
        assert client.nothing_more()

    await run(stomp, scenario, version)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize("mode", ["client", "client-individual"])
async def test_acknowledge(stomp: StompBroker, version: str, mode: str) -> None:
    def identity(message: Any) -> tuple[str, ...]:
        if version == "1.2":
            return (message.headers["ack"],)
        return (message.headers["message-id"], "s")

    def scenario(client: Client) -> None:
        connection = client.connection
        client.subscribe("/queue/test", ack=mode)
        for text in ("1", "2", "3"):
            connection.send("/queue/test", text)
        messages = [client.next() for _ in range(3)]
        client.receipt(connection.ack, *identity(messages[1]))
        client.receipt(connection.unsubscribe, "s")
        client.subscribe("/queue/test", ack=mode)
        left = ["3"] if mode == "client" else ["1", "3"]
        assert [client.next().body for _ in left] == left
        assert client.nothing_more()

    await run(stomp, scenario, version)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_nack(stomp: StompBroker, version: str) -> None:
    def scenario(client: Client) -> None:
        connection = client.connection
        client.subscribe("/queue/test", ack="client-individual")
        connection.send("/queue/test", "bad", headers={"persistent": "true"})
        headers = client.next().headers
        given = (headers["ack"],) if version == "1.2" else (headers["message-id"], "s")
        client.receipt(connection.nack, *given)
        connection.subscribe("/queue/ActiveMQ.DLQ", id="dead")
        assert client.next().body == "bad"

    await run(stomp, scenario, version)


async def test_acknowledged_twice(stomp: StompBroker) -> None:
    def scenario(client: Client) -> None:
        client.subscribe("/queue/test", ack="client")
        client.connection.send("/queue/test", "x")
        identity = client.next().headers["ack"]
        client.receipt(client.connection.ack, identity)
        client.connection.ack(identity)
        assert "Unexpected ACK received" in client.next("error").headers["message"]
        assert client.nothing_more()

    await run(stomp, scenario)


async def test_heart_beats_both_ways(stomp_broker: StartStomp) -> None:
    def scenario(client: Client) -> None:
        for _ in range(3):
            client.next("heartbeat")
        client.receipt(client.connection.send, "/queue/test", "x")

    async with stomp_broker() as broker:
        await run(broker, scenario, heartbeats=(100, 100))


@pytest.mark.parametrize("version", ["1.1", "1.2"])
@pytest.mark.parametrize(
    "text",
    ["h\u00e9llo \u20ac \U0001f600", "a:b\\c\nd", "x" * 3_000_000],
    ids=["unicode", "escapes", "large"],
)
async def test_bodies_and_headers(stomp: StompBroker, version: str, text: str) -> None:
    def scenario(client: Client) -> None:
        client.subscribe("/queue/test")
        client.connection.send("/queue/test", text, headers={"custom": text[:100]})
        message = client.next()
        assert message.body == text
        assert message.headers["custom"] == text[:100]

    await run(stomp, scenario, version)


async def test_bytes(stomp: StompBroker) -> None:
    data = bytes(range(256)) * 100

    def scenario(client: Client) -> None:
        client.subscribe("/queue/test")
        client.connection.send("/queue/test", data, content_type="application/octet-stream")
        assert client.next().body == data

    await run(stomp, scenario, auto_decode=False)


@pytest.mark.parametrize("version", ["1.1", "1.2"])
async def test_a_durable_subscription(stomp: StompBroker, version: str) -> None:
    durable = {"activemq.subscriptionName": "news"}

    def subscribe(client: Client) -> None:
        client.subscribe("/topic/news", headers=durable)

    def publish(client: Client) -> None:
        client.receipt(
            client.connection.send, "/topic/news", "while away", headers={"persistent": "true"}
        )

    def catch_up(client: Client) -> None:
        subscribe(client)
        assert client.next().body == "while away"
        client.receipt(client.connection.unsubscribe, "s")

    await run(stomp, subscribe, version, headers={"client-id": "me"})
    await run(stomp, publish, version)
    await run(stomp, catch_up, version, headers={"client-id": "me"})


async def test_a_selector_and_a_browser(stomp: StompBroker) -> None:
    def scenario(client: Client) -> None:
        connection = client.connection
        for price in ("2", "5"):
            client.receipt(connection.send, "/queue/test", price, headers={"price": price})
        connection.subscribe("/queue/test", id="b", headers={"browser": "true"})
        assert [client.next().body, client.next().body] == ["2", "5"]
        assert client.next().headers["browser"] == "end"
        connection.unsubscribe("b")
        client.subscribe("/queue/test", headers={"selector": "price > 3"})
        assert client.next().body == "5"
        assert client.nothing_more()

    await run(stomp, scenario)


async def test_wrong_logins(stomp_broker: StartStomp) -> None:
    async with stomp_broker(plugins=[simple(user("alice"))]) as broker:
        connection = stomp.Connection12([("127.0.0.1", broker.port)], reconnect_attempts_max=1)
        client = Client(connection)

        def connect() -> None:
            with pytest.raises(stomp.exception.ConnectFailedException):
                connection.connect("alice", "wrong", wait=True)

        await to_thread.run_sync(connect)
        assert "invalid" in client.next("error").headers["message"]


async def test_tls(stomp_broker: StartStomp, files: CertificateFiles) -> None:
    async with stomp_broker() as broker:
        service = broker.broker.service
        connector = service.add_connector(f"stomp+ssl://127.0.0.1:0?ssl.keyStore={files.issue()}")
        await connector.start()
        port = int(connector.connect_uri.rpartition(":")[2])
        connection = stomp.Connection12([("localhost", port)])
        connection.set_ssl([("localhost", port)], ca_certs=files.trust)
        client = Client(connection)

        def scenario() -> None:
            connection.connect(wait=True)
            client.receipt(connection.send, "/queue/test", "x")
            connection.disconnect()

        await to_thread.run_sync(scenario)


async def test_many_senders(stomp: StompBroker) -> None:
    def scenario(client: Client) -> None:
        client.subscribe("/queue/test")
        for number in range(1000):
            client.connection.send("/queue/test", str(number))
        assert [client.next().body for _ in range(1000)] == [str(n) for n in range(1000)]

    await run(stomp, scenario)
