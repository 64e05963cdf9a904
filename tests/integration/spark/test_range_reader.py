"""The reader of ranges, called as Spark calls it: limits, losses, reconnects, other brokers."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from pyjms.errors import (
    ConfigurationException,
    IllegalStateException,
    JMSException,
    JMSSecurityException,
)
from pyjms.jms.destination import Queue
from pyjms.runtime import clock
from pyjms.spark.connections import close_connections, run_blocking
from pyjms.spark.drain import DRAIN_FILE
from pyjms.spark.options import read_options
from pyjms.spark.range_stream import RangeStreamReader
from pyjms.spark.source import BrowseReader, JmsStreamReader, RangeReader
from pyjms.spark.spool import SpoolStreamReader
from pyjms.sync.portal import call_on_loop, shared_loop
from pyjms_broker.api.context import ConnectionContext
from tests.kit.spark.brokers import SparkBroker
from tests.kit.waiting import until


@pytest.fixture(autouse=True)
def _connections() -> Iterator[None]:
    yield
    run_blocking(close_connections)


@pytest.fixture
def make(broker: SparkBroker) -> Iterator[Callable[..., Any]]:
    """Makes readers of queue IN with these options, which release their messages at the end."""
    made = []

    def reader(kind: Any = RangeStreamReader, **options: Any) -> Any:
        made.append(
            kind(read_options({"url": broker.url, "destination": "IN", **options}, "stream"))
        )
        return made[-1]

    yield reader
    for each in made:
        each.stop()


def rows_between(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> Any:
    return [
        row
        for partition in reader.partitions(start, end)
        for batch in pickle.loads(pickle.dumps(reader_copy(reader))).read(partition)
        for row in batch.to_pylist()
    ]


def reader_copy(reader: Any) -> Any:
    """A reader as executors have it: of the same options, and nothing of the driver's."""
    return type(reader)(reader._options)


def texts_between(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> Any:
    return [row["text"] for row in rows_between(reader, start, end)]


def test_batches_obey_the_limit_and_are_repeated_unchanged(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", [f"m{number}" for number in range(10)])
    reader = make()
    start = reader.initialOffset()
    one = reader.latestOffset(start, ReadMaxRows(4))
    assert one["seq"] - start["seq"] == 4
    first = rows_between(reader, start, one)
    assert [row["text"] for row in first] == ["m0", "m1", "m2", "m3"]
    assert [row["seq"] for row in first] == [start["seq"] + number for number in range(4)]
    assert rows_between(reader, start, one) == first
    assert len(reader.partitions(start, one)) == 2
    rest = reader.latestOffset(one, ReadAllAvailable())
    assert texts_between(reader, one, rest) == ["m4", "m5", "m6", "m7", "m8", "m9"]
    run_blocking(until, lambda: broker.count("IN") == 6)  # removed beside the batch
    assert reader.latestOffset(rest, ReadAllAvailable()) == rest
    assert broker.count("IN") == 0
    assert reader.reportLatestOffset() == {**rest, "backlog": 0}


def test_the_planned_end_is_held_before_and_when_the_batch_is_read(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", list("abcdef"))
    reader = make()
    start = reader.initialOffset()

    def held() -> int:
        queue: Any = broker.service.region_broker.destinations()[Queue("IN")]
        held: int = queue.reader.progress.held
        return held

    end = reader.latestOffset(start, ReadMaxRows(2))
    assert held() == end["seq"]
    later = {**end, "seq": end["seq"] + 3}
    reader.partitions(start, later)  # as after a restart, when only Spark has planned it
    assert held() == later["seq"]


def test_bytes_limit_a_batch_about(broker: SparkBroker, make: Callable[..., Any]) -> None:
    broker.send("IN", ["x" * 4000 for _ in range(10)])
    reader = make()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxBytes(12_000))
    assert 1 <= end["seq"] - start["seq"] <= 3


def test_the_options_limit_a_batch(broker: SparkBroker, make: Callable[..., Any]) -> None:
    broker.send("IN", ["x" * 4000 for _ in range(10)])
    reader = make(maxMessagesPerTrigger="7", maxBytesPerTrigger="12000")
    assert reader.getDefaultReadLimit() == ReadMaxRows(7)
    start = reader.initialOffset()
    assert 1 <= reader.latestOffset(start, ReadMaxRows(7))["seq"] - start["seq"] <= 3


@pytest.mark.parametrize("kind", [RangeReader, BrowseReader, RangeStreamReader])
def test_a_selector_leaves_messages_out(
    broker: SparkBroker, make: Callable[..., Any], kind: Any
) -> None:
    with broker.connected() as connection:
        session = connection.create_session()
        producer = session.create_producer(session.create_queue("IN"))
        for number in range(3):
            message = session.create_text_message(f"m{number}")
            message.properties["n"] = number
            producer.send(message)
    selector = "n <> 1"
    if kind is RangeStreamReader:
        reader = make(selector=selector)
        start = reader.initialOffset()
        found = texts_between(reader, start, reader.latestOffset(start, ReadAllAvailable()))
    else:
        found = [row["text"] for row in rows_of_batch(broker, kind, selector=selector)]
    assert found == ["m0", "m2"]


@pytest.mark.parametrize("how", ["password", "passwordEnv"])
def test_a_login_is_an_option_and_its_password_a_variable(
    broker: SparkBroker, make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    broker.send("IN", ["a"])
    run_blocking(close_connections)
    broker.guard("reader", "secret")
    monkeypatch.setenv("READERS_PASSWORD", "secret")
    reader = make(user="reader", **{how: "secret" if how == "password" else "READERS_PASSWORD"})
    assert reader.initialOffset()["seq"] == 1
    other = make(user="reader", password="wrong", owner="other")
    run_blocking(close_connections)
    with pytest.raises(JMSSecurityException):
        other.initialOffset()
    broker.unguard()


def test_removal_waits_for_the_commit_where_that_is_asked_for(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", ["a", "b"])
    reader = make(ackOn="commit")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert broker.count("IN") == 2
    reader.commit(end)
    reader.commit(end)
    reader.commit(start)
    assert broker.count("IN") == 0


@pytest.mark.parametrize(
    ("where", "expected"), [("earliest", ["a", "b"]), ("latest", []), ("2", ["b"])]
)
def test_where_a_new_query_begins(
    broker: SparkBroker, make: Callable[..., Any], where: str, expected: Any
) -> None:
    broker.send("IN", ["a", "b"])
    reader = make(startingOffset=where)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert texts_between(reader, start, end) == expected


def test_what_is_there_now_is_all_that_available_now_reads(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", ["a", "b", "c"])
    reader = make()
    reader.prepareForTriggerAvailableNow()
    broker.send("IN", ["later"])
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(2))
    assert texts_between(reader, start, end) == ["a", "b"]
    last = reader.latestOffset(end, ReadMaxRows(2))
    assert texts_between(reader, end, last) == ["c"]
    assert reader.latestOffset(last, ReadMaxRows(2)) == last


def test_lost_messages_are_an_error_that_names_both_numbers(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", ["a", "b", "c"])
    reader = make()
    start = reader.initialOffset()
    reader.latestOffset({**start, "seq": start["seq"] + 2}, ReadAllAvailable())
    with pytest.raises(
        IllegalStateException, match=rf"starts with message {start['seq']}, .* {start['seq'] + 2}"
    ):
        reader.latestOffset(start, ReadAllAvailable())
    reader.stop()
    careless = make(failOnDataLoss="false")
    end = careless.latestOffset(start, ReadAllAvailable())
    assert texts_between(careless, start, end) == ["c"]


def test_numbers_that_the_broker_never_gave_are_an_error(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    reader = make()
    start = reader.initialOffset()
    ahead = {**start, "seq": start["seq"] + 100}
    with pytest.raises(IllegalStateException, match="lost some in a crash"):
        reader.latestOffset(ahead, ReadAllAvailable())


def test_a_purged_queue_is_another_one(broker: SparkBroker, make: Callable[..., Any]) -> None:
    broker.send("IN", ["a"])
    reader = make()
    start = reader.initialOffset()
    reader.stop()
    queue: Any = broker.service.region_broker.destinations()[Queue("IN")]
    queue.base.purge(ConnectionContext())
    broker.send("IN", ["b"])
    again = make()
    with pytest.raises(IllegalStateException, match="purged or created again"):
        again.latestOffset(start, ReadAllAvailable())
    again.stop()
    careless = make(failOnDataLoss="false")
    end = careless.latestOffset(start, ReadAllAvailable())
    assert texts_between(careless, start, end) == ["b"]


def test_a_checkpoint_of_another_queue_is_refused(make: Callable[..., Any]) -> None:
    reader = make()
    start = reader.initialOffset()
    with pytest.raises(IllegalStateException, match="another checkpointLocation"):
        reader.latestOffset({**start, "queue": "queue://OTHER"}, ReadAllAvailable())


def test_a_broker_that_starts_again_is_waited_for_and_the_token_stays(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", ["a", "b", "c"])
    reader = make()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    planned = reader.partitions(start, end)
    broker.stop()
    broker.start()
    executor = reader_copy(reader)
    found = [
        row["text"] for p in planned for batch in executor.read(p) for row in batch.to_pylist()
    ]
    assert found == ["a", "b", "c"]
    broker.send("IN", ["d"])
    more = reader.latestOffset(end, ReadAllAvailable())
    while more == end:
        more = reader.latestOffset(end, ReadAllAvailable())
    assert texts_between(reader, end, more) == ["d"]
    assert broker.count("IN") == 1


def test_a_newer_query_of_the_same_owner_takes_over(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", ["a"])
    old = make(owner="q")
    start = old.initialOffset()
    new = make(owner="q")
    assert new.initialOffset() == start
    with pytest.raises(Exception, match="newer lease"):
        old.latestOffset(start, ReadAllAvailable())
    assert texts_between(new, start, new.latestOffset(start, ReadAllAvailable())) == ["a"]


def test_a_draining_source_has_nothing_new(
    broker: SparkBroker, make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.send("IN", ["a"])
    reader = make()
    start = reader.initialOffset()
    flag = tmp_path / "drain"
    monkeypatch.setenv(DRAIN_FILE, str(flag))
    flag.touch()
    assert reader.latestOffset(start, ReadAllAvailable()) == start


def test_topics_have_no_ranges(make: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationException, match="cannot be read by ranges"):
        make(destination="topic://T")


def test_the_reader_is_chosen_once_and_logged_once(
    broker: SparkBroker, make: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker.send("IN", ["a"])
    reader = make(JmsStreamReader)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert texts_between(reader, start, end) == ["a"]
    assert isinstance(reader._reader, RangeStreamReader)
    said = [r for r in caplog.records if "is read by ranges" in r.message]
    assert len(said) == 1


def test_a_query_that_began_with_a_spool_continues_with_it(
    broker: SparkBroker, make: Callable[..., Any], tmp_path: Path
) -> None:
    broker.send("IN", ["a"])
    options = {"mode": "spool", "spool": str(tmp_path / "spool")}
    start = make(JmsStreamReader, **options).initialOffset()
    reader = make(JmsStreamReader, spool=options["spool"])
    end = reader.latestOffset(start, ReadAllAvailable())
    assert isinstance(reader._reader, SpoolStreamReader)
    assert texts_between(reader, start, end) == ["a"]


@pytest.mark.parametrize("ranges", ["unknown", "forbidden"])
def test_a_broker_without_ranges_gets_the_spool(
    broker: SparkBroker, make: Callable[..., Any], tmp_path: Path, ranges: str
) -> None:
    broker.killer.ranges = ranges
    broker.send("IN", ["a"])
    with pytest.raises(ConfigurationException, match="this broker does not serve ranges, so"):
        make(JmsStreamReader).initialOffset()
    reader = make(JmsStreamReader, spool=str(tmp_path / "spool"))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert texts_between(reader, start, end) == ["a"]
    assert isinstance(reader._reader, SpoolStreamReader)


def test_a_broker_that_is_busy_is_not_taken_for_one_without_ranges(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.killer.ranges = "busy"
    broker.send("IN", ["a"])
    reader = make(JmsStreamReader)
    start = reader.initialOffset()
    assert texts_between(reader, start, reader.latestOffset(start, ReadAllAvailable())) == ["a"]
    assert isinstance(reader._reader, RangeStreamReader)


def rows_of_batch(broker: SparkBroker, kind: Any = RangeReader, **options: str) -> list[Any]:
    given = {"url": broker.url, "destination": "IN", **options}
    if kind is RangeReader:
        given["mode"] = "ranges"
    reader = kind(read_options(given, "batch"))
    return [
        row
        for partition in reader.partitions()
        for batch in pickle.loads(pickle.dumps(reader)).read(partition)
        for row in batch.to_pylist()
    ]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, "abcde"),
        ({"startingOffset": "4"}, "de"),
        ({"endingOffset": "3"}, "ab"),
        ({"startingOffset": "2", "endingOffset": "4", "partitions": "7"}, "bc"),
        ({"startingOffset": "latest"}, ""),
        ({"startingOffset": "99"}, ""),
    ],
)
def test_a_batch_by_ranges_has_a_start_and_an_end(
    broker: SparkBroker, options: dict[str, str], expected: str
) -> None:
    broker.send("IN", list("abcde"))
    assert [row["text"] for row in rows_of_batch(broker, **options)] == list(expected)
    assert broker.count("IN") == 5


@pytest.mark.parametrize("kind", [RangeReader, BrowseReader])
def test_a_batch_is_limited_by_the_times_of_its_messages(broker: SparkBroker, kind: Any) -> None:
    broker.send("IN", ["a"])
    between = rows_of_batch(broker)[0]["timestamp"].timestamp() * 1000 + 1
    call_on_loop(shared_loop(), lambda: clock.sleep(0.005))
    broker.send("IN", ["b"])
    at = str(math.ceil(between))
    assert [row["text"] for row in rows_of_batch(broker, kind, startingTimestamp=at)] == ["b"]
    assert [row["text"] for row in rows_of_batch(broker, kind, endingTimestamp=at)] == ["a"]
    later = {"startingTimestamp": "2099-01-01", "endingTimestamp": "2099-01-02T00:00:00Z"}
    assert rows_of_batch(broker, kind, **later) == []


def test_a_stream_begins_at_a_time(broker: SparkBroker, make: Callable[..., Any]) -> None:
    broker.send("IN", ["a", "b"])
    at = math.ceil(rows_of_batch(broker)[-1]["timestamp"].timestamp() * 1000) + 1
    call_on_loop(shared_loop(), lambda: clock.sleep(0.005))
    broker.send("IN", ["c"])
    reader = make(startingTimestamp=str(at))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert texts_between(reader, start, end) == ["c"]
    reader.stop()
    late = make(startingTimestamp="2099-01-01")
    assert late.initialOffset() == end


@pytest.mark.parametrize("kind", [RangeReader, BrowseReader])
def test_several_queues_are_one_frame_with_their_names(broker: SparkBroker, kind: Any) -> None:
    broker.send("A.1", ["a"])
    broker.send("B", ["b"])
    rows = rows_of_batch(broker, kind, destination="queue://A.1,queue://B")
    assert [(row["destination"], row["text"]) for row in rows] == [
        ("queue://A.1", "a"),
        ("queue://B", "b"),
    ]


@pytest.mark.parametrize("kind", [RangeReader, BrowseReader])
def test_a_pattern_is_a_batch_of_all_queues_that_match(broker: SparkBroker, kind: Any) -> None:
    for queue in ("A.1", "A.2", "B"):
        broker.send(queue, [queue])
    rows = rows_of_batch(broker, kind, destination="queue://A.>")
    assert sorted(row["destination"] for row in rows) == ["queue://A.1", "queue://A.2"]


@pytest.mark.parametrize("kind", [RangeStreamReader, RangeReader])
def test_numbers_are_those_of_a_single_queue(broker: SparkBroker, kind: Any) -> None:
    role = "stream" if kind is RangeStreamReader else "batch"
    given = {"url": broker.url, "destination": "A,B", "mode": "ranges", "startingOffset": "3"}
    with pytest.raises(ConfigurationException, match="of a single queue, but the destination is"):
        kind(read_options(given, role))


@pytest.mark.parametrize("kind", [RangeReader, BrowseReader])
def test_a_missing_queue_is_a_warning_or_an_error(
    broker: SparkBroker, kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    broker.send("IN", ["a"])
    rows = rows_of_batch(broker, kind, destination="queue://IN,queue://MISSING")
    assert [row["text"] for row in rows] == ["a"]
    assert "there is no queue MISSING" in caplog.text
    with pytest.raises(ConfigurationException, match="there is no queue GONE, MISSING"):
        rows_of_batch(broker, kind, destination="GONE,IN,MISSING", failOnMissing="true")
    names = {name.physical_name for name in broker.service.region_broker.destinations()}
    assert names.isdisjoint({"MISSING", "GONE"})


def test_a_batch_waits_for_its_least_number_of_messages_or_its_delay(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", ["a"])
    reader = make(minMessagesPerTrigger="3", pollTimeout="10ms")
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(10)) == start
    broker.send("IN", ["b", "c"])
    end = reader.latestOffset(start, ReadMaxRows(10))
    assert texts_between(reader, start, end) == ["a", "b", "c"]
    broker.send("IN", ["d"])
    assert reader.latestOffset(end, ReadMaxRows(10)) == end
    reader.prepareForTriggerAvailableNow()
    last = reader.latestOffset(end, ReadMaxRows(10))
    assert texts_between(reader, end, last) == ["d"]
    reader.stop()
    hurried = make(minMessagesPerTrigger="3", maxTriggerDelay="0s")
    broker.send("IN", ["e"])
    then = hurried.latestOffset(last, ReadMaxRows(10))
    assert texts_between(hurried, last, then) == ["e"]


def test_progress_tells_how_many_wait_and_since_when(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", ["a", "b", "c"])
    reader = make()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadMaxRows(1))
    report = reader.reportLatestOffset()
    assert (report["seq"], report["backlog"]) == (end["seq"] + 2, 2)
    sent = rows_between(reader, end, {**end, "seq": end["seq"] + 1})[0]["timestamp"]
    assert report["oldest"] == sent.isoformat(timespec="milliseconds")


def test_a_failed_removal_is_reported_by_the_next_call(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("IN", ["a", "b"])
    old = make(owner="q")
    start = old.initialOffset()
    end = old.latestOffset(start, ReadMaxRows(1))
    make(owner="q").initialOffset()  # replaces the lease
    with pytest.raises(Exception, match="newer lease"):
        for _ in range(2):
            old.latestOffset(end, ReadMaxRows(1))


@pytest.mark.parametrize("destination", ["queue://A.1,queue://B", "queue://A.>"])
def test_several_queues_are_streamed_through_a_spool(
    broker: SparkBroker, make: Callable[..., Any], tmp_path: Path, destination: str
) -> None:
    for queue in ("A.1", "A.2", "B"):
        broker.send(queue, [queue])
    options = {"mode": "spool", "spool": str(tmp_path / "spool")}
    reader = make(JmsStreamReader, destination=destination, **options)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    found = {row["destination"] for row in rows_between(reader, start, end)}
    assert found == {"queue://A.1", "queue://B" if "," in destination else "queue://A.2"}


def test_a_stream_from_a_topic_needs_a_spool(make: Callable[..., Any]) -> None:
    with pytest.raises(ConfigurationException, match="topic://T is a topic, which has no ranges"):
        make(JmsStreamReader, destination="topic://T", clientId="c", subscription="s")


def test_several_queues_are_streamed_by_ranges_in_shares_of_what_waits(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("A", [f"a{number}" for number in range(6)])
    broker.send("B", ["b0", "b1"])
    reader = make(JmsStreamReader, destination="queue://A,queue://B")
    start = reader.initialOffset()
    assert start == {
        "v": 2,
        "queue": "queue://A,queue://B",
        "queues": {queue: [start["queues"][queue][0], 1] for queue in ("queue://A", "queue://B")},
    }
    one = reader.latestOffset(start, ReadMaxRows(4))
    first = rows_between(reader, start, one)
    assert [(row["destination"], row["text"]) for row in first] == [
        ("queue://A", "a0"),
        ("queue://A", "a1"),
        ("queue://A", "a2"),
        ("queue://B", "b0"),
    ]
    assert reader.reportLatestOffset()["backlog"] == 4
    assert rows_between(reader, start, one) == first
    rest = reader.latestOffset(one, ReadAllAvailable())
    assert texts_between(reader, one, rest) == ["a3", "a4", "a5", "b1"]
    assert reader.latestOffset(rest, ReadAllAvailable()) == rest
    assert (broker.count("A"), broker.count("B")) == (0, 0)
    broker.send("B", ["later"])
    last = reader.latestOffset(rest, ReadAllAvailable())
    assert texts_between(reader, rest, last) == ["later"]
    assert last["queues"]["queue://A"] == rest["queues"]["queue://A"]


def test_a_broker_that_serves_one_queue_per_stream_is_an_error_that_says_so(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.killer.ranges = "of one queue"
    reader = make(destination="queue://A,queue://B")
    start = reader.initialOffset()
    with pytest.raises(JMSException, match=r"the state of 1 of 2 queues .*: update the broker"):
        reader.latestOffset(start, ReadAllAvailable())


def test_queues_that_match_later_are_read_from_their_beginning(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    options = {"destination": "queue://A.>", "startingOffset": "latest", "pollTimeout": "10ms"}
    broker.send("A.old", ["before the stream"])
    reader = make(JmsStreamReader, **options)
    start = reader.initialOffset()
    assert list(start["queues"]) == ["queue://A.old"]
    broker.send("A.new", ["n0", "n1"])
    broker.send("B", ["no match"])
    reader.stop()
    again = make(JmsStreamReader, **options)  # a running one looks every five seconds
    found = again.latestOffset(start, ReadAllAvailable())
    assert list(found["queues"]) == ["queue://A.new", "queue://A.old"]
    assert rows_between(again, start, found) == []
    end = again.latestOffset(found, ReadAllAvailable())
    assert texts_between(again, found, end) == ["n0", "n1"]
    assert broker.count("B") == 1


def test_a_pattern_that_matches_nothing_waits_for_queues(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    reader = make(destination="queue://A.>", pollTimeout="10ms")
    start = reader.initialOffset()
    assert start == {"v": 2, "queue": "queue://A.>", "queues": {}}
    assert reader.latestOffset(start, ReadAllAvailable()) == start
    assert reader.reportLatestOffset() == {**start, "backlog": 0}


def test_available_now_ends_with_what_all_queues_have_now(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    for queue in ("A", "B"):
        broker.send(queue, [f"{queue}{number}" for number in range(2)])
    reader = make(destination="A,B")
    reader.prepareForTriggerAvailableNow()
    broker.send("B", ["later"])
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    assert texts_between(reader, start, end) == ["A0", "A1", "B0", "B1"]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert broker.count("B") == 1


def test_the_leases_of_several_queues_survive_the_broker(
    broker: SparkBroker, make: Callable[..., Any]
) -> None:
    broker.send("A", ["a"])
    broker.send("B", ["b"])
    reader = make(destination="A,B")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ReadAllAvailable())
    planned = reader.partitions(start, end)
    broker.stop()
    broker.start()
    found = [
        row["text"]
        for part in planned
        for batch in reader_copy(reader).read(part)
        for row in batch.to_pylist()
    ]
    assert found == ["a", "b"]
    assert reader.latestOffset(end, ReadAllAvailable()) == end
    assert (broker.count("A"), broker.count("B")) == (0, 0)


def test_a_lost_queue_of_several_is_named(broker: SparkBroker, make: Callable[..., Any]) -> None:
    broker.send("A", ["a"])
    broker.send("B", ["b"])
    reader = make(destination="A,B")
    start = reader.initialOffset()
    reader.stop()
    queue: Any = broker.service.region_broker.destinations()[Queue("B")]
    queue.base.purge(ConnectionContext())
    again = make(destination="A,B")
    with pytest.raises(IllegalStateException, match="queue://B was purged or created again"):
        again.latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize("first", ["A", "A,B"])
def test_a_checkpoint_of_other_queues_is_refused(make: Callable[..., Any], first: str) -> None:
    start = make(destination=first).initialOffset()
    other = make(destination="A,B" if first == "A" else "A", owner="other")
    with pytest.raises(IllegalStateException, match="The checkpoint belongs to queue://A"):
        other.latestOffset(start, ReadAllAvailable())


def test_a_spool_waits_for_its_least_number_of_messages_or_its_delay(
    broker: SparkBroker, make: Callable[..., Any], tmp_path: Path
) -> None:
    options = {"mode": "spool", "minMessagesPerTrigger": "3", "pollTimeout": "200ms"}
    options["spool"] = str(tmp_path / "spool")
    broker.send("IN", ["a"])
    reader = make(JmsStreamReader, **options)
    start = reader.initialOffset()
    assert reader.latestOffset(start, ReadMaxRows(10)) == start
    assert reader.reportLatestOffset() == {**start, "seq": 1, "spooled": 1}
    broker.send("IN", ["b", "c"])
    end = reader.latestOffset(start, ReadMaxRows(10))
    assert texts_between(reader, start, end) == ["a", "b", "c"]
    assert reader.reportLatestOffset() == {**end, "spooled": 0}
    broker.send("IN", ["d"])
    assert reader.latestOffset(end, ReadMaxRows(10)) == end
    reader.stop()
    hurried = make(JmsStreamReader, **options, maxTriggerDelay="0s")
    last = hurried.latestOffset(end, ReadMaxRows(10))
    assert texts_between(hurried, end, last) == ["d"]


def test_a_spool_of_another_destination_is_refused(
    broker: SparkBroker, make: Callable[..., Any], tmp_path: Path
) -> None:
    options = {"mode": "spool", "spool": str(tmp_path / "spool")}
    first = make(JmsStreamReader, **options)
    first.initialOffset()
    first.stop()
    with pytest.raises(IllegalStateException, match=r"belongs to queue://IN, but .* queue://OTHER"):
        make(JmsStreamReader, destination="OTHER", **options).initialOffset()


def test_a_queue_is_looked_at_a_page_at_a_time(broker: SparkBroker) -> None:
    broker.send("IN", [f"m{number}" for number in range(2500)])
    reader = BrowseReader(read_options({"url": broker.url, "destination": "IN"}, "batch"))
    (partition,) = reader.partitions()
    assert [batch.num_rows for batch in reader.read(partition)] == [2000, 500]
    half: Any = reader.read(partition)
    assert next(half).num_rows == 2000
    half.close()
    assert broker.count("IN") == 2500
