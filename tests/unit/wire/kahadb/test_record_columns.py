"""Records as columns are what their commands say."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pyjms.errors import JMSException
from pyjms.wire.kahadb.codec import decode_command, encode_command
from pyjms.wire.kahadb.commands import (
    KahaAddMessageCommand,
    KahaCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaLocalTransactionId,
    KahaLocation,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaTraceCommand,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
    KahaXATransactionId,
)
from pyjms.wire.kahadb.frames import (
    decode_message,
    encode_message,
    from_kaha_destination,
    from_transaction_info,
)
from pyjms.wire.kahadb.record_columns import OWN_COLUMNS, RecordColumns
from pyjms.wire.openwire.message_columns import COLUMNS, MessageColumns
from tests.kit.properties import examples
from tests.kit.stores.batches import encode_batch
from tests.kit.stores.column_rows import Row, object_row, random_message, rows_of

chances = st.integers(0, 2**32).map(random.Random)
LOCAL = KahaTransactionInfo(KahaLocalTransactionId("c", 1))
XA = KahaTransactionInfo(xa_transaction_id=KahaXATransactionId(1, b"b", b"g"))
BEHIND = KahaTransactionInfo(KahaLocalTransactionId("c" * 200, 1), None, KahaLocation(1, 2))
NEITHER = KahaTransactionInfo()


def random_command(chance: random.Random, version: int) -> KahaCommand:
    where = KahaDestination(
        chance.choice((0, 0, 0, 1, 2, 3, 9)), chance.choice(("q", "é", "x" * 200))
    )
    name = chance.choice(("ID:c:1:1:5", "é", "x" * 140))
    transaction = chance.choice((None, None, LOCAL, XA, BEHIND, NEITHER))
    message = encode_message(random_message(chance), version)
    if chance.random() < 0.1:
        message = message[: chance.randrange(len(message))]
    add = KahaAddMessageCommand(where, name, message, transaction_info=transaction)
    add.priority = chance.choice((None, 4, 9, -1))
    add.priority_supported = chance.choice((None, True, False))
    remove = KahaRemoveMessageCommand(where, name, transaction_info=transaction)
    remove.ack = chance.choice((None, b"", b"\0" * 200))
    remove.subscription_key = chance.choice((None, "c:a", "é"))
    return chance.choice((
        add, add, add, remove, remove, KahaUpdateMessageCommand(add), KahaCommitCommand(LOCAL),
        KahaTraceCommand("LOADED"), KahaRemoveDestinationCommand(where),
    ))  # fmt: skip


def object_row_of(payload: bytes, offset: int, version: int) -> Row:
    """Return the row of a record by way of its command."""
    row: Row = dict.fromkeys((*OWN_COLUMNS, *COLUMNS))
    row |= {"file_id": 7, "offset": offset, "size": len(payload) + 5}
    try:
        command: Any = decode_command(payload)
        found = getattr(getattr(command, "message", None), "destination", None)
        found = found or getattr(command, "destination", None)
        destination = None if found is None else str(from_kaha_destination(found))
        info = getattr(command, "transaction_info", None)
        transaction = None if info is None else str(from_transaction_info(info))
    except JMSException as error:
        return {**row, "error": str(error)}
    name = type(command).__name__.removeprefix("Kaha").removesuffix("Command")
    row |= {"command": name[0].lower() + name[1:], "transaction": transaction}
    row["subscription"] = getattr(command, "subscription_key", None)
    added = command.message if isinstance(command, KahaUpdateMessageCommand) else command
    if isinstance(added, KahaAddMessageCommand):
        try:
            message = decode_message(added.message, version)
            return {**row, **object_row(message, None, message.redelivery_counter)}
        except JMSException:
            row["error"] = "damaged"
    known = {"message_id": getattr(command, "message_id", None), "destination": destination}
    return {**row, **known}


def columns_of(version: int = 12) -> RecordColumns:
    columns = RecordColumns(OWN_COLUMNS, MessageColumns(COLUMNS), version)
    columns.file_id = 7
    return columns


def record_rows(columns: RecordColumns) -> list[Row]:
    messages = rows_of(columns.messages)
    own = columns.take()
    rows = [
        {**message, **{name: values[n] for name, values in own.items()}}
        for n, message in enumerate(messages)
    ]
    for row in rows:
        if row["error"] is not None and row["command"] is not None:
            row["error"] = "damaged"
    return rows


@given(chances, st.sampled_from((12, 12, 11, 9, 3)))
@examples(20)
def test_columns_are_those_of_the_commands(chance: random.Random, version: int) -> None:
    payloads = [encode_command(random_command(chance, version)) for _ in range(10)]
    batch = encode_batch(payloads)
    columns = columns_of(version)
    columns.add_records(bytes(batch.data), -100, [offset - 100 for offset in batch.offsets])
    expected = [
        object_row_of(payload, offset - 100, version)
        for payload, offset in zip(payloads, batch.offsets, strict=True)
    ]
    assert record_rows(columns) == expected


@given(chances)
@examples(30)
def test_damaged_records_are_read_or_refused_alike(chance: random.Random) -> None:
    payload = encode_command(random_command(chance, 12))
    columns = columns_of()
    for _ in range(20):
        damaged = bytearray(payload)
        damaged[chance.randrange(min(len(payload), 150))] = chance.randrange(256)
        columns.add(bytes(damaged), 0, len(damaged), 0)
        assert record_rows(columns) == [object_row_of(bytes(damaged), 0, 12)]
