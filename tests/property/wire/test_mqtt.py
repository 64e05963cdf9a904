"""The MQTT codec against generated packets, any portions, and noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.wire.mqtt import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    V3_1,
    V3_1_1,
    V5,
    Ack,
    Filter,
    MqttFormat,
    Packet,
    Properties,
    Publish,
    SubAck,
    Subscribe,
    Unsubscribe,
)
from tests.kit.mqtt.codec_fuzz import run

TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0+#"), min_size=1,
               max_size=20)  # fmt: skip
ID = st.integers(1, 65535)
QOS = st.integers(0, 2)
PROPERTIES: st.SearchStrategy[Properties] = st.fixed_dictionaries(
    {},
    optional={
        "user_property": st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=3),
        "message_expiry_interval": st.integers(0, 2**32 - 1),
        "correlation_data": st.binary(max_size=20),
        "response_topic": TEXT,
    },
)


def packets(level: int) -> st.SearchStrategy[Packet]:
    """Packets of both directions."""
    is_v5 = level == V5

    def publish(
        topic: str, payload: bytes, qos: int, flags: tuple[bool, bool], packet_id: int,
        properties: Properties,
    ) -> Publish:  # fmt: skip
        return Publish(topic, payload, qos, *flags, packet_id if qos else 0, properties)

    properties = PROPERTIES if is_v5 else st.just({})
    filters = st.builds(Filter, TEXT, QOS)
    return st.one_of(
        st.builds(publish, TEXT, st.binary(max_size=200), QOS,
                  st.tuples(st.booleans(), st.booleans()), ID, properties),
        st.builds(Ack, st.sampled_from([PUBACK, PUBREC, PUBREL, PUBCOMP]), ID),
        st.builds(Subscribe, ID, st.lists(filters, min_size=1, max_size=3)),
        st.builds(Unsubscribe, ID, st.lists(TEXT, min_size=1, max_size=3)),
        st.builds(SubAck, st.just(SUBACK), ID, st.lists(st.sampled_from([0, 1, 2, 128]))),
    )  # fmt: skip


@pytest.mark.parametrize("level", [V3_1, V3_1_1, V5])
@given(data=st.data())
def test_packets_come_back(level: int, data: st.DataObject) -> None:
    sent = data.draw(st.lists(packets(level), max_size=4))
    buffer = bytearray()
    for packet in sent:
        MqttFormat(level=level).encode_into(buffer, packet)
    codec = MqttFormat(level=level)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(buffer)), max_size=6)))
    portions = [bytes(buffer[a:b]) for a, b in zip([0, *cuts], [*cuts, len(buffer)], strict=True)]
    assert [p for portion in portions for p in codec.receive_data(portion)] == sent


@pytest.mark.parametrize("level", [None, V3_1_1, V5])
@given(data=st.binary(max_size=300), size=st.integers(1, 50))
def test_portions_make_no_difference(level: int | None, data: bytes, size: int) -> None:
    codec = MqttFormat(level=level)
    whole = MqttFormat(level=level).receive_data(data)
    portions = [data[at : at + size] for at in range(0, len(data), size)]
    assert [p for portion in portions for p in codec.receive_data(portion)] == whole


def test_random_input_breaks_nothing() -> None:
    assert run(5000) > 500
