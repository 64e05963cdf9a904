from __future__ import annotations

import copy
from typing import Any

import pytest

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMessage,
    ActiveMQTextMessage,
    BrokerId,
    Command,
    ConnectionId,
    ConsumerId,
    KeepAliveInfo,
    LocalTransactionId,
    MessageDispatch,
    MessageId,
    ProducerId,
    XATransactionId,
    contents,
)
from pyjms.wire.openwire.fast_reader import unmarshal_body
from pyjms.wire.openwire.fast_writer import marshal_body, patch_raw, readdress_raw
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import WireFormatSettings
from tests.kit.values import present

PRODUCER = ProducerId("ID:h-1-2-3:1", 1, 1)
CONSUMER = ConsumerId("ID:h-1-2-3:1", 1, 7)


def message(**values: Any) -> ActiveMQTextMessage:
    made = ActiveMQTextMessage(
        PRODUCER,
        Queue("a.b"),
        message_id=MessageId(None, PRODUCER, 5),
        content=b"\0\0\0\2hi",
        timestamp=17,
        command_id=9,
    )
    for name, value in values.items():
        setattr(made, name, value)
    return made


def blob() -> ActiveMQBlobMessage:
    made = ActiveMQBlobMessage("http://x/y")
    made.producer_id = PRODUCER
    made.destination = Queue("a.b")
    made.message_id = MessageId(None, PRODUCER, 5)
    return made


MESSAGES: list[ActiveMQMessage] = [
    message(),
    message(transaction_id=LocalTransactionId(3, ConnectionId("ID:h-1-2-3:1"))),
    message(transaction_id=LocalTransactionId(3, None)),
    message(transaction_id=XATransactionId(7, b"g", b"bq"), original_destination=Topic("c")),
    message(transaction_id=XATransactionId(7, None, None)),
    message(original_destination=Topic("VirtualTopic.x")),
    message(correlation_id="c", reply_to=Queue("r"), type="t", group_id="g", group_sequence=4),
    message(message_id=MessageId(None, None, 5)),
    message(message_id=MessageId(None, ProducerId(None, 1, 1), 5)),
    message(message_id=MessageId("ID:foreign", PRODUCER, 5)),
    message(message_id=None),
    message(producer_id=None, destination=None),
    message(user_id="me"),
    message(broker_path=[BrokerId("b")]),
    message(target_consumer_id=CONSUMER),
    message(data_structure=KeepAliveInfo()),
    blob(),
]


def pair(**values: Any) -> tuple[OpenWireFormat, OpenWireFormat]:
    settings = WireFormatSettings(**values)
    sender, receiver = OpenWireFormat(settings), OpenWireFormat(settings)
    sender.negotiate(receiver.local_info())
    receiver.negotiate(sender.local_info())
    return sender, receiver


def receive(sent: Command, **values: Any) -> Any:
    sender, receiver = pair(**values)
    (received,) = receiver.receive_data(sender.encode(sent))
    return received


@pytest.mark.parametrize("sent", MESSAGES)
def test_raw_is_the_body_as_received(sent: ActiveMQMessage) -> None:
    sender, receiver = pair()
    frame = sender.encode(sent)
    (received,) = receiver.receive_data(frame)
    assert isinstance(received, ActiveMQMessage)
    assert contents(received) == contents(sent)
    # A nested structure may hold a stack trace, which not every peer takes.
    assert received.raw == (None if sent.data_structure else frame[5:])


@pytest.mark.parametrize("sent", MESSAGES)
def test_raw_is_kept_in_dispatches_too(sent: ActiveMQMessage) -> None:
    received = receive(MessageDispatch(CONSUMER, Queue("a.b"), sent, 3))
    assert contents(received.message) == contents(sent)
    assert received.redelivery_counter == 3
    expected = None if sent.data_structure else marshal_body(copy.copy(sent))
    assert received.message.raw == expected


def receive_without_raw(sent: Command) -> Any:
    sender, _ = pair()
    client = OpenWireFormat(keeps_raw=False)
    client.negotiate(sender.local_info())
    (received,) = client.receive_data(sender.encode(sent))
    return received


@pytest.mark.parametrize("sent", MESSAGES)
def test_a_client_gets_the_same_message_as_a_broker(sent: ActiveMQMessage) -> None:
    assert contents(receive_without_raw(sent)) == contents(sent)
    dispatched = receive_without_raw(MessageDispatch(CONSUMER, Queue("a.b"), sent, 3))
    assert contents(dispatched.message) == contents(sent)


def test_a_client_that_sends_nothing_on_keeps_no_raw() -> None:
    assert receive_without_raw(message()).raw is None
    dispatched = receive_without_raw(MessageDispatch(CONSUMER, Queue("a.b"), message()))
    assert dispatched.message.raw is None


@pytest.mark.parametrize(
    "other", [{"tight_encoding_enabled": True}, {"cache_enabled": True}, {"version": 11}]
)
def test_raw_is_kept_in_no_other_form(other: dict[str, bool | int]) -> None:
    assert receive(message(), **other).raw is None
    assert receive(MessageDispatch(CONSUMER, Queue("a.b"), message()), **other).message.raw is None


@pytest.mark.parametrize("received", [receive(message())])
@pytest.mark.parametrize(
    "other", [{"tight_encoding_enabled": True}, {"cache_enabled": True}, {"version": 11}]
)
def test_a_message_with_raw_goes_out_in_every_form(
    received: ActiveMQMessage, other: dict[str, bool | int]
) -> None:
    assert contents(receive(received, **other)) == contents(message())


def test_raw_is_copied_into_frames() -> None:
    received = receive(message())
    received.raw = received.raw.replace(b"hi", b"ho")
    assert receive(received).content == b"\0\0\0\2ho"
    dispatched = receive(MessageDispatch(CONSUMER, Queue("a.b"), received)).message
    assert dispatched.content == b"\0\0\0\2ho"


def test_a_transport_may_number_a_message_that_has_raw() -> None:
    received = receive(message())
    received.command_id, received.response_required = 77, True
    again = receive(received)
    assert (again.command_id, again.response_required) == (77, True)


@pytest.mark.parametrize("sent", MESSAGES)
def test_patched_raw_is_what_marshalling_gives(sent: ActiveMQMessage) -> None:
    made = copy.copy(sent)
    made.message_id = copy.copy(sent.message_id)
    marshal_body(made)
    if made.message_id is not None:
        made.message_id.broker_sequence_id = 4711
    made.broker_in_time, made.broker_out_time = 1700000000001, 1700000000002
    made.redelivery_counter, made.arrival = 2, 3
    made.jms_xgroup_first_for_consumer = made.droppable = True
    patch_raw(made)
    patched = made.raw
    made.raw = None
    assert patched == marshal_body(made)
    assert contents(unmarshal_body(made.TYPE, patched)) == contents(made)


def test_patching_without_raw_does_nothing() -> None:
    made = message()
    patch_raw(made)
    assert made.raw is None


def test_patching_refuses_what_is_out_of_range() -> None:
    made = message()
    marshal_body(made)
    made.redelivery_counter = 2**31
    with pytest.raises(LocalProtocolError):
        patch_raw(made)


@pytest.mark.parametrize("sent", MESSAGES)
def test_bodies_alone_come_back(sent: ActiveMQMessage) -> None:
    body = marshal_body(copy.copy(sent))
    back = unmarshal_body(sent.TYPE, body)
    assert contents(back) == contents(sent)
    assert back.raw == body


def test_marshalling_keeps_the_body() -> None:
    made = message()
    assert marshal_body(made) is marshal_body(made)


@pytest.mark.parametrize(
    "wrong", [{"timestamp": 2**63}, {"user_id": "x" * 70000}, {"priority": 200}]
)
def test_what_cannot_be_marshalled_is_refused(wrong: Any) -> None:
    with pytest.raises(LocalProtocolError):
        marshal_body(message(**wrong))


def test_damaged_bodies_are_refused() -> None:
    body = marshal_body(message())
    for code, data in ((30, body), (28, body[:-1]), (28, body + b"\0"), (28, b"")):
        with pytest.raises(RemoteProtocolError):
            unmarshal_body(code, data)


def test_ids_and_destinations_that_repeat_are_the_same_objects() -> None:
    sender, receiver = pair()
    dispatch = MessageDispatch(CONSUMER, Queue("a.b"), message())
    first, second = receiver.receive_data(sender.encode(dispatch) * 2)
    assert isinstance(first, MessageDispatch)
    assert isinstance(second, MessageDispatch)
    assert first.consumer_id is second.consumer_id
    assert first.destination is second.destination
    assert first.message is not None
    assert second.message is not None
    assert first.message.destination is first.destination
    assert first.message.producer_id is second.message.producer_id


def test_the_memo_of_ids_is_bounded() -> None:
    sender, receiver = pair()
    for n in range(2000):
        sent = ActiveMQBytesMessage(ProducerId(f"c{n}", 1, 1), Queue(f"q{n}" + "x" * (n % 400)))
        sent.message_id = MessageId(None, sent.producer_id, 1)
        assert contents(receiver.receive_data(sender.encode(sent))) == contents([sent])
    for memo in (receiver._fast_reader._memo, sender._fast_writer._memo):  # type: ignore[union-attr]
        assert len(memo) <= 512


@pytest.mark.parametrize("origin", MESSAGES, ids=range(len(MESSAGES)))
@pytest.mark.parametrize("place", [Queue("Consumer.a.b"), Topic("é"), None])
@pytest.mark.parametrize("original", [Topic("a.b"), None])
@pytest.mark.parametrize("is_received", [True, False])
def test_a_readdressed_body_is_what_marshalling_gives(
    origin: ActiveMQMessage, place: Queue | Topic | None, original: Topic | None, is_received: bool
) -> None:
    other = copy.copy(origin)
    marshal_body(other)
    if is_received:
        other = unmarshal_body(other.TYPE, present(other.raw))
    there = copy.copy(origin)
    there.destination, there.original_destination, there.raw = place, original, None
    there.sequence_at = None
    readdress_raw(there, other)
    there.raw = there.raw or marshal_body(there)
    patched, again = there.raw, copy.copy(there)
    again.raw = None
    assert patched == marshal_body(again)
    if there.message_id is not None:
        there.message_id = copy.copy(there.message_id)
        there.message_id.broker_sequence_id = 77
        patch_raw(there)
        again = copy.copy(there)
        again.raw = None
        assert there.raw == marshal_body(again)


@pytest.mark.parametrize("origin", MESSAGES, ids=range(len(MESSAGES)))
def test_a_patched_tail_is_what_marshalling_gives(origin: ActiveMQMessage) -> None:
    there = copy.copy(origin)
    patch_raw(there, is_numbered=True)
    assert there.raw is None
    marshal_body(there)
    there.broker_out_time, there.droppable = 12345, True
    patch_raw(there, is_numbered=True)
    again = copy.copy(there)
    again.raw = None
    assert there.raw == marshal_body(again)
