"""Protocol headers, SASL, Open and Close, silence."""

from __future__ import annotations

import ssl

import anyio
import pytest
from websockets.asyncio.client import connect as websocket_client
from websockets.typing import Subprotocol

from pyjms.errors import JMSException
from pyjms.wire.amqp.format import AMQP, SASL, Frame, ProtocolHeader
from pyjms.wire.amqp.message import encode_message
from pyjms.wire.amqp.performatives import (
    SENDER,
    Attach,
    Begin,
    Close,
    Detach,
    Error,
    Open,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    Source,
    Target,
    Transfer,
)
from tests.kit.amqp.client import AmqpBroker, AmqpClient, StartAmqp, left, text
from tests.kit.brokers.security import simple, user
from tests.kit.tls import CertificateFiles


async def ending(client: AmqpClient) -> Error:
    """The error of the Close that ends the connection."""
    items = await client.closed()
    frame = items[-1]
    assert isinstance(frame, Frame)
    assert isinstance(frame.body, Close)
    assert frame.body.error is not None
    return frame.body.error


@pytest.mark.fact("amqp-connector A21")
@pytest.mark.parametrize(
    "first",
    [b"AMQP\0\1\0\0", b"AMQP\2\1\0\0", b"AMQP\3\1\1\0", b"GET / HTTP/1.1\r\n\r\n"],
    ids=["no SASL", "TLS", "version", "HTTP"],
)
async def test_an_unknown_header_is_answered_by_what_there_is(
    amqp: AmqpBroker, first: bytes
) -> None:
    client = await amqp.connect()
    await client.stream.send(first)
    items = await client.closed()
    assert [each.id for each in items if isinstance(each, ProtocolHeader)] == [SASL, AMQP]
    bodies = [each.body for each in items if isinstance(each, Frame)]
    assert isinstance(bodies[0], Open)
    assert isinstance(bodies[1], Close)
    assert bodies[1].error is not None
    assert bodies[1].error.condition == "amqp:decode-error"


@pytest.mark.fact("amqp-connector A20")
async def test_sasl_may_be_left_out_where_that_is_allowed(amqp_broker: StartAmqp) -> None:
    async with amqp_broker("?wireFormat.allowNonSaslConnections=true") as amqp:
        client = await amqp.connect()
        await client.send_items(ProtocolHeader(AMQP))
        assert isinstance(await client.next_item(), ProtocolHeader)
        assert (await client.open()).container_id == "amqp"
        await client.close()


@pytest.mark.fact("amqp-connector A28", "amqp-connector A36")
async def test_without_sasl_a_login_fails(amqp_broker: StartAmqp) -> None:
    users = simple(user("ann", password="secret"))
    async with amqp_broker("?wireFormat.allowNonSaslConnections=true", plugins=[users]) as amqp:
        client = await amqp.connect()
        await client.send_items(ProtocolHeader(AMQP))
        await client.next_item()
        await client.open()
        error = await ending(client)
        assert error.condition == "amqp:unauthorized-access"
        assert error.description == "User name [null] or password is invalid."


@pytest.mark.fact("amqp-connector A22", "amqp-connector A23")
async def test_mechanisms(amqp: AmqpBroker) -> None:
    client = await amqp.connect()
    await client.send_items(ProtocolHeader(SASL))
    await client.next_item()
    mechanisms = await client.receive(SaslMechanisms)
    assert mechanisms.sasl_server_mechanisms == ["PLAIN", "ANONYMOUS"]
    await client.send_items(Frame(0, SaslInit("SCRAM-SHA-256")))
    assert (await client.receive(SaslOutcome)).code == 3
    assert await client.closed() == []
    assert await (await amqp.connect()).log_in("anonymous") == 0


@pytest.mark.fact("amqp-connector A24", "amqp-connector A25", "amqp-connector A26")
@pytest.mark.parametrize(
    ("response", "code"),
    [
        (b"\0ann\0secret", 0),
        (b"ann\0secret", 0),
        (b"x\0ann\0secret", 0),
        (b"\0ann\0wrong", 1),
        (b"", 1),
        (b"\0\0ann\0secret", 1),
    ],
)
async def test_a_login_is_checked_during_sasl(
    amqp_broker: StartAmqp, response: bytes, code: int
) -> None:
    async with amqp_broker(plugins=[simple(user("ann", password="secret"))]) as amqp:
        client = await amqp.connect()
        assert await client.log_in("PLAIN", response) == code
        if code:
            assert await client.closed() == []
        else:
            assert (await client.open()).container_id == "amqp"


@pytest.mark.fact("amqp-connector A30", "amqp-connector A31", "amqp-connector A45")
async def test_what_open_and_begin_tell(amqp: AmqpBroker) -> None:
    client = await amqp.connect()
    await client.log_in()
    answer = await client.open()
    assert answer.container_id == "amqp"
    assert (answer.max_frame_size, answer.channel_max) == (131072, 32767)
    assert (answer.idle_time_out, answer.hostname) == (15000, None)
    assert answer.offered_capabilities == ["ANONYMOUS-RELAY", "DELAYED_DELIVERY"]
    properties = answer.properties or {}
    assert (properties["queue-prefix"], properties["topic-prefix"]) == ("queue://", "topic://")
    assert properties["product"] == "ActiveMQ"
    await client.send(Begin(None, 0, 10, 10))
    begin = await client.receive(Begin)
    assert (begin.remote_channel, begin.next_outgoing_id, begin.incoming_window) == (0, 1, 16383)
    assert (begin.outgoing_window, begin.handle_max) == (2147483647, 65535)


@pytest.mark.fact("amqp-connector A33", "amqp-connector A34", "amqp-connector A35")
@pytest.mark.parametrize(
    ("name", "text"), [("", "No clientID specified"), ("c", "Client: c already connected")]
)
async def test_a_container_id_is_needed_once(amqp: AmqpBroker, name: str, text: str) -> None:
    await amqp.client("c")
    client = await amqp.connect()
    await client.log_in()
    answer = await client.open(name)
    assert answer.container_id == ""
    assert answer.properties == {"amqp:connection-establishment-failed": True}
    error = await ending(client)
    assert error.condition == "amqp:invalid-field"
    assert text in (error.description or "")
    assert error.info == {"invalid-field": "container-id"}


@pytest.mark.fact("amqp-connector A34")
async def test_link_stealing_drops_the_older_connection(amqp_broker: StartAmqp) -> None:
    async with amqp_broker("?allowLinkStealing=true") as amqp:
        older = await amqp.client("c")
        await amqp.client("c")
        assert (await ending(older)).condition == "amqp:connection:forced"


@pytest.mark.fact("amqp-connector A42")
async def test_a_broker_that_stops_says_so(amqp: AmqpBroker) -> None:
    client, early = await amqp.client(), await amqp.connect()
    await early.log_in()
    await amqp.broker.service.stop()
    error = await ending(client)
    assert error == Error("amqp:connection:forced", "The broker is stopping")
    assert await early.closed() == []


@pytest.mark.fact("amqp-connector A42")
async def test_an_operator_closes_a_connection(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    (view,) = amqp.broker.service.management.find("*:connectionViewType=clientId,*")
    await view.invoke("stop")
    error = await ending(client)
    assert error == Error("amqp:connection:forced", "The broker has closed the connection")


@pytest.mark.fact("amqp-connector A41")
async def test_an_error_of_the_connection_is_told(amqp: AmqpBroker) -> None:
    client = await amqp.client("c")
    context = amqp.broker.service.region_broker.client_context("c")
    assert context is not None
    assert context.connection is not None
    context.connection.service_exception(JMSException("out of order"))
    assert await ending(client) == Error("amqp:internal-error", "out of order")


@pytest.mark.fact("amqp-connector A32")
async def test_the_broker_opens_after_the_client(amqp: AmqpBroker) -> None:
    client = await amqp.connect()
    await client.log_in()
    with anyio.move_on_after(0.05):
        raise AssertionError(await client.next_item())
    assert (await client.open(hostname="elsewhere.example")).container_id == "amqp"


@pytest.mark.fact("amqp-connector A173")
async def test_what_cannot_be_processed_ends_the_connection(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    coordinator = await client.coordinator()
    await coordinator.link.transfer(b"no message")
    assert await ending(client) == Error("amqp:decode-error", "Could not process AMQP commands")


@pytest.mark.fact("amqp-connector A173")
async def test_nothing_counts_behind_what_cannot_be_processed(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    sender, coordinator = await client.sender("queue://a"), await client.coordinator()
    wrong = Transfer(coordinator.link.handle, 0, b"0", 0)
    right = Transfer(sender.handle, 1, b"1", 0)
    payload = encode_message(text("x"))
    await client.send_items(Frame(0, wrong, b"no message"), Frame(0, right, payload))
    assert await ending(client) == Error("amqp:decode-error", "Could not process AMQP commands")
    assert await left(amqp, "queue://a") == []


@pytest.mark.fact("amqp-connector A175")
async def test_a_long_container_id_is_refused(amqp: AmqpBroker) -> None:
    client = await amqp.connect()
    await client.log_in()
    await client.open("x" * 32_001)
    error = await ending(client)
    assert error.condition == "amqp:invalid-field"
    assert "The container-id" in (error.description or "")
    assert error.info == {"invalid-field": "container-id"}


@pytest.mark.fact("amqp-connector A175")
async def test_the_names_of_links_count_as_memory_of_the_client(amqp_broker: StartAmqp) -> None:
    async with amqp_broker(client_memory_limit=50_000) as amqp:
        client = await amqp.client()
        await client.sender("queue://a", name="x" * 30_000)
        link = Attach("y" * 30_000, 7, SENDER, source=Source(), target=Target("queue://a"))
        assert (await client.attach(link)).target is None
        error = (await client.receive(Detach)).error
        assert error is not None
        assert error.condition == "amqp:resource-limit-exceeded"


@pytest.mark.fact("amqp-connector A29")
@pytest.mark.parametrize("speaks", [False, True])
async def test_without_open_the_connection_ends(amqp_broker: StartAmqp, speaks: bool) -> None:
    async with amqp_broker("?transport.connectAttemptTimeout=200") as amqp:
        client = await amqp.connect()
        if speaks:
            assert await client.log_in() == 0
        await client.closed()


@pytest.mark.fact("amqp-connector A37")
async def test_idle_frames_can_be_refused(amqp_broker: StartAmqp) -> None:
    async with amqp_broker("?transport.useInactivityMonitor=false") as amqp:
        client = await amqp.connect()
        await client.log_in()
        await client.open(idle_time_out=1000)
        error = await ending(client)
        assert error.condition == "amqp:precondition-failed"
        assert error.description == "Cannot send idle frames"
        other = await amqp.connect()
        await other.log_in()
        assert (await other.open()).idle_time_out is None


@pytest.mark.fact("amqp-connector A38")
async def test_a_silent_broker_sends_empty_frames(amqp: AmqpBroker) -> None:
    client = await amqp.connect()
    await client.log_in()
    await client.open(idle_time_out=400)
    for _ in range(2):
        item = await client.next_item()
        assert isinstance(item, Frame)
        assert item.body is None


@pytest.mark.fact("amqp-connector A7", "amqp-connector A39")
@pytest.mark.parametrize("name", ["idelTimeout", "idleTimeout"])
async def test_a_silent_client_is_disconnected(amqp_broker: StartAmqp, name: str) -> None:
    async with amqp_broker(f"?wireFormat.{name}=400") as amqp:
        client = await amqp.connect()
        await client.log_in()
        assert (await client.open()).idle_time_out == 200
        for _ in range(8):
            await anyio.sleep(0.1)
            await client.send_items(Frame(0, None))
        error = await ending(client)
        assert error.condition == "amqp:resource-limit-exceeded"
        assert error.description == "local-idle-timeout expired"


@pytest.mark.fact("amqp-connector A40")
async def test_close_is_answered(amqp: AmqpBroker) -> None:
    client = await amqp.client()
    await client.close()
    await amqp.client()


@pytest.mark.fact("amqp-connector A9", "amqp-connector A172")
async def test_longer_frames_than_advertised_are_refused(amqp_broker: StartAmqp) -> None:
    async with amqp_broker("?transport.wireFormat.maxAmqpFrameSize=1000") as amqp:
        client = await amqp.connect()
        await client.log_in()
        assert (await client.open()).max_frame_size == 1000
        await client.stream.send((1001).to_bytes(4, "big") + b"\2\0\0\0")
        error = await ending(client)
        assert error.condition == "amqp:decode-error"
        assert "Frame size exceeded max frame length" in (error.description or "")


@pytest.mark.fact("amqp-connector A170", "amqp-connector A171")
@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\0\0\0\0\2\0\0\0", "Frame size value was invalid: 0"),
        (b"\0\0\0\x0c\2\0\0\0\0\x53\x10\xff", "Could not decode AMQP frame"),
    ],
)
async def test_damaged_frames_end_the_connection(amqp: AmqpBroker, data: bytes, text: str) -> None:
    client = await amqp.client()
    await client.stream.send(data)
    error = await ending(client)
    assert error.condition == "amqp:decode-error"
    assert text in (error.description or "")


@pytest.mark.fact("amqp-connector A3")
async def test_auto_recognises_amqp(amqp_broker: StartAmqp) -> None:
    async with amqp_broker("?auto.protocols=amqp,mqtt&auto.amqp.transformer=jms", "auto") as amqp:
        client = await amqp.client()
        assert (await client.sender("queue://a")).credit == 1000


async def test_the_views_name_protocol_and_credit(amqp: AmqpBroker) -> None:
    client = await amqp.client("here")
    await client.receiver("queue://a", credit=7)
    await client.nothing_comes()
    find = amqp.broker.service.management.find
    (connection,) = find("org.apache.activemq:connectionViewType=clientId,*")
    assert connection.get("Protocol") == "AMQP 1.0"
    (consumer,) = find("org.apache.activemq:endpoint=Consumer,*")
    assert (consumer.get("Credit"), consumer.get("PrefetchSize")) == (7, 0)


@pytest.mark.parametrize(("mode", "name"), [(0, "unsettled"), (1, "settled"), (2, "mixed")])
async def test_the_views_tell_of_links(amqp: AmqpBroker, mode: int, name: str) -> None:
    client = await amqp.client("here")
    await client.receiver("queue://a", mode=mode)
    sender = await client.sender("queue://b", mode=mode)
    await sender.texts("1", "2")
    find = amqp.broker.service.management.find
    (consumer,) = find("org.apache.activemq:endpoint=Consumer,*")
    (producer,) = find("org.apache.activemq:endpoint=Producer,*")
    assert (consumer.get("SettleMode"), producer.get("SettleMode")) == (name, name)
    assert producer.get("Credit") == 998


async def test_the_views_of_other_clients_have_no_links(amqp: AmqpBroker) -> None:
    async with amqp.jms("jms.watchTopicAdvisories=false") as session:
        await session.create_consumer(session.create_queue("a"))
        await session.create_producer(session.create_queue("a"))
        find = amqp.broker.service.management.find
        (consumer,) = find("org.apache.activemq:endpoint=Consumer,*")
        (producer,) = find("org.apache.activemq:endpoint=Producer,*")
        assert consumer.get("SettleMode") is None
        assert (producer.get("SettleMode"), producer.get("Credit")) == (None, None)


@pytest.mark.fact("amqp-connector A1")
@pytest.mark.parametrize("scheme", ["amqp+ssl", "amqp+nio+ssl", "auto+ssl"])
async def test_amqp_with_tls(amqp_broker: StartAmqp, scheme: str, files: CertificateFiles) -> None:
    async with amqp_broker(f"?ssl.keyStore={files.issue()}", scheme) as amqp:
        context = ssl.create_default_context(cafile=files.trust)
        stream = await anyio.connect_tcp(
            "localhost", amqp.port, ssl_context=context, tls_standard_compatible=False
        )
        async with stream:
            client = AmqpClient(stream)
            assert await client.log_in() == 0
            assert (await client.open()).container_id == "amqp"


@pytest.mark.fact("amqp-connector A2")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_amqp_over_websocket(amqp_broker: StartAmqp) -> None:
    async with amqp_broker("", "ws") as amqp:
        subprotocols = [Subprotocol("amqp")]
        url = f"ws://127.0.0.1:{amqp.port}"
        async with websocket_client(url, subprotocols=subprotocols, proxy=None) as page:
            assert page.subprotocol == "amqp"
            await page.send(b"AMQP\3\1\0\0")
            assert (await page.recv())[:8] == b"AMQP\3\1\0\0"
            await page.send("text")
            await page.wait_closed()


@pytest.mark.fact("amqp-connector A13")
async def test_the_number_of_connections_is_limited(amqp_broker: StartAmqp) -> None:
    async with amqp_broker("?maximumConnections=1") as amqp:
        await amqp.client()
        assert await (await amqp.connect()).closed() == []
