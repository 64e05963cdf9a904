"""The sections of messages of AMQP 1.0, in both directions."""

from __future__ import annotations

import pytest

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.amqp.message import (
    DATA,
    NO_BODY,
    SEQUENCE,
    VALUE,
    Message,
    decode_message,
    encode_message,
    with_header,
)
from pyjms.wire.amqp.performatives import Header, Properties
from pyjms.wire.amqp.values import Described, Symbol, Timestamp, UInt, ULong
from tests.kit.amqp.peer import contents

WHOLE = Message(
    VALUE,
    "body",
    header=Header(True, 9, UInt(1000), False, UInt(2)),
    delivery_annotations={Symbol("d"): 1},
    message_annotations={Symbol("x-opt"): "m"},
    properties=Properties(ULong(7), b"u", "to", creation_time=Timestamp(5), group_sequence=UInt(1)),
    application_properties={"p": True},
    footer={Symbol("f"): None},
)
PARTS = {
    "header": "005370c00c05 41 5009 70000003e8 40 5202",
    "delivery_annotations": "005371c10602a301645401",
    "message_annotations": "005372c10b02a305782d6f7074a1016d",
    "properties": "005373c01c0c 5307 a00175 a102746f 404040404040 830000000000000005 40 5201",
    "application_properties": "005374c10502a1017041",
    "body": "005377a104626f6479",
    "footer": "005378c10502a3016640",
}


def test_a_whole_message() -> None:
    data = bytes.fromhex("".join(PARTS.values()))
    assert encode_message(WHOLE).hex() == data.hex()
    assert contents(decode_message(data)) == contents(WHOLE)


@pytest.mark.parametrize(
    ("kind", "body", "data"),
    [
        (NO_BODY, None, ""),
        (DATA, [b"a"], "005375a00161"),
        (DATA, [b"a", b""], "005375a00161005375a000"),
        (SEQUENCE, [[1], []], "005376c003015401 00537645"),
        (VALUE, None, "00537740"),
        (VALUE, {"a": [b""]}, "005377c10902a10161c00301a000"),
        (VALUE, Described(Symbol("d"), 1), "00537700a301645401"),
    ],
)
def test_bodies(kind: int, body: object, data: str) -> None:
    message = decode_message(bytes.fromhex(data))
    assert (message.body_kind, message.body) == (kind, body)
    assert encode_message(Message(kind, body)) == bytes.fromhex(data)
    skipped = decode_message(bytes.fromhex(data), body=False)
    assert (skipped.body_kind, skipped.body) == (kind, None)


def test_sections_may_be_named_by_symbols() -> None:
    data = b"\0\xa3\x10amqp:header:list\x45\0\xa3\x10amqp:data:binary\xa0\1x"
    message = decode_message(data)
    assert (message.header, message.body) == (Header(), [b"x"])


def test_a_body_that_cannot_be_read_can_be_skipped() -> None:
    data = bytes.fromhex(PARTS["properties"] + "005377a102c328" + PARTS["footer"])
    with pytest.raises(RemoteProtocolError, match="UTF-8"):
        decode_message(data)
    message = decode_message(data, body=False)
    assert message.footer == WHOLE.footer
    assert message.properties == WHOLE.properties


@pytest.mark.parametrize(
    ("value", "end"),
    [("a102c328", ""), ("45", ""), ("c003015401", ""), ("d00000000400000000", ""),
     ("00a3016440", ""), ("98" + "00" * 16, ""), ("e003015401", "")],
)  # fmt: skip
def test_values_of_any_width_are_skipped(value: str, end: str) -> None:
    data = bytes.fromhex("005377" + value + PARTS["footer"])
    assert decode_message(data, body=False).footer == WHOLE.footer


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ("40", "no section"),
        ("00", "ends within"),
        ("0053", "ends within"),
        ("00531045", "0x10 is no map"),
        ("005379c10100", "0x79 does not exist"),
        ("00a30161c10100", "0x0 does not exist"),
        ("00537040", "0x70 is no list"),
        ("005374c0020140", "0x74 is no map"),
        ("005374c1020140", "odd number"),
        ("005375a1016100", "neither binary nor a list"),
        ("00537740 00537740", "two bodies"),
        ("005375a000 00537645", "two bodies"),
        ("005375a0", "ends within"),
        ("005373c0030244 41", "user_id of properties is a bool"),
    ],
)
@pytest.mark.parametrize("body", [True, False])
def test_damage_is_refused(data: str, reason: str, body: bool) -> None:
    if reason == "neither binary nor a list" and not body:
        reason = "ends within"
    with pytest.raises(RemoteProtocolError, match=reason) as error:
        decode_message(bytes.fromhex(data), body=body)
    assert error.value.position is not None


@pytest.mark.parametrize(
    "message",
    [Message(VALUE, object()), Message(9), Message(header=Header(priority=256)),
     Message(application_properties={"a": 2**64})],
)  # fmt: skip
def test_what_has_no_type_is_not_written(message: Message) -> None:
    with pytest.raises(LocalProtocolError):
        encode_message(message)


def test_the_header_can_be_replaced() -> None:
    rest = "".join(data for name, data in PARTS.items() if name != "header")
    header = Header(delivery_count=1)
    for payload in (rest, PARTS["header"] + rest):
        changed = with_header(bytes.fromhex(payload), header)
        assert changed == bytes.fromhex("005370c00705404040405201" + rest)
    with pytest.raises(RemoteProtocolError):
        with_header(b"\x40", header)


def test_application_properties_may_stay_encoded() -> None:
    data = encode_message(WHOLE)
    message = decode_message(data, properties=False)
    assert message.application_properties is None
    assert message.encoded_properties == bytes.fromhex("c10502a1017041")
    assert encode_message(message) == data


def test_annotations_may_be_encoded() -> None:
    message = Message(message_annotations={Symbol("a"): 1})
    message.encoded_annotations = bytes.fromhex("c10602a301625402")
    assert decode_message(encode_message(message)).message_annotations == {Symbol("b"): 2}
