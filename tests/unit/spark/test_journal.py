"""What `jms-journal` makes of journal files, without Spark."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyjms.client.messages import to_command
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.spark.formats import JournalDataSource
from pyjms.spark.journal import (
    MESSAGES,
    RECORDS,
    MessagesReader,
    PendingMessages,
    RecordFilter,
    RecordsReader,
    Slice,
    read_options,
    read_slice,
    segments,
    slices,
)
from pyjms.spark.rows import MESSAGE_COLUMNS, arrow_schema, message_batch, new_columns
from pyjms.wire.kahadb.commands import (
    DestinationType,
    KahaAddMessageCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaLocalTransactionId,
    KahaPrepareCommand,
    KahaRemoveDestinationCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaTraceCommand,
    KahaTransactionInfo,
    KahaXATransactionId,
)
from pyjms.wire.kahadb.errors import KahaDBFormatError
from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.kahadb.segments import JournalRecord, Skipped
from pyjms.wire.openwire.commands import ActiveMQMessage, MessageId, ProducerId
from tests.kit.stores.segments import WriteSegment

Q = KahaDestination(DestinationType.QUEUE, "q")
T = KahaDestination(DestinationType.TOPIC, "t")
LOCAL = KahaTransactionInfo(KahaLocalTransactionId("c", 1))
XA = KahaTransactionInfo(xa_transaction_id=KahaXATransactionId(1, b"b", b"g"))


def command(number: int, message: Message | None = None, time: int = 0) -> ActiveMQMessage:
    message = message or TextMessage(f"text {number}")
    message.destination = Queue("q")
    message.timestamp = time
    producer = ProducerId("c", 1, 1)
    return to_command(message, MessageId(None, producer, number), producer)


def add(
    number: int, where: Any = Q, transaction: Any = None, time: int = 0
) -> KahaAddMessageCommand:
    frame = encode_message(command(number, time=time))
    return KahaAddMessageCommand(where, f"c:1:1:{number}", frame, transaction_info=transaction)


def remove(
    number: int, where: Any = Q, transaction: Any = None, subscription: Any = None
) -> KahaRemoveMessageCommand:
    return KahaRemoveMessageCommand(where, f"c:1:1:{number}", b"", subscription, transaction)


def subscribe(key: str, info: bytes | None = b"x") -> KahaSubscriptionCommand:
    return KahaSubscriptionCommand(T, key, False, info)


def rows(folder: Path, wanted: RecordFilter | None = None, **options: str) -> list[dict[str, Any]]:
    settings = read_options({"path": str(folder), **options})
    reader = RecordsReader(settings._replace(record_filter=wanted or settings.record_filter))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def row_of(made: ActiveMQMessage, seq: int | None = None, counter: int = 0) -> dict[str, Any]:
    columns = new_columns()
    columns.add_message(made, seq, counter)
    batch = message_batch(columns, arrow_schema(MESSAGE_COLUMNS))
    rows: list[dict[str, Any]] = batch.to_pylist()
    [row] = rows
    return row


def body_of(message: Message) -> tuple[object, ...]:
    row = row_of(command(1, message))
    return row["body_kind"], row["text"], row["bytes"]


def pending(folder: Path) -> list[tuple[str, str | None]]:
    found = PendingMessages()
    everything: list[JournalRecord] = []
    for segment in segments([str(folder)]):
        everything += read_slice(Slice(segment.path, segment.file_id, 0, segment.size))
    found.feed(everything)
    names = {}
    for record in everything:
        command = record.command()
        if isinstance(command, KahaAddMessageCommand):
            names[record.location] = command.message_id
    return sorted((names[p.location].rsplit(":", 1)[1], p.subscription) for p in found)


def test_a_record_is_a_row_with_its_message(write_segment: WriteSegment) -> None:
    folder = write_segment(3, [[KahaTraceCommand("LOADED"), add(1, time=1700), remove(1)]])
    trace, added, removed = rows(folder)
    assert (trace["command"], trace["destination"], trace["text"]) == ("trace", None, None)
    assert added["command"] == "addMessage"
    assert added["file_id"] == 3
    assert added["destination"] == "queue://q"
    assert added["message_id"] == "c:1:1:1"
    assert added["timestamp"] == datetime.fromtimestamp(1.7, UTC)
    assert (added["body_kind"], added["text"], added["bytes"]) == ("text", "text 1", None)
    assert removed["command"] == "removeMessage"
    assert (removed["message_id"], removed["text"]) == ("c:1:1:1", None)
    assert added["offset"] < removed["offset"]
    assert removed["offset"] - added["offset"] == added["size"]


@pytest.mark.parametrize(("size", "count"), [(1, 14), (100, 140), (333, 140), (5000, 140)])
def test_slices_share_the_records_out_once_each(
    write_segment: WriteSegment, size: int, count: int
) -> None:
    folder = write_segment(1, [[add(n) for n in range(b, b + 7)] for b in range(0, count, 7)])
    whole = [row["message_id"] for row in rows(folder)]
    assert len(whole) == count
    parts = slices(segments([str(folder)]), size)
    seen = [record.location for part in parts for record in read_slice(part)]
    assert len(seen) == len(set(seen)) == count


def test_what_is_torn_is_passed_over_and_noted(write_segment: WriteSegment) -> None:
    folder = write_segment(1, [[add(1)], [add(2)]])
    path = folder / "db-1.log"
    path.write_bytes(path.read_bytes()[:-40])
    skipped: list[Skipped] = []
    [part] = slices(segments([str(folder)]), 1 << 20)
    assert len(list(read_slice(part, skipped))) == 1
    assert skipped[0].reason == "torn"


def flip_in(path: Path, text: bytes) -> None:
    data = path.read_bytes()
    assert data.count(text) == 1
    path.write_bytes(data.replace(text, bytes([text[0] ^ 1]) + text[1:]))


def test_records_of_a_batch_with_a_flipped_byte_are_passed_over_and_noted(
    write_segment: WriteSegment,
) -> None:
    folder = write_segment(1, [[add(1), add(2)], [add(3)]])
    flip_in(folder / "db-1.log", b"text 2")
    assert [row["text"] for row in rows(folder)] == ["text 3"]
    skipped: list[Skipped] = []
    [part] = slices(segments([str(folder)]), 1 << 20)
    assert len(list(read_slice(part, skipped))) == 1
    assert [each.reason for each in skipped] == ["checksum"]


def test_a_pending_message_whose_batch_is_damaged_by_then_is_refused(
    write_segment: WriteSegment,
) -> None:
    folder = write_segment(1, [[add(1)], [add(2)]])
    reader = MessagesReader(read_options({"path": str(folder), "view": "messages"}))
    [partition] = reader.partitions()
    assert sum(batch.num_rows for batch in reader.read(partition)) == 2
    flip_in(folder / "db-1.log", b"text 2")
    with pytest.raises(KahaDBFormatError, match=r"^The batch of the record at .* is damaged$"):
        list(reader.read(partition))


def test_a_damaged_message_is_a_row_that_says_so(write_segment: WriteSegment) -> None:
    broken = add(1)
    broken.message = broken.message[:20]
    [row] = rows(write_segment(1, [[broken]]))
    assert row["error"]
    assert (row["message_id"], row["destination"]) == ("c:1:1:1", "queue://q")


def test_data_folders_and_archives_are_found(write_segment: WriteSegment, tmp_path: Path) -> None:
    write_segment(1, [[add(1)]])
    write_segment(2, [[add(2)]])
    home = tmp_path / "kahadb"
    (home / "data-archive").mkdir(parents=True)
    shutil.move(tmp_path / "db-1.log", home / "data-archive" / "db-1.log")
    shutil.copy(tmp_path / "db-2.log", home / "data-archive" / "db-2.log")
    shutil.move(tmp_path / "db-2.log", home / "db-2.log")
    found = segments([str(tmp_path)])
    assert [s.file_id for s in found] == [1, 2]
    assert Path(found[1].path) == home / "db-2.log"


def test_no_journal_is_an_error_that_names_the_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationException, match=r"contains no db-N\.log"):
        segments([str(tmp_path)])
    with pytest.raises(ConfigurationException, match="is not a folder"):
        segments([str(tmp_path / "nowhere")])


def test_options_say_what_is_wanted(write_segment: WriteSegment) -> None:
    other = KahaDestination(DestinationType.QUEUE, "other")
    batch = [add(1, time=1000), add(2, time=2000), add(3, other, time=2000), remove(1)]
    folder = str(write_segment(1, [batch]))

    def read(kind: Any, **options: str) -> list[str]:
        reader = kind(read_options({"path": folder, **options}))
        found = [part for share in reader.partitions() for part in reader.read(share)]
        return [name[-1] for part in found for name in part.column("message_id").to_pylist()]

    def ids(**options: str) -> list[str]:
        return read(RecordsReader, **options)

    assert ids(command="removeMessage") == ["1"]
    assert ids(destination="other") == ids(destination="queue://other, topic://x") == ["3"]
    assert ids(command="addMessage,removeMessage", destination="q") == ["1", "2", "1"]
    assert ids(since="1970-01-01T00:00:02Z") == ["2", "3"]
    assert ids(until="1970-01-01T00:00:01") == ["1"]
    assert read(MessagesReader, view="messages") == ["2", "3"]
    assert read(MessagesReader, view="messages", destination="other") == []  # by their own names
    assert read(MessagesReader, view="messages", since="1970-01-01T00:00:03Z") == []
    assert read_options({"path": folder, "storeOpenWireVersion": "9"}).version == 9
    assert ids(startingTimestamp="2000") == ids(startingTimestamp="1970-01-01T00:00:02Z")
    assert ids(startingTimestamp="1000", endingTimestamp="2000") == ["1"]
    with pytest.raises(ConfigurationException, match="option since is not a time"):
        ids(since="noon")
    with pytest.raises(ConfigurationException, match="since and startingTimestamp exclude each"):
        ids(since="1970-01-01", startingTimestamp="1")
    with pytest.raises(ConfigurationException, match="unknown option destinations") as caught:
        ids(destinations="q")
    assert caught.value.hint == "did you mean destination?"


def test_only_chosen_columns_are_read(write_segment: WriteSegment) -> None:
    broken = add(2)
    broken.message = broken.message[:20]
    folder = write_segment(1, [[add(1, time=2000), remove(1), broken]])
    every = rows(folder)
    for chosen in (
        "text",
        "message_id,timestamp,text",
        "offset, command",
        "error",
        "properties,seq",
    ):
        names = [name.strip() for name in chosen.split(",")]
        expected = [{name: row[name] for name in names} for row in every]
        assert rows(folder, columns=chosen) == expected, chosen
    assert [row["text"] for row in rows(folder, columns="text", since="1970-01-01T00:00:02Z")] == [
        "text 1",
        None,
    ], "a filter reads what it needs; what cannot be read has no time"
    assert rows(folder, columns="size", destination="other") == []


def test_records_start_and_end_at_locations(write_segment: WriteSegment) -> None:
    for file in (1, 2, 3):
        folder = write_segment(file, [[remove(10 * file), remove(10 * file + 1)], [remove(0)]])
    every = [(row["file_id"], row["offset"]) for row in rows(folder)]
    assert len(every) == 9

    def located(**options: str) -> list[tuple[int, int]]:
        found = rows(folder, None, partitionBytes="100", **options)
        return [(row["file_id"], row["offset"]) for row in found]

    for number, (file, offset) in enumerate(every):
        place = f"{file}:{offset}"
        assert located(startingOffset=place) == every[number:]
        assert located(endingOffset=place) == every[:number]
    assert located(startingOffset="2:0", endingOffset="3:0") == every[3:6]
    assert located(startingOffset="4:0") == []


def test_an_option_without_effect_is_refused() -> None:
    for name in ("startingOffset", "command", "partitionBytes"):
        with pytest.raises(
            ConfigurationException, match=f"option {name} has no effect in view=messages"
        ):
            read_options({"path": "x", "view": "messages", name: "1"})
    with pytest.raises(ConfigurationException, match="startingOffset is not FILE:OFFSET"):
        read_options({"path": "x", "startingOffset": "40"})
    with pytest.raises(ConfigurationException, match=r"view is not one of.*path is missing"):
        read_options({"view": "message"})
    with pytest.raises(ConfigurationException, match="VIEW name USING `jms-journal` OPTIONS"):
        JournalDataSource({"path": "x", "provider": "jms-journal"}).schema()


def test_chosen_columns_are_the_schema() -> None:
    def schema(**options: str) -> str:
        return JournalDataSource({"path": "x", **options}).schema()

    assert schema(columns="text,offset") == "`text` string, `offset` long"
    assert schema(view="messages", columns="subscription") == "`subscription` string"
    assert schema().count(",") == len(RECORDS)  # one is within map<string,string>
    assert schema(view="messages").count(",") == len(MESSAGES)


def test_a_column_that_does_not_exist_is_refused_with_a_suggestion() -> None:
    with pytest.raises(
        ConfigurationException, match="columns names texts, which is not a"
    ) as caught:
        read_options({"path": "x", "columns": "texts"})
    assert caught.value.hint == "did you mean text?"
    with pytest.raises(
        ConfigurationException, match="names offset, which is not a column"
    ) as caught:
        read_options({"path": "x", "view": "messages", "columns": "offset"})


def test_a_task_makes_batches_of_at_most_2000_rows(write_segment: WriteSegment) -> None:
    folder = write_segment(1, [[remove(n) for n in range(3000)], [remove(n) for n in range(1500)]])
    reader = RecordsReader(read_options({"path": str(folder)}))
    [part] = reader.partitions()
    batches = list(reader.read(part))
    assert [batch.num_rows for batch in batches] == [2000, 2000, 500]
    names = [row["message_id"] for batch in batches for row in batch.to_pylist()]
    assert names == [f"c:1:1:{n}" for n in (*range(3000), *range(1500))]


def test_pending_is_added_minus_removed(write_segment: WriteSegment) -> None:
    write_segment(1, [[add(1), add(2), add(3)]])
    assert pending(write_segment(2, [[remove(2), remove(9)]])) == [("1", None), ("3", None)]


def test_transactions_count_from_their_commit(write_segment: WriteSegment) -> None:
    folder = write_segment(1, [[add(1, transaction=LOCAL), add(2), remove(2, transaction=XA)]])
    assert pending(folder) == [("2", None)]
    write_segment(2, [[KahaPrepareCommand(XA), KahaCommitCommand(LOCAL)]])
    assert pending(folder) == [("1", None), ("2", None)]
    write_segment(
        3, [[KahaCommitCommand(XA), add(4, transaction=LOCAL), KahaRollbackCommand(LOCAL)]]
    )
    assert pending(folder) == [("1", None)]


def test_a_topics_message_waits_for_each_subscription(write_segment: WriteSegment) -> None:
    folder = write_segment(
        1, [[add(1, T), subscribe("c:a"), add(2, T), subscribe("c:b"), add(3, T)]]
    )
    assert pending(folder) == [("2", "c:a"), ("3", "c:a"), ("3", "c:b")]
    write_segment(2, [[remove(3, T, subscription="c:a"), remove(2, T, subscription="c:a")]])
    assert pending(folder) == [("3", "c:b")]
    write_segment(3, [[subscribe("c:b", None)]])
    assert pending(folder) == []


def test_a_removed_destination_takes_all_with_it(write_segment: WriteSegment) -> None:
    assert pending(write_segment(1, [[add(1), KahaRemoveDestinationCommand(Q)]])) == []


@pytest.mark.parametrize(
    ("message", "body"),
    [
        (TextMessage("é"), ("text", "é", None)),
        (TextMessage(None), ("text", None, None)),
        (BytesMessage(b"\0\1"), ("bytes", None, b"\0\1")),
        (ObjectMessage(b"\xac\xed"), ("object", None, b"\xac\xed")),
        (
            MapMessage({"a": 1, "b": b"x", "c": None}),
            ("map", '{"a": 1, "b": "eA==", "c": null}', None),
        ),
        (Message(), ("none", None, None)),
    ],
    ids=["text", "no text", "bytes", "object", "map", "none"],
)
def test_bodies(message: Message, body: tuple[object, ...]) -> None:
    assert body_of(message) == body


def test_a_streams_values_are_json() -> None:
    message = StreamMessage()
    message.write_int(1)
    message.write_string("x")
    assert body_of(message) == ("stream", '[1, "x"]', None)


def test_headers_and_properties_are_columns() -> None:
    message = TextMessage("x")
    message.correlation_id, message.group_id, message.group_sequence = "corr", "g", 7
    message.reply_to = Queue("back")
    message.properties.set_boolean("yes", True)
    message.properties.set_int("n", 5)
    row = row_of(command(1, message), 42, 2)
    assert (row["seq"], row["redelivered"], row["delivery_count"]) == (42, True, 3)
    assert (row["correlation_id"], row["reply_to"]) == ("corr", "queue://back")
    assert (row["group_id"], row["group_seq"], row["priority"]) == ("g", 7, 4)
    assert dict(row["properties"]) == {"yes": "true", "n": "5"}
    assert row["expiration"] is None


def test_what_no_column_can_hold_spoils_no_batch() -> None:
    odd, plain = TextMessage("cut \ud83d"), TextMessage("whole \U0001f600")
    odd.properties["k"] = "\udc00"
    commands = [command(1, message) for message in (odd, plain)]
    commands[0].expiration, commands[0].priority = 2**63 - 1, 200
    columns = new_columns()
    for number, each in enumerate(commands):
        columns.add_message(each, number, 0)
    first, second = message_batch(columns, arrow_schema(MESSAGE_COLUMNS)).to_pylist()
    assert (first["text"], first["properties"]) == ("cut \ufffd", [("k", "\ufffd")])
    assert (first["expiration"], first["priority"]) == (None, -56)
    assert second["text"] == plain.text


def test_transactions_whose_texts_are_equal_are_two(write_segment: WriteSegment) -> None:
    one, other = (
        KahaTransactionInfo(xa_transaction_id=KahaXATransactionId(1, b"b", name))
        for name in (b"\x01\x11", b"\x11\x01")
    )
    folder = write_segment(1, [[add(1, transaction=one), add(2, transaction=other)]])
    write_segment(2, [[KahaCommitCommand(other), KahaRollbackCommand(one)]])
    assert pending(folder) == [("2", None)]
