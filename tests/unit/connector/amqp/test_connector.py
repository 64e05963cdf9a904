"""The connector of AMQP keeps the contract of connectors, and its options."""

from __future__ import annotations

import itertools
from weakref import WeakKeyDictionary

import anyio
import pytest
from anyio.abc import ByteStream

from pyjms.errors import ConfigurationException
from pyjms.testing.contract.connector import ConnectorContract
from pyjms.transport.uri import TransportURI
from pyjms.wire.amqp.format import SASL, AmqpFormat, Frame, Item, ProtocolHeader
from pyjms.wire.amqp.message import VALUE, Message, encode_message
from pyjms.wire.amqp.performatives import (
    SENDER,
    Attach,
    Begin,
    Disposition,
    Flow,
    Open,
    SaslInit,
    Source,
    Target,
    Transfer,
)
from pyjms_broker.connector.amqp.connector import AMQP_PROTOCOL, AmqpConnector
from pyjms_broker.connector.base import BrokerHost, TransportConnector

NUMBERS = itertools.count()
CODECS: WeakKeyDictionary[ByteStream, AmqpFormat] = WeakKeyDictionary()


def frames(*items: Item) -> bytes:
    data, codec = bytearray(), AmqpFormat(2**20)
    for item in items:
        codec.encode_into(data, item)
    return bytes(data)


class TestAmqpConnector(ConnectorContract):
    @pytest.fixture
    def connector(self, host: BrokerHost) -> AmqpConnector:
        return AmqpConnector(host, TransportURI.parse("amqp://127.0.0.1:0"), "amqp")

    async def connect(self, connector: TransportConnector) -> ByteStream:
        uri = TransportURI.parse(connector.connect_uri)
        stream = await anyio.connect_tcp(uri.host or "", uri.port or 0)
        login = (ProtocolHeader(SASL), Frame(0, SaslInit("ANONYMOUS")), ProtocolHeader(0))
        await stream.send(
            frames(*login, Frame(0, Open(f"c{next(NUMBERS)}")), Frame(0, Begin(None, 0, 9, 9)))
        )
        return stream

    async def request(self, client: ByteStream) -> None:
        codec = CODECS.setdefault(client, AmqpFormat(2**20))
        number = next(NUMBERS)
        attach = Attach(f"x{number}", number, SENDER, source=Source(), target=Target("a"))
        attach.initial_delivery_count = 0
        await client.send(frames(Frame(0, attach)))
        found: set[type] = set()
        while Disposition not in found:
            items = codec.receive_data(await client.receive())
            found = {type(item.body) for item in items if isinstance(item, Frame)}
            if Flow in found:
                payload = encode_message(Message(VALUE, "x"))
                await client.send(frames(Frame(0, Transfer(number, number, b"0"), payload)))


@pytest.mark.fact(
    "amqp-connector A5", "amqp-connector A6", "amqp-connector A7", "amqp-connector A11"
)
def test_options() -> None:
    options = AMQP_PROTOCOL.read_options(
        TransportURI.parse(
            "amqp://h:1?transport.transformer=JMS&transport.wireFormat.idleTimeout=2000"
            "&wireFormat.maxFrameSize=104857600&wireFormat.producerCredit=7&maximumConnections=5"
            "&transport.wireFormat.allowNonSaslConnections=true&transport.trace=true"
        )
    )
    assert (options.transformer, options.idle_timeout, options.producer_credit) == ("jms", 2.0, 7)
    assert (options.max_frame_size, options.largest_frame) == (104857600, 131072)
    assert options.allow_non_sasl
    assert options.server.maximum_connections == 5
    unlimited = AMQP_PROTOCOL.read_options(
        TransportURI.parse("amqp://h:1?wireFormat.maxAmqpFrameSize=-1")
    )
    assert unlimited.largest_frame == unlimited.max_frame_size
    assert unlimited.transformer == "native"


@pytest.mark.fact("amqp-connector A8", "amqp-connector A12")
@pytest.mark.parametrize(
    "option", ["transport.transformer=xml", "transport.nonsense=1", "wireFormat.nonsense=1"]
)
def test_wrong_options_are_refused(option: str) -> None:
    with pytest.raises(ConfigurationException, match=r"nonsense|xml"):
        AMQP_PROTOCOL.read_options(TransportURI.parse(f"amqp://h:1?{option}"))
