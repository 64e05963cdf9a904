"""Connecting, heart-beats, errors and the end of STOMP connections."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import ConfigurationException
from pyjms.testing.clock import VirtualClock
from pyjms.wire.openwire.commands import ConsumerControl
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.stomp.client import StartStomp, StompBroker, StompClient
from tests.kit.tls import CertificateFiles

ORDERS = "/queue/orders"


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    async with VirtualClock() as clock:
        yield clock


@pytest.mark.fact("activemq-edges ST1", "activemq-edges ST2")
@pytest.mark.parametrize(
    ("accepted", "version"),
    [(None, "1.0"), ("1.0", "1.0"), ("1.1,1.0", "1.1"), ("1.2,1.1,7", "1.2")],
)
@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
async def test_the_best_common_version_is_spoken(
    stomp: StompBroker, accepted: str | None, version: str, command: str
) -> None:
    client = await stomp.open()
    headers = {} if accepted is None else {"accept-version": accepted}
    await client.send(command, {**headers, "client-id": "me", "request-id": "q", "receipt": "r"})
    answer = (await client.receive("CONNECTED")).headers
    assert answer["version"] == version
    assert (answer["session"], answer["heart-beat"]) == ("me", "0,0")
    assert (answer["response-id"], answer["receipt-id"]) == ("q", "q")
    assert answer["server"].startswith("ActiveMQ/")


@pytest.mark.fact("activemq-edges ST1")
async def test_no_common_version_is_an_error(stomp: StompBroker) -> None:
    client = await stomp.open()
    await client.send("CONNECT", {"accept-version": "9.9"})
    assert (await client.receive("ERROR")).headers["message"] == (
        "Invalid Protocol version[9.9], supported versions are: [1.2, 1.1, 1.0]"
    )
    assert await client.closed()


@pytest.mark.fact("activemq-edges ST2")
async def test_a_client_id_is_used_once(stomp: StompBroker) -> None:
    first = await stomp.client(client_id="me")
    second = await stomp.open()
    refused = await second.connect(client_id="me")
    assert refused.command == "ERROR"
    assert "me" in refused.headers["message"]
    await first.nothing_comes()


@pytest.mark.fact("activemq-edges ST1")
async def test_commands_are_known_by_their_beginning(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.done("SUB", {"destination": ORDERS, "id": "s"})
    await client.done("UNSUB", {"id": "s"})
    await client.send("FOO", {"receipt": "r"})
    error = await client.receive("ERROR")
    assert error.headers["message"] == "Unknown STOMP action: FOO"
    assert error.headers["receipt-id"] == "r"
    assert await client.closed()


@pytest.mark.fact("activemq-edges ST1", "activemq-edges ST3")
async def test_other_errors_leave_the_connection_open(stomp: StompBroker) -> None:
    client = await stomp.client()
    error = await client.ask("SEND", {}, "x")
    assert (error.command, error.headers["receipt-id"]) == ("ERROR", "r")
    assert error.headers["content-type"] == "text/plain"
    assert error.headers["message"] == "SEND received without a Destination specified!"
    for headers, reason in (
        ({"priority": "high"}, "priority must be"),
        ({"expires": 10**30}, "expires must be"),
        ({"persistent": "maybe"}, "persistent must be"),
        ({"amq-msg-type": "map"}, "Unsupported message type 'map'"),
        ({"JMSDeliveryMode": "2"}, "write persistent"),
        ({"destination": "/queue/a?b=c"}, "Options of destinations"),
    ):
        assert reason in await client.refused("SEND", {"destination": ORDERS, **headers}, "x")
    text = {"destination": ORDERS, "amq-msg-type": "text"}
    assert "UTF-8" in await client.refused("SEND", text, b"\xff")
    assert await client.refused("CONNECT") == "Already connected."
    await client.done("SEND", {"destination": ORDERS}, "x")
    assert stomp.broker.queue_statistics("orders").messages == 1


@pytest.mark.parametrize("command", ["SEND", "SUBSCRIBE", "ACK", "BEGIN"])
async def test_connect_comes_first(stomp: StompBroker, command: str) -> None:
    client = await stomp.open()
    assert await client.refused(command, {"destination": ORDERS}) == "Not connected."
    assert await client.closed()


@pytest.mark.fact("activemq-edges ST3")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"X" * 1025, "command length"),
        (b"SEND\n" + b"h" * 10241, "header length"),
        (b"SEND\n" + b"a:b\n" * 1001, "number of headers"),
        (b"SEND\ncontent-length:99999999999\n\n", "content-length"),
        (b"SEND\ncontent-length:104857601\n\n", "frame size"),
        (b"SEND\ncontent-length:1\n\nab\0", "trailing null"),
        (b"SEND\n:no name\n", "Unable to parse header line"),
        (b"SEND\na:\xff\n", "UTF-8"),
    ],
    ids=["command", "header", "headers", "number", "size", "nul", "name", "utf-8"],
)
async def test_what_is_not_stomp_is_an_error_and_the_end(
    stomp: StompBroker, data: bytes, reason: str
) -> None:
    client = await stomp.client()
    await client.stream.send(data)
    assert reason in (await client.receive("ERROR")).headers["message"]
    assert await client.closed()


@pytest.mark.fact("activemq-edges ST12")
async def test_disconnect_is_confirmed_after_everything_before(stomp: StompBroker) -> None:
    client = await stomp.client()
    for number in range(100):
        await client.send("SEND", {"destination": ORDERS, "persistent": "true"}, str(number))
    await client.done("DISCONNECT")
    assert await client.closed()
    assert stomp.broker.queue_statistics("orders").messages == 100


@pytest.mark.fact("activemq-edges ST13")
async def test_an_idle_client_gets_beats(clock: VirtualClock, stomp: StompBroker) -> None:
    client = await stomp.open()
    answer = await client.connect(heart_beat="0,10000")
    assert answer.headers["heart-beat"] == "10000,0"
    await clock.advance(10)
    with anyio.fail_after(20):
        assert set(await client.stream.receive()) == set(b"\n")


@pytest.mark.fact("activemq-edges ST13")
async def test_a_silent_client_is_disconnected(clock: VirtualClock, stomp: StompBroker) -> None:
    silent, beating = [await stomp.client(heart_beat="10000,0") for _ in range(2)]
    for _ in range(6):
        await clock.advance(5.1)
        await beating.stream.send(b"\n")
    assert await silent.closed()
    await beating.nothing_comes()


@pytest.mark.fact("activemq-edges ST13")
async def test_the_default_heart_beat_is_an_option(stomp_broker: StartStomp) -> None:
    async with stomp_broker("?transport.defaultHeartBeat=0,30000") as stomp:
        named, unnamed = await stomp.open(), await stomp.open()
        assert (await named.connect(heart_beat="0,0")).headers["heart-beat"] == "0,0"
        assert (await unnamed.connect()).headers["heart-beat"] == "30000,0"


@pytest.mark.parametrize("value", ["1", "a,b", "1,2,3", "-1,0", "0,99999999999"])
async def test_a_heart_beat_that_cannot_be_read(stomp: StompBroker, value: str) -> None:
    client = await stomp.open()
    error = await client.connect(heart_beat=value)
    assert "heart-beat" in error.headers["message"]
    assert await client.closed()


@pytest.mark.fact("activemq-edges ST13")
@pytest.mark.parametrize(
    "option", ["transport.connectAttemptTimeout", "wireFormat.connectionAttemptTimeout"]
)
async def test_a_client_that_never_connects_is_disconnected(
    stomp_broker: StartStomp, option: str
) -> None:
    async with stomp_broker(f"?{option}=100") as stomp:
        client = await stomp.open()
        await client.stream.send(b"\n\n")
        assert await client.closed()


@pytest.mark.fact("activemq-edges ST20")
@pytest.mark.parametrize("prefix", ["transport", "wireFormat"])
async def test_a_frame_size_is_an_option(stomp_broker: StartStomp, prefix: str) -> None:
    async with stomp_broker(f"?{prefix}.maxFrameSize=1000") as stomp:
        client = await stomp.client()
        await client.done("SEND", {"destination": ORDERS}, "x" * 900)
        await client.send("SEND", {"destination": ORDERS}, "x" * 1000)
        assert "1000 bytes" in (await client.receive("ERROR")).headers["message"]


@pytest.mark.fact("activemq-edges ST20")
@pytest.mark.parametrize("prefix", ["transport", "wireFormat"])
async def test_a_body_size_is_an_option(stomp_broker: StartStomp, prefix: str) -> None:
    async with stomp_broker(f"?{prefix}.maxDataLength=1000") as stomp:
        client = await stomp.client()
        await client.done("SEND", {"destination": ORDERS}, "x" * 1000)
        await client.send("SEND", {"destination": ORDERS}, "x" * 1001)
        assert "data length of 1000 bytes" in (await client.receive("ERROR")).headers["message"]


@pytest.mark.parametrize(
    "option",
    [
        "transport.defaultHeartBeat=1",
        "transport.maxDataLength=0",
        "transport.hbGracePeriodMultiplier=0.5",
        "transport.hbGracePeriodMultiplier=inf",
        "wireFormat.maxFrameSize=0",
        "wireFormat.cacheEnabled=true",
        "transport.useKeepAlive=true",
        "nonsense=1",
    ],
)
async def test_options_that_cannot_be_used(option: str) -> None:
    with pytest.raises(ConfigurationException):
        BrokerService("b", persistent=False).add_connector(f"stomp://127.0.0.1:0?{option}")


@pytest.mark.fact("activemq-edges ST2")
async def test_login_and_client_id_are_those_of_the_jms_connection(stomp: StompBroker) -> None:
    await stomp.client(login="me", passcode="secret", client_id="c")
    context = stomp.context()
    assert (context.user_name, context.client_id) == ("me", "c")
    assert context.info.password == "secret"
    assert context.info.client_ip.startswith("stomp://127.0.0.1:")


async def test_a_subscription_that_the_broker_closes(stomp: StompBroker) -> None:
    client = await stomp.client()
    await client.subscribe(ORDERS)
    (consumer,) = stomp.connection.consumers.values()
    assert consumer.subscription is not None
    consumer_id = consumer.subscription.consumer_id
    stomp.connection.send_command(ConsumerControl(close=True, consumer_id=consumer_id))
    error = await client.receive("ERROR")
    assert error.headers["message"] == f"The broker has closed the subscription to {ORDERS}"
    assert await client.refused("UNSUBSCRIBE", {"id": "s"}) == "No subscription matched."
    await client.done("SEND", {"destination": ORDERS}, "x")
    assert stomp.broker.queue_statistics("orders").consumers == 0


async def test_tls(files: CertificateFiles) -> None:
    service = BrokerService("tls", persistent=False)
    async with EmbeddedTestBroker(service):
        uri = f"stomp+ssl://127.0.0.1:0?ssl.keyStore={files.issue()}"
        connector = service.add_connector(uri)
        await connector.start()
        assert connector.connect_uri.startswith("stomp+ssl://127.0.0.1:")
        context = ssl.create_default_context(cafile=files.trust)
        stream = await anyio.connect_tcp(
            "localhost",
            int(connector.connect_uri.rpartition(":")[2]),
            ssl_context=context,
            tls_standard_compatible=False,
        )
        client = StompClient(stream)
        assert (await client.connect()).command == "CONNECTED"
        await client.done("SEND", {"destination": ORDERS}, "x" * 1_000_000)
        await client.subscribe(ORDERS)
        assert len((await client.receive("MESSAGE")).body) == 1_000_000
        await stream.aclose()


async def test_tls_from_a_settings_file(files: CertificateFiles, tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    path.write_text(
        "broker_name: stomp-file\npersistent: false\nconnectors:\n"
        "  - uri: stomp+ssl://127.0.0.1:0\n"
        f"    tls: {{key_store: {files.issue()}}}\n",
        encoding="utf-8",
    )
    service = BrokerService.from_settings(load_broker_settings(path, environ={}))
    async with EmbeddedTestBroker(service):
        assert service.connectors[0].connect_uri.startswith("stomp+ssl://127.0.0.1:")


async def test_jms_clients_are_given_a_separate_connector() -> None:
    service = BrokerService("both", persistent=False)
    service.add_connector("stomp://127.0.0.1:0")
    assert service.connect_uri == "vm://both"
    service.add_connector("tcp://127.0.0.1:0")
    async with EmbeddedTestBroker(service):
        assert service.connect_uri.startswith("tcp://")
        factory = ConnectionFactory(service.connect_uri)
        async with await factory.create_connection() as connection:
            await connection.create_session()
