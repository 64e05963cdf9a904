"""Journals that a real ActiveMQ 5.17.2 wrote, read here; and ours, read by it."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.wire.kahadb.codec import decode_command, encode_command
from pyjms.wire.kahadb.commands import (
    COMMANDS,
    DestinationType,
    KahaAckMessageFileMapCommand,
    KahaAddMessageCommand,
    KahaAddScheduledJobCommand,
    KahaDestroySchedulerCommand,
    KahaLocalTransactionId,
    KahaLocation,
    KahaProducerAuditCommand,
    KahaRemoveMessageCommand,
    KahaRollbackCommand,
    KahaSubscriptionCommand,
    KahaTraceCommand,
    KahaTransactionInfo,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.frames import (
    decode_ack,
    decode_message,
    decode_subscription_info,
    encode_frame,
    encode_message,
    from_kaha_destination,
    from_transaction_info,
    to_kaha_destination,
    to_transaction_info,
)
from pyjms.wire.kahadb.journal import END_MARKER, preallocation, segment_name
from pyjms.wire.kahadb.segments import JournalFiles, JournalRecord, SegmentReader
from tests.kit.processes.children import Start
from tests.kit.stores.batches import SegmentCursor, encode_batch

pytestmark = [pytest.mark.activemq, pytest.mark.timeout(180)]

LENGTH = 262144
JAVA_SERIALISED = b"\xac\xed\0\x05"


class Written:
    """What ActiveMQ wrote: its folder after a clean stop, and the records seen while it ran."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.folder = folder
        self.command = command
        self.samples: list[bytes] = []
        self.live: list[JournalRecord] = []
        self.records: list[JournalRecord] = []

    def commands(self, kind: type[Any]) -> list[Any]:
        found = (record.command() for record in self.records)
        return [command for command in found if type(command) is kind]


@pytest.fixture(scope="module")
def written(
    java_program: Callable[[Path], list[str]],
    process: Start,
    tmp_path_factory: pytest.TempPathFactory,
) -> Written:
    program = java_program(Path(__file__).with_name("kahadb_program"))
    folder = tmp_path_factory.mktemp("kahadb")
    found = Written(folder / "data", [*program, "KahaFiles"])
    with process([*found.command, "write", str(found.folder)], folder / "log") as child:
        for line in child.stdout:
            if line.startswith("sample "):
                found.samples.append(bytes.fromhex(line.split()[1]))
            elif line.startswith("WRITTEN"):
                found.live = [*JournalFiles(found.folder / "kahadb").records()]
                child.stdin.write("\n")
                child.stdin.flush()
        assert child.wait(30) == 0, (folder / "log").read_text(encoding="utf-8")
    for part in ("kahadb", "archive", "scheduler"):
        files = JournalFiles(found.folder / part)
        found.records += files.records()
        assert files.skipped == []
    return found


@pytest.mark.fact("activemq-persistence K3", "activemq-persistence K7", "activemq-persistence K8")
@pytest.mark.fact("activemq-persistence K30")
def test_every_record_comes_back_with_the_same_bytes(written: Written) -> None:
    kinds: Counter[int] = Counter()
    for record in written.records:
        command = record.command()
        assert encode_command(command) == record.payload
        kinds[command.CODE] += 1
    # Nothing in 5.17.2 writes the record that destroys a scheduler; see the samples.
    assert set(kinds) == set(COMMANDS) - {KahaDestroySchedulerCommand.CODE}
    # How many there are depends on how long ActiveMQ takes to compact acknowledgements.
    assert kinds[KahaAddMessageCommand.CODE] > 500
    assert kinds[KahaRemoveMessageCommand.CODE] > 400


@pytest.mark.fact("activemq-persistence K29")
def test_activemq_own_classes_encode_alike_what_its_broker_never_writes(written: Written) -> None:
    local = KahaLocalTransactionId("ID:a-1", 300)
    info = KahaTransactionInfo(local_transaction_id=local, previous_entry=KahaLocation(3, 70000))
    ours = [KahaDestroySchedulerCommand("spare"), KahaRollbackCommand(info)]
    assert [decode_command(sample) for sample in written.samples] == ours
    assert [encode_command(command) for command in ours] == written.samples
    assert b"\x0a\x06ID:a-1\x08\xac\x02" in written.samples[1]


@pytest.mark.fact("activemq-persistence K4")
def test_every_batch_comes_back_with_the_same_bytes(written: Written) -> None:
    batches = 0
    for path in sorted(written.folder.glob("*/db-*.log")):
        data = path.read_bytes()
        reader = SegmentReader(data, 1)
        records = {record.location.offset: record.payload for record in reader.records()}
        for batch in SegmentReader(data, 1).batches():
            ours = encode_batch([records[offset] for offset in batch.offsets])
            start = batch.location.offset
            assert ours.data[: ours.size] == data[start : batch.end]
            assert [start + offset for offset in ours.offsets] == [*batch.offsets]
            batches += 1
        # The marker is behind the last batch, unless that filled the file to its end.
        assert data[reader.end : reader.end + 5] in (END_MARKER, b"")
    assert batches > 100


def test_messages_acks_and_subscriptions_are_loose_frames_of_version_11(written: Written) -> None:
    messages = [c.message for c in written.commands(KahaAddMessageCommand)]
    messages += [c.message.message for c in written.commands(KahaUpdateMessageCommand)]
    jobs = [c for c in written.commands(KahaAddScheduledJobCommand) if c.scheduler == "JMS"]
    assert len(jobs) == 4
    messages += [c.payload for c in jobs]
    for frame in messages:
        message = decode_message(frame)
        assert encode_frame(message) == encode_message(message) == frame
    for add in written.commands(KahaAddMessageCommand):
        assert str(decode_message(add.message).message_id) == add.message_id
    acks = [c.ack for c in written.commands(KahaRemoveMessageCommand) if c.ack]
    assert len(acks) > 400
    for frame in acks:
        ack = decode_ack(frame)
        assert ack is not None
        assert encode_frame(ack) == frame


def test_destinations_and_transactions_go_both_ways(written: Written) -> None:
    adds = written.commands(KahaAddMessageCommand)
    for add in adds:
        destination = from_kaha_destination(add.destination)
        assert to_kaha_destination(destination) == add.destination
    infos = {add.transaction_info for add in adds if add.transaction_info is not None}
    for info in infos:
        assert to_transaction_info(from_transaction_info(info)) == info
    formats = {i.xa_transaction_id.format_id for i in infos if i.xa_transaction_id}
    assert formats == {7, -7}
    assert any(i.local_transaction_id for i in infos)


@pytest.mark.fact("activemq-persistence K31")
def test_a_selector_removes_at_once_what_does_not_match_with_an_empty_ack(
    written: Written,
) -> None:
    removes = written.commands(KahaRemoveMessageCommand)
    red = [c for c in removes if c.subscription_key == "reader:red"]
    assert len(red) == 20  # the 40 messages' half that is blue
    assert all(c.ack == b"" and decode_ack(c.ack) is None for c in red)


def test_subscriptions_begin_with_their_info_and_end_without(written: Written) -> None:
    found = written.commands(KahaSubscriptionCommand)
    begun = {c.subscription_key: decode_subscription_info(c.subscription_info)
             for c in found if c.subscription_info is not None}  # fmt: skip
    ended = [c.subscription_key for c in found if c.subscription_info is None]
    assert set(begun) == {"reader:all", "reader:red", "reader:brief"}
    assert begun["reader:red"].selector == "colour = 'red'"
    assert begun["reader:brief"].no_local
    assert ended == ["reader:brief"]
    assert {c.destination.type for c in found} == {DestinationType.TOPIC}


def test_a_running_broker_can_be_read(written: Written) -> None:
    final = {r.location: r.payload for r in JournalFiles(written.folder / "kahadb").records()}
    kept = [record for record in written.live if record.location in final]
    assert len(kept) > 500
    assert all(final[record.location] == record.payload for record in kept)


def test_one_record_is_read_by_its_location(written: Written) -> None:
    files = JournalFiles(written.folder / "kahadb")
    records = list(files.records())
    for record in records[:: len(records) // 20]:
        assert files.read(record.location) == record
    middle = records[len(records) // 2]
    assert list(files.records(middle.location)) == records[len(records) // 2 :]


def state(written: Written, folder: Path, process: Start, log: Path) -> list[str]:
    with process([*written.command, "read", str(folder)], log) as child:
        lines = [line.strip() for line in child.stdout]
        assert child.wait(30) == 0, log.read_text(encoding="utf-8")
    assert lines[-1] == "STOPPED"
    return [line for line in lines if line.startswith(("queue", "subscription", "prepared"))]


def rewrite(source: Path, target: Path) -> None:
    """Rewrite all commands of a journal in batches of three, with trace records between."""
    target.mkdir(parents=True)
    payloads: list[bytes] = []
    for record in JournalFiles(source).records():
        command = record.command()
        if command.CODE in (8, 9, 16):
            continue  # positions and maps of the old files
        payloads += [encode_command(command), encode_command(KahaTraceCommand("pyjms " + "é" * 99))]
    cursor = SegmentCursor(max_file_length=LENGTH)
    for at in range(0, len(payloads), 3):
        batch = encode_batch(payloads[at : at + 3])
        location = cursor.allocate(batch.size)
        path = target / segment_name(location.file_id)
        if not location.offset:
            with path.open("wb") as file:
                file.truncate(LENGTH)
                for offset, mark in preallocation(LENGTH):
                    file.seek(offset)
                    file.write(mark)
        with path.open("r+b") as file:
            file.seek(location.offset)
            file.write(batch.data)


@pytest.mark.fact("activemq-persistence K28", "activemq-persistence K32")
def test_activemq_finds_everything_in_a_journal_that_we_wrote(
    written: Written, process: Start, tmp_path: Path
) -> None:
    audits = written.commands(KahaProducerAuditCommand)
    maps = written.commands(KahaAckMessageFileMapCommand)
    serialised = [c.audit for c in audits] + [c.ack_message_file_map for c in maps]
    assert audits
    assert maps
    assert all(data.startswith(JAVA_SERIALISED) for data in serialised)
    ours = tmp_path / "ours"
    rewrite(written.folder / "kahadb", ours / "kahadb")
    theirs = tmp_path / "theirs"
    shutil.copytree(written.folder / "kahadb", theirs / "kahadb")
    (theirs / "kahadb" / "lock").unlink()
    expected = state(written, theirs, process, tmp_path / "theirs.log")
    assert expected == [
        *("queue kinds 150", "queue large 1", "queue flagged 5", "queue local 61", "queue xa 13"),
        *("queue bulk 0", "subscription all 20", "subscription red 20", "prepared 3"),
    ]
    assert state(written, ours, process, tmp_path / "ours.log") == expected
    found = JournalFiles(ours / "kahadb")
    commands = [record.command() for record in found.records()]
    texts = [c.message for c in commands if isinstance(c, KahaTraceCommand)]
    assert sum(text.startswith("pyjms ") for text in texts) > 500
    assert found.skipped == []


@pytest.mark.fact("activemq-persistence K5")
def test_the_preallocated_rest_is_what_we_would_write(written: Written) -> None:
    files = JournalFiles(written.folder / "scheduler")
    data = (files.folder / segment_name(1)).read_bytes()
    assert len(list(files.records())) > 10
    end = files.end
    assert end is not None
    marked = bytearray(len(data))
    for offset, mark in (*preallocation(len(data)), (end.offset, END_MARKER)):
        marked[offset : offset + len(mark)] = mark
    assert _digest(data[end.offset :]) == _digest(marked[end.offset :])


def _digest(data: bytes | bytearray) -> str:
    return hashlib.sha256(data).hexdigest()
