from __future__ import annotations

import pytest

from pyjms.wire.openwire.commands import (
    TYPES,
    ActiveMQTextMessage,
    BrokerId,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    Identifier,
    LocalTransactionId,
    MessageId,
    ProducerId,
    RemoveInfo,
    Response,
    SessionId,
    XATransactionId,
    contents,
)
from pyjms.wire.openwire.schema import layout_of

CONNECTION = "ID:host-50000-1700000000000-4:1"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (ConnectionId(CONNECTION), CONNECTION),
        (ConnectionId(None), ""),
        (SessionId(CONNECTION, 1), CONNECTION + ":1"),
        (ConsumerId(CONNECTION, -1, 1), CONNECTION + ":-1:1"),
        (ProducerId(CONNECTION, 2, 1), CONNECTION + ":1:2"),
        (MessageId(None, ProducerId(CONNECTION, 1, 1), 5), CONNECTION + ":1:1:5"),
        (MessageId("ID:x", ProducerId(CONNECTION, 1, 1), 5), "ID:x"),
        (MessageId("x"), "ID:x"),
        (LocalTransactionId(3, ConnectionId(CONNECTION)), f"TX:{CONNECTION}:3"),
        (XATransactionId(1, b"\x01\xff", b"\x0a"), "XID:[1,globalId=1ffffffff,branchId=a]"),
    ],
)
def test_ids_have_activemqs_text(value: Identifier, text: str) -> None:
    assert str(value) == text


IDS = [
    ConnectionId("a"),
    BrokerId("a"),
    SessionId("a", 1),
    ConsumerId("a", 1, 1),
    ProducerId("a", 1, 1),
    MessageId(None, ProducerId("a", 1, 1), 1),
    LocalTransactionId(1, ConnectionId("a")),
    XATransactionId(1, b"a", b"b"),
]


def test_ids_are_equal_by_type_and_value() -> None:
    again = [
        ConnectionId("a"),
        BrokerId("a"),
        SessionId("a", 1),
        ConsumerId("a", 1, 1),
        ProducerId("a", 1, 1),
        MessageId("ID:text", ProducerId("a", 1, 1), 1, broker_sequence_id=7),
        LocalTransactionId(1, ConnectionId("a")),
        XATransactionId(1, b"a", b"b"),
    ]
    assert again == IDS
    assert [hash(value) for value in again] == [hash(value) for value in IDS]
    assert len({*IDS, *again}) == len(IDS)
    for n, value in enumerate(IDS):
        assert value not in IDS[:n] + IDS[n + 1 :]


def test_commands_compare_and_hash_by_identity_and_their_contents_by_value() -> None:
    one = Response(1)
    assert one == one  # noqa: PLR0124 - the point
    assert one != Response(1)
    assert len({one, one, Response(1)}) == 2
    assert contents(Response(1)) == contents(Response(1))
    assert contents(Response(1)) != contents(Response(2))
    assert contents(Response(1)) != contents(RemoveInfo())
    assert contents([Response(1)]) == contents([Response(1)])
    assert contents(IDS[0]) is IDS[0]


def test_passwords_and_bodies_are_not_shown() -> None:
    info = ConnectionInfo(ConnectionId("a"), "client", "secret", "user")
    message = ActiveMQTextMessage(content=b"secret", marshalled_properties=b"secret")
    assert "secret" not in repr(info) + repr(message)
    assert "client_id='client'" in repr(info)


@pytest.mark.parametrize("code", TYPES)
def test_every_type_is_made_without_arguments_and_has_every_field(code: int) -> None:
    made = TYPES[code]()
    for version in range(1, 13):
        for name, _, _ in layout_of(code, version):
            assert hasattr(made, name)
