"""`pyjms broker journal`: inspect, verify, rebuild, audit, on stores of the KahaDB adapter."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaAddScheduledJobCommand
from pyjms.wire.kahadb.journal import BATCH_CONTROL_SIZE, segment_name
from pyjms.wire.kahadb.segments import JournalFiles, SegmentReader
from pyjms_broker.store.files import SharedFileLock
from tests.kit.stores.batches import encode_batch
from tests.kit.stores.folders import Folder, Store

Run = Callable[..., Any]


def batches(segment: Path) -> list[tuple[int, int]]:
    reader = SegmentReader(segment.read_bytes(), 1)
    return [(batch.location.offset, batch.end) for batch in reader.batches()]


def flip(segment: Path, offset: int) -> None:
    data = bytearray(segment.read_bytes())
    data[offset] ^= 0xFF
    segment.write_bytes(data)


def append(folder: Path, payload: bytes) -> str:
    """Append a batch with this record to the journal; return the record's place."""
    files = JournalFiles(folder)
    for _ in files.records():
        pass
    assert files.end is not None
    path = folder / segment_name(files.end.file_id)
    data, offset = path.read_bytes()[: files.end.offset], files.end.offset
    path.write_bytes(data + encode_batch([payload]).data)
    return f"{path.name}:{offset + BATCH_CONTROL_SIZE}"


def change_index(folder: Path, statement: str) -> None:
    connection = sqlite3.connect(folder / "pyjms-index.db")
    with connection:
        assert connection.execute(statement).rowcount > 0
    connection.close()


# -- inspect


def test_inspect_counts_by_segment_record_and_destination(
    filled: Folder, pyjms_broker: Run
) -> None:
    before = filled.contents()
    result = pyjms_broker("journal", "inspect", filled.path.parent)
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if line]
    assert result.stdout.startswith(f"{filled.path}: 4 segments, ")
    assert [row[0] for row in rows if row[0].startswith("db-")] == [
        f"db-{n}.log" for n in (1, 2, 3, 4)
    ]
    assert ["add", "36"] in [row[:2] for row in rows]
    assert ["acknowledge", "2"] in [row[:2] for row in rows]
    assert ["queue://orders.new", "32", "26"] in [row[:3] for row in rows]
    assert ["topic://news", "3", "2"] in [row[:3] for row in rows]
    assert "body of" not in result.stdout
    assert filled.contents() == before


def test_inspect_shows_records_of_one_destination(filled: Folder, pyjms_broker: Run) -> None:
    arguments = ("--records", "--destination", "orders.>", "--limit", "3")
    result = pyjms_broker("journal", "inspect", filled.path, *arguments)
    assert result.exit_code == 0, result.output
    records = [line for line in result.stdout.splitlines() if line[:1].isdigit()]
    assert len(records) == 3
    assert all("queue://orders.new" in line and " add " in line for line in records)
    assert "ID:host-1-2:3:1:10" in records[0]
    assert "(stopped at the limit)" in result.stdout
    assert "body of" not in result.stdout
    place = records[1].split()[0]
    arguments = ("--records", "--destination", "queue://orders.new", "--from", place)
    later = pyjms_broker("journal", "inspect", filled.path, *arguments, "--limit", "2")
    assert [line for line in later.stdout.splitlines() if line[:1].isdigit()] == records[1:]


def test_inspect_describes_records_that_are_not_messages(filled: Folder, pyjms_broker: Run) -> None:
    result = pyjms_broker("journal", "inspect", filled.path, "--records")
    for part in (
        "subscription=c:one  selector='a = 1'",
        "acknowledge ",
        "prepare ",
        "tx=XID:[7,globalId=676c6f62616c,branchId=6272616e6368]",
        "'LOADED ",
        "BytesMessage of 8 bytes  expires=4000000000000  group=g",
    ):
        assert part in result.stdout


def test_inspect_lists_damaged_parts(filled: Folder, pyjms_broker: Run) -> None:
    segment = filled.path / "db-2.log"
    start, end = batches(segment)[3]
    flip(segment, end - 1)
    result = pyjms_broker("journal", "inspect", filled.path)
    assert result.exit_code == 0
    assert f"damaged: db-2.log:{start}, {end - start} bytes (checksum)" in result.stdout


# -- verify


def test_verify_reports_no_problems_in_an_intact_store_and_changes_nothing(
    filled: Folder, pyjms_broker: Run
) -> None:
    before = filled.contents()
    result = pyjms_broker("journal", "verify", filled.path)
    assert result.exit_code == 0, result.output
    assert result.stdout.endswith("79 records, 10 messages; no problems\n")
    assert filled.contents() == before


def test_verify_reports_no_problems_after_further_starts(filled: Folder, pyjms_broker: Run) -> None:
    async def visit(store: Store) -> None:
        sent = await store.send(Queue("orders.new"), *range(100, 130))
        await store.remove(Queue("orders.new"), *sent[:20])
        await store.adapter.checkpoint()

    filled.open(visit)
    result = pyjms_broker("journal", "verify", filled.path)
    assert result.exit_code == 0, result.output


@pytest.mark.fact("activemq-edges 11.7")
def test_verify_reports_a_batch_with_a_wrong_checksum(filled: Folder, pyjms_broker: Run) -> None:
    segment = filled.path / "db-1.log"
    start, end = batches(segment)[5]
    flip(segment, end - 1)
    result = pyjms_broker("journal", "verify", filled.path)
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert (
        lines[0] == f"db-1.log:{start}: the batch's checksum is wrong: {end - start} bytes are lost"
    )
    assert "no problems" not in result.stdout


def test_verify_reports_a_record_that_cannot_be_decoded(filled: Folder, pyjms_broker: Run) -> None:
    place = append(filled.path, b"\x63nonsense")
    result = pyjms_broker("journal", "verify", filled.path)
    assert result.exit_code == 1
    assert f"{place}: the record cannot be decoded: Unknown command 99" in result.stdout


def test_verify_reports_a_torn_end(filled: Folder, pyjms_broker: Run) -> None:
    segment = filled.path / "db-4.log"
    start, end = batches(segment)[-1]
    segment.write_bytes(segment.read_bytes()[: end - 3])
    result = pyjms_broker("journal", "verify", filled.path)
    assert result.exit_code == 1
    assert f"db-4.log:{start}: " in result.stdout
    assert "the end of the journal, which the next start cuts here" in result.stdout


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        (
            "DELETE FROM messages WHERE arrival = (SELECT max(arrival) FROM messages)",
            "messages are in the journal, but not in the index",
        ),
        ("UPDATE messages SET offset = offset + 1", "at other locations than the index has"),
        (
            "UPDATE subscriptions SET key = 'c:three' WHERE key = 'c:one'",
            "c:one is not in the index",
        ),
        ("UPDATE destinations SET count = count + 1", "message ids instead of"),
        ("UPDATE state SET digest = digest + 1", "not of this journal"),
        ("PRAGMA user_version = 77", "belongs to another program or version"),
    ],
)
def test_verify_compares_the_index_with_the_journal(
    statement: str, sentence: str, filled: Folder, pyjms_broker: Run
) -> None:
    if statement.startswith("PRAGMA"):
        connection = sqlite3.connect(filled.path / "pyjms-index.db")
        connection.execute(statement)
        connection.close()
    else:
        change_index(filled.path, statement)
    result = pyjms_broker("journal", "verify", filled.path)
    assert result.exit_code == 1, result.output
    assert sentence in result.stdout
    assert "pyjms-index.db: " in result.stdout
    assert pyjms_broker("journal", "rebuild", filled.path).exit_code == 0
    assert pyjms_broker("journal", "verify", filled.path).exit_code == 0


def test_verify_reports_a_missing_segment(filled: Folder, pyjms_broker: Run) -> None:
    (filled.path / "db-1.log").unlink()
    result = pyjms_broker("journal", "verify", filled.path)
    assert result.exit_code == 1
    assert "3 messages are in db-1.log, which is missing" in result.stdout


def test_verify_without_an_index(filled: Folder, pyjms_broker: Run) -> None:
    (filled.path / "db.data").write_bytes(b"ActiveMQ's")
    result = pyjms_broker("journal", "verify", filled.path)
    assert (result.exit_code, "note: ActiveMQ has used this store" in result.stdout) == (0, True)
    for path in (filled.path / "db.data", *filled.index_files()):
        path.unlink()
    result = pyjms_broker("journal", "verify", filled.path)
    assert (result.exit_code, "note: There is no index" in result.stdout) == (0, True)


# -- rebuild


def test_rebuild_recreates_a_lost_index(filled: Folder, pyjms_broker: Run) -> None:
    for path in filled.index_files():
        path.unlink()
    result = pyjms_broker("journal", "rebuild", filled.path.parent)
    assert result.exit_code == 0, result.output
    assert "10 messages in 3 destinations, 1 prepared transaction" in result.stdout
    assert filled.index_files()

    async def look(store: Store) -> tuple[bool, int]:
        return store.adapter.rebuilt, store.of(Queue("orders.new")).message_count

    assert filled.open(look) == (False, 6)


def test_rebuild_of_a_damaged_journal_fails_with_the_segment(
    filled: Folder, pyjms_broker: Run
) -> None:
    segment = filled.path / "db-1.log"
    flip(segment, batches(segment)[5][1] - 1)
    result = pyjms_broker("journal", "rebuild", filled.path)
    assert result.exit_code == 1
    assert "Detected missing/corrupt journal files: db-1.log" in result.stderr
    assert "Traceback" not in result.output
    lock = SharedFileLock(filled.path / "lock")
    assert lock.try_acquire()
    lock.release()


# -- audit


def test_audit_shows_what_keeps_each_segment(filled: Folder, pyjms_broker: Run) -> None:
    before = filled.contents()
    result = pyjms_broker("journal", "audit", filled.path)
    assert result.exit_code == 0, result.output
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line}
    assert "1 can be removed by the next cleanup" in result.stdout
    assert lines["db-1.log"].endswith(
        "2 messages of queue://orders.new; 1 message of queue://ActiveMQ.DLQ"
    )
    assert lines["db-2.log"].endswith("nothing")
    assert "3 messages of topic://news" in lines["db-3.log"]
    assert "durable subscription news/c:one, news/c:two" in lines["db-3.log"]
    assert "acknowledgements or transaction outcomes for 1" in lines["db-3.log"]
    assert "an open or prepared transaction; being written" in lines["db-4.log"]
    assert lines["topic://news"].endswith("c:one (2), c:two (2)")
    assert lines["queue://ActiveMQ.DLQ"].split()[1:5] == ["1", "1", "2", "segments"]
    assert "XID:[7,globalId=676c6f62616c,branchId=6272616e6368]  prepared" in result.stdout
    assert filled.contents() == before


def test_audit_agrees_with_the_cleanup(filled: Folder, pyjms_broker: Run) -> None:
    said = pyjms_broker("journal", "audit", filled.path).stdout
    free = {line.split()[0] for line in said.splitlines() if line.endswith("  nothing")}

    async def clean_up(store: Store) -> None:
        await store.adapter.checkpoint()

    before = set(filled.contents())
    filled.open(clean_up)
    gone = {name for name in before - set(filled.contents()) if name.endswith(".log")}
    assert gone == free == {"db-2.log"}


@pytest.mark.parametrize("index", ["ours", "none", "ActiveMQ's"])
def test_audit_needs_no_index(index: str, filled: Folder, pyjms_broker: Run) -> None:
    expected = pyjms_broker("journal", "audit", filled.path).stdout
    if index == "none":
        for path in filled.index_files():
            path.unlink()
    elif index == "ActiveMQ's":
        (filled.path / "db.data").write_bytes(b"newer than ours")
        change_index(filled.path, "DELETE FROM messages")
    assert pyjms_broker("journal", "audit", filled.path).stdout == expected


# -- a running broker's folder, and bad input


def test_a_running_brokers_journal_is_read_but_not_rebuilt(
    filled: Folder, pyjms_broker: Run
) -> None:
    async def look(store: Store) -> list[Any]:
        await store.adapter.checkpoint()
        await store.send(Queue("orders.new"), 200)
        return [
            pyjms_broker("journal", verb, filled.path)
            for verb in ("inspect", "verify", "audit", "rebuild")
        ]

    *readers, rebuild = filled.open(look)
    for result in readers:
        assert result.exit_code == 0, result.output
    assert "11 messages; no problems" in readers[1].stdout
    assert rebuild.exit_code == 2
    assert f"{filled.path} is locked by a running broker" in rebuild.stderr


@pytest.mark.parametrize("verb", ["inspect", "verify", "rebuild", "audit"])
def test_a_directory_without_a_journal_is_refused_in_one_line(
    verb: str, tmp_path: Path, pyjms_broker: Run
) -> None:
    (tmp_path / "empty").mkdir()
    for path, sentence in (
        (tmp_path / "missing", "does not exist"),
        (tmp_path / "empty", "There is no journal in"),
    ):
        result = pyjms_broker("journal", verb, path)
        assert result.exit_code == 2, result.output
        assert sentence in result.stderr
        assert len(result.stderr.strip().splitlines()) == 1
    assert list((tmp_path / "empty").iterdir()) == []


def test_several_journals_in_a_directory_are_refused(tmp_path: Path, pyjms_broker: Run) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "db-1.log").write_bytes(encode_batch([b"x"]).data)
    result = pyjms_broker("journal", "inspect", tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path / 'a'}, {tmp_path / 'b'}" in result.stderr


def test_a_job_schedulers_journal_is_inspected_but_not_rebuilt(
    tmp_path: Path, pyjms_broker: Run
) -> None:
    job = KahaAddScheduledJobCommand("JMS", "ID:1", 5, "", 1, 2, 3, b"", 6)
    folder = tmp_path / "scheduler"
    folder.mkdir()
    (folder / "db-1.log").write_bytes(encode_batch([encode_command(job)]).data)
    result = pyjms_broker("journal", "inspect", folder, "--records")
    assert "add-job" in result.stdout
    assert "job_id=ID:1" in result.stdout
    for verb in ("rebuild", "audit"):
        result = pyjms_broker("journal", verb, folder)
        assert result.exit_code == 2
        assert "job scheduler's" in result.stderr
    assert [path.name for path in folder.iterdir()] == ["db-1.log"]


@pytest.mark.parametrize("place", ["x", "1:y", ":", "-1:0"])
def test_an_invalid_location_is_refused(place: str, filled: Folder, pyjms_broker: Run) -> None:
    result = pyjms_broker("journal", "inspect", filled.path, f"--from={place}")
    assert result.exit_code == 2
    assert "as in 3:1024" in result.stderr


def test_the_index_directory_can_be_given(
    filled: Folder, tmp_path: Path, pyjms_broker: Run
) -> None:
    elsewhere = tmp_path / "index"
    option = f"--index-directory={elsewhere}"
    assert pyjms_broker("journal", "rebuild", filled.path, option).exit_code == 0
    assert (elsewhere / "pyjms-index.db").exists()
    for path in filled.index_files():
        path.unlink()
    assert "There is no index" in pyjms_broker("journal", "verify", filled.path).stdout
    verified = pyjms_broker("journal", "verify", filled.path, option)
    assert verified.exit_code == 0
    assert "note" not in verified.stdout
    change_index(elsewhere, "UPDATE messages SET offset = offset + 1")
    assert pyjms_broker("journal", "verify", filled.path, option).exit_code == 1
    assert pyjms_broker("journal", "audit", filled.path, option).exit_code == 0
