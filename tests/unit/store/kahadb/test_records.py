"""Records put together from parts are the codec's, and our remarks come back."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.jms.destination import Queue
from pyjms.wire.kahadb.codec import decode_command, encode_command
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaPrepareCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaTraceCommand,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.frames import decode_ack, encode_frame, to_transaction_info
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    ConnectionId,
    LocalTransactionId,
    MessageId,
    ProducerId,
    TransactionId,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.store.kahadb.records import (
    ARRIVALS,
    AUDIT,
    RecordFormat,
    add_record,
    destination_field,
    is_pyjms_update,
    kaha_destination,
    message_metadata,
    parse_trace,
    plain_trace,
    remove_record,
    trace_record,
    transaction_field,
    transaction_record,
)

PRODUCER = ProducerId("ID:é", 1, 1)
TRANSACTIONS = [
    None,
    LocalTransactionId(3, ConnectionId("ID:" + "c" * 200)),
    XATransactionId(-7, b"g", b"b"),
]


def message(**fields: Any) -> ActiveMQTextMessage:
    return ActiveMQTextMessage(
        producer_id=PRODUCER,
        destination=Queue("Q"),
        message_id=MessageId(None, PRODUCER, 5, 77),
        **fields,
    )


@pytest.mark.parametrize("transaction", TRANSACTIONS)
@pytest.mark.parametrize("size", [0, 1, 127, 128, 20_000])
def test_adds_and_removes_are_what_the_codec_writes(transaction: Any, size: int) -> None:
    destination = KahaDestination(1, "Tö" * 40)
    info = None if transaction is None else to_transaction_info(transaction)
    part = b"" if info is None else transaction_field(transaction)
    frame, parts = bytes(size), (bytes(min(size, 5)), bytes(max(size - 5, 0)))
    for prioritized in (True, False):
        add = KahaAddMessageCommand(destination, "ID:é:1", frame, 7, prioritized, info)
        ours = add_record(destination_field(destination), "ID:é:1", parts, 7, prioritized, part)
        assert ours == encode_command(add)
    for key, ack in ((None, None), ("c:s", b""), (None, frame), ("c:s", frame)):
        remove = KahaRemoveMessageCommand(destination, "ID:é:1", ack, key, info)
        ours = remove_record(destination_field(destination), "ID:é:1", key, part, ack)
        assert ours == encode_command(remove)


@pytest.mark.parametrize("version", [10, 11, 12])
def test_the_parts_of_a_frame_are_the_frame(version: int) -> None:
    producer = ProducerId("c", 1, 1)
    message_id = MessageId(None, producer, 1, 2)
    message = ActiveMQTextMessage(producer, Queue("Q"), message_id=message_id, content=b"abc")
    record_format = RecordFormat(version)
    whole = record_format.message_frame(copy.copy(message))
    for _ in range(2):  # without and with the message's marshalled form
        assert b"".join(record_format.frame_parts(message)) == whole


@pytest.mark.parametrize("transaction", TRANSACTIONS[1:])
def test_ends_of_transactions_are_what_the_codec_writes(transaction: TransactionId) -> None:
    info = to_transaction_info(transaction)
    assert transaction_record(KahaPrepareCommand, transaction) == encode_command(
        KahaPrepareCommand(info)
    )
    assert transaction_record(KahaCommitCommand, transaction) == encode_command(
        KahaCommitCommand(info)
    )
    assert transaction_record(KahaRollbackCommand, transaction) == encode_command(
        KahaRollbackCommand(info)
    )


def test_a_transaction_without_connection_is_refused() -> None:
    with pytest.raises(LocalProtocolError, match="no connection id"):
        transaction_record(KahaCommitCommand, LocalTransactionId(3, None))


def test_priorities_out_of_range_do_not_break_a_record() -> None:
    for priority in (-1, 300):
        record = add_record(
            destination_field(KahaDestination(0, "Q")), "ID:1", (b"", b"m"), priority, True
        )
        command = decode_command(record)
        assert isinstance(command, KahaAddMessageCommand)
        assert 0 <= (command.priority or 0) <= 127


def test_the_facts_of_a_message() -> None:
    properties = encode_map({"_AMQ_DUPL_ID": 5})
    sent = message(priority=7, content=b"12345", marshalled_properties=properties)
    metadata = message_metadata(sent, "ID:x", prioritized=True)
    assert metadata[:4] == ("ID:x", 2, 1024 + 5 + len(properties), "5")
    assert metadata[4:] == (str(PRODUCER), 5, 77, ("ID:x", -1))
    metadata = message_metadata(message(priority=7), "ID:x", prioritized=False, size=9)
    assert metadata[1:4] == (0, 9, None)
    mentioned = message(marshalled_properties=encode_map({"other": "_AMQ_DUPL_ID"}))
    assert message_metadata(mentioned, "ID:x", prioritized=False).duplicate_id is None


def test_our_updates_are_distinguished_from_others() -> None:
    destination = KahaDestination(0, "Q")
    ours = RecordFormat(11).update(destination, message(priority=3), True)
    command = decode_command(ours)
    assert isinstance(command, KahaUpdateMessageCommand)
    assert (command.message.priority, command.message.priority_supported) == (3, True)
    assert is_pyjms_update(ours)
    assert not is_pyjms_update(encode_command(command))
    assert RecordFormat(11).stored_message(ours).message_id == message().message_id
    remove = remove_record(destination_field(destination), "\x78\x01")
    assert not is_pyjms_update(remove)
    with pytest.raises(RemoteProtocolError, match="Expected a message record"):
        RecordFormat(11).stored_message(remove)


def test_what_the_broker_set_since_is_in_the_frame() -> None:
    sent = message()
    record_format = RecordFormat(11)
    before = record_format.message_frame(sent)
    assert sent.raw is not None
    sent.broker_in_time = 12345
    after = record_format.message_frame(sent)
    assert len(after) == len(before)
    assert record_format.decode(after).broker_in_time == 12345


@pytest.mark.fact("activemq-persistence S5")
@pytest.mark.parametrize("version", [12, 11, 10, 9, 5, 1])
def test_a_store_keeps_the_version_that_its_messages_have(version: int) -> None:
    frame = encode_frame(message(type="t", broker_in_time=5, content=b"x" * 50), version)
    record_format = RecordFormat(11)
    assert record_format.decode(frame).type == "t"
    assert (record_format.version < 11) == (version < 10)  # those from 10 on look the same
    again = record_format.message_frame(record_format.decode(frame))
    assert again == frame


def test_a_frame_of_no_version_is_an_error() -> None:
    with pytest.raises(RemoteProtocolError):
        RecordFormat(11).decode(b"\0\0\0\2\x17\0")


def test_acknowledgements_of_prepared_transactions_are_whole() -> None:
    xid = XATransactionId(7, b"g", b"b")
    ack = decode_ack(RecordFormat(11).prepared_ack(Queue("Q"), message(), xid))
    assert ack is not None
    assert (ack.destination, ack.transaction_id, ack.message_count) == (Queue("Q"), xid, 1)
    assert ack.first_message_id == ack.last_message_id == message().message_id


def test_remarks_come_back() -> None:
    value = {"0:Q": [1795276291654, 8], "1:é": [3, 1]}
    command = decode_command(trace_record(ARRIVALS, value))
    assert isinstance(command, KahaTraceCommand)
    assert parse_trace(command.message) == (ARRIVALS, value)
    assert kaha_destination("1:a:b") == KahaDestination(1, "a:b")
    loaded = decode_command(plain_trace("LOADED now"))
    assert isinstance(loaded, KahaTraceCommand)
    assert parse_trace(loaded.message) is None


@pytest.mark.parametrize(
    "text", ["pyjms:", "pyjms:newer {}", "pyjms:arrivals", f"pyjms:{AUDIT} [", "pyjms:audit 5"]
)
def test_remarks_that_are_not_understood_are_passed_over(text: str) -> None:
    assert parse_trace(text) is None
