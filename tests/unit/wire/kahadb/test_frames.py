"""OpenWire inside KahaDB's commands."""

from __future__ import annotations

import pytest

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.jms.destination import Destination, Queue, TemporaryQueue, TemporaryTopic, Topic
from pyjms.wire.kahadb import frames
from pyjms.wire.kahadb.commands import (
    KahaDestination,
    KahaLocalTransactionId,
    KahaTransactionInfo,
    KahaXATransactionId,
)
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    ConnectionId,
    LocalTransactionId,
    MessageAck,
    MessageId,
    ProducerId,
    SubscriptionInfo,
    TransactionId,
    XATransactionId,
    contents,
)
from pyjms.wire.openwire.schema import MESSAGES, layout_of


def text_message() -> ActiveMQTextMessage:
    message = ActiveMQTextMessage()
    producer = ProducerId("ID:x", 1, 1)
    message.producer_id = producer
    message.message_id = MessageId(producer_id=producer, producer_sequence_id=7)
    message.destination = Queue("q")
    message.content = b"\0\0\0\1a"
    return message


def test_a_message_comes_back_in_every_version() -> None:
    assert frames.STORE_OPENWIRE_VERSION == 11
    for version in range(1, 13):
        frame = frames.encode_message(text_message(), version)
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        message = frames.decode_message(frame, version)
        assert message.message_id == text_message().message_id
        assert message.destination == Queue("q")
        assert message.content == b"\0\0\0\1a"
        assert message.raw == (frame[5:] if version >= 11 else None)
        assert frames.encode_message(message, version) == frame
        assert frames.encode_frame(message, version) == frame


def test_raw_serves_versions_11_and_12_alike() -> None:
    for code in (*MESSAGES, 22, 55, 110, 111, 112, 120, 123):
        assert layout_of(code, 11) == layout_of(code, 12)


def test_acks_and_subscriptions_come_back() -> None:
    ack = MessageAck()
    ack.destination = Topic("t")
    ack.message_count = 3
    found = frames.decode_ack(frames.encode_frame(ack))
    assert found is not None
    assert (found.destination, found.message_count) == (Topic("t"), 3)
    assert frames.decode_ack(b"") is None
    info = SubscriptionInfo("c", Topic("t"), "a = 1", "n", Topic("t"), no_local=True)
    back = frames.decode_subscription_info(frames.encode_frame(info))
    assert contents(back) == contents(info)


def test_frames_of_another_kind_or_size_are_refused() -> None:
    frame = frames.encode_message(text_message())
    longer = (len(frame) - 3).to_bytes(4, "big") + frame[4:] + b"x"
    for wrong in (b"", frame[:3], frame[:-1], frame + b"x", longer, b"\0\0\0\1\0"):
        with pytest.raises(RemoteProtocolError):
            frames.decode_message(wrong)
    with pytest.raises(KahaDBFormatError, match="Expected MessageAck, found ActiveMQTextMessage"):
        frames.decode_ack(frame)
    with pytest.raises(KahaDBFormatError, match="version 13 is unknown"):
        frames.decode_message(frame, 13)
    with pytest.raises(LocalProtocolError, match="MessageAck cannot be written"):
        ack = MessageAck()
        ack.message_count = 2**40  # an int of 32 bits on the wire
        frames.encode_frame(ack)


def test_destinations_both_ways() -> None:
    kinds = (Queue("a"), Topic("a"), TemporaryQueue("a"), TemporaryTopic("a"))
    for number, destination in enumerate(kinds):
        kaha = frames.to_kaha_destination(destination)
        assert kaha == KahaDestination(number, "a")
        assert type(kaha.type) is int
        assert frames.from_kaha_destination(kaha) == destination
    for wrong in (KahaDestination(4, "a"), KahaDestination(-1, "a"), KahaDestination(0, "")):
        with pytest.raises(KahaDBFormatError):
            frames.from_kaha_destination(wrong)


def test_what_is_neither_a_queue_nor_a_topic_is_not_stored() -> None:
    with pytest.raises(LocalProtocolError, match="cannot be stored"):
        frames.to_kaha_destination(Destination("x"))


def test_transactions_both_ways() -> None:
    local = LocalTransactionId(5, ConnectionId("ID:c"))
    xa = XATransactionId(-7, b"g", b"b")
    assert frames.to_transaction_info(local) == KahaTransactionInfo(
        KahaLocalTransactionId("ID:c", 5)
    )
    assert frames.to_transaction_info(xa) == KahaTransactionInfo(
        xa_transaction_id=KahaXATransactionId(-7, b"b", b"g")
    )
    for transaction in (local, xa):
        info = frames.to_transaction_info(transaction)
        assert frames.from_transaction_info(info) == transaction
    with pytest.raises(KahaDBFormatError):
        frames.from_transaction_info(KahaTransactionInfo())
    for wrong in (LocalTransactionId(5), TransactionId()):
        with pytest.raises(LocalProtocolError):
            frames.to_transaction_info(wrong)


def test_the_key_of_a_subscription() -> None:
    assert frames.subscription_key("client", "name") == "client:name"
