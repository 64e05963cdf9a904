"""Payloads: exact bytes, and what is refused."""

from __future__ import annotations

import pytest

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.kahadb.codec import (
    decode_command,
    encode_command,
    encode_varint,
    iter_fields,
    read_varint,
)
from pyjms.wire.kahadb.commands import (
    COMMANDS,
    DestinationType,
    KahaAddMessageCommand,
    KahaCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaLocalTransactionId,
    KahaPrepareCommand,
    KahaRemoveMessageCommand,
    KahaRescheduleJobCommand,
    KahaTraceCommand,
    KahaTransactionInfo,
    KahaXATransactionId,
)
from pyjms.wire.kahadb.errors import KahaDBFormatError

QUEUE = KahaDestination(DestinationType.QUEUE, "q")
EXAMPLES = [
    (KahaTraceCommand("é"), "00 04 0a02c3a9"),
    (
        KahaAddMessageCommand(QUEUE, "ID:1", b"\0\1"),
        "01 15 1205 0800 120171 1a0449443a31 22020001 2804 3000",
    ),
    (
        KahaAddMessageCommand(QUEUE, "m", b"", priority=None, priority_supported=None),
        "01 0c 1205 0800 120171 1a016d 2200",
    ),
    (
        KahaRemoveMessageCommand(QUEUE, "m", b"", "c:n"),
        "02 11 1205 0800 120171 1a016d 2200 2a03633a6e",
    ),
    (
        KahaCommitCommand(KahaTransactionInfo(KahaLocalTransactionId("c", 300))),
        "04 0a 0a08 0a06 0a0163 08ac02",
    ),
    (
        KahaPrepareCommand(
            KahaTransactionInfo(xa_transaction_id=KahaXATransactionId(-1, b"b", b"g"))
        ),
        "03 15 0a13 1211 08ffffffffffffffffff01 120162 1a0167",
    ),
    (
        KahaRescheduleJobCommand("JMS", "j", 1, 2, -1),
        "0c 17 0a034a4d53 12016a 1801 2002 28ffffffffffffffffff01",
    ),
]


@pytest.mark.parametrize(("command", "text"), EXAMPLES, ids=lambda v: type(v).__name__)
def test_the_exact_bytes(command: KahaCommand, text: str) -> None:
    payload = bytes.fromhex(text)
    assert encode_command(command).hex() == payload.hex()
    assert decode_command(payload) == command


@pytest.mark.fact("activemq-persistence K7")
def test_the_codes_of_the_commands() -> None:
    names = [
        COMMANDS[code].__name__.removeprefix("Kaha").removesuffix("Command") for code in range(17)
    ]
    assert names == [
        *("Trace", "AddMessage", "RemoveMessage", "Prepare", "Commit", "Rollback"),
        *("RemoveDestination", "Subscription", "ProducerAudit", "AckMessageFileMap"),
        *("UpdateMessage", "AddScheduledJob", "RescheduleJob", "RemoveScheduledJob"),
        *("RemoveScheduledJobs", "DestroyScheduler", "RewrittenDataFile"),
    ]
    assert encode_command(KahaTraceCommand(""))[:2] == b"\0\2"
    with pytest.raises(KahaDBFormatError, match="Unknown command 17"):
        decode_command(b"\x11\0")


def test_the_types_of_destinations() -> None:
    assert {kind.name: kind.value for kind in DestinationType} == {
        "QUEUE": 0, "TOPIC": 1, "TEMP_QUEUE": 2, "TEMP_TOPIC": 3,
    }  # fmt: skip


def test_the_key_of_a_destination() -> None:
    assert KahaDestination(1, "news").key == "1:news"
    assert QUEUE.key == "0:q"


def test_unknown_fields_are_skipped() -> None:
    command = decode_command(
        bytes.fromhex("00 19 0a0161 7803 72026262 0801 4d01020304 410102030405060708")
    )
    assert command == KahaTraceCommand("a")


def test_the_last_of_repeated_fields_counts() -> None:
    assert decode_command(bytes.fromhex("00 06 0a0161 0a0162")) == KahaTraceCommand("b")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "record is empty"),
        ("00", "is truncated"),
        ("00 05 0a0161", "declares 5 bytes of fields, the record has 3"),
        ("00 02 0a0161", "declares 2 bytes of fields, the record has 3"),
        ("00 00", "KahaTraceCommand lacks message"),
        ("01 00", "lacks destination, message, message_id"),
        ("00 02 0aff", "is truncated"),
        ("00 03 0a0561", "5 bytes, 1 are left"),
        ("00 02 0200", "has no number"),
        ("00 02 0b00", "wire type 3"),
        ("00 03 0a01ff", "not valid UTF-8"),
        ("00 0b ffffffffffffffffffffff", "more than ten bytes"),
    ],
)
def test_damage_is_named(text: str, why: str) -> None:
    with pytest.raises(KahaDBFormatError, match=why) as caught:
        decode_command(bytes.fromhex(text))
    assert isinstance(caught.value, RemoteProtocolError)
    assert caught.value.position is not None


def broken(**values: object) -> KahaAddMessageCommand:
    command = KahaAddMessageCommand(QUEUE, "m", b"")
    for name, value in values.items():
        setattr(command, name, value)
    return command


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"message": None}, "KahaAddMessageCommand.message is missing"),
        ({"message": "text"}, "message cannot be encoded"),
        ({"message_id": 5}, "message_id cannot be encoded"),
        ({"message_id": "\ud800"}, "message_id cannot be encoded"),
        ({"priority": "high"}, "priority cannot be encoded"),
        ({"priority": 1 << 31}, "priority of 2147483648 is out of range"),
        ({"destination": "q"}, "destination cannot be encoded"),
        ({"destination": KahaDestination(0, None)}, "KahaDestination.name is missing"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_written_is_refused(values: dict[str, object], why: str) -> None:
    with pytest.raises(LocalProtocolError, match=why):
        encode_command(broken(**values))


def test_the_message_is_not_part_of_the_repr() -> None:
    assert "secret" not in repr(KahaAddMessageCommand(QUEUE, "m", b"secret"))


def test_long_and_odd_varints() -> None:
    assert encode_varint(127) == b"\x7f"
    assert encode_varint(128) == b"\x80\x01"
    assert read_varint(b"\x80\x80\x00", 0, 3) == (0, 3)
    with pytest.raises(LocalProtocolError):
        encode_varint(1 << 64)
    assert list(iter_fields(b"\x0a\x01x\x10\x05", 0, 5)) == [(10, 2, 3), (16, 5, 5)]


def test_buffers_are_accepted_as_bytes() -> None:
    command = KahaAddMessageCommand(QUEUE, "m", memoryview(b"abc"))  # type: ignore[arg-type]
    decoded = decode_command(encode_command(command))
    assert isinstance(decoded, KahaAddMessageCommand)
    assert decoded.message == b"abc"


def test_a_destination_too_long_for_the_cache_comes_back() -> None:
    command = KahaRemoveMessageCommand(KahaDestination(0, "n" * 5000), "m")
    assert decode_command(encode_command(command)) == command
