"""The options of the format `jms`: each is read where it has an effect, and refused elsewhere."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")

from pyjms.errors import ConfigurationException
from pyjms.spark.formats import JmsDataSource
from pyjms.spark.options import JOURNAL_OPTIONS, OPTIONS, Role, read_options

URL = {"url": "tcp://h:1", "destination": "IN"}


def said(role: str, **options: str) -> str:
    with pytest.raises(ConfigurationException) as caught:
        read_options({**URL, **options}, role)
    return str(caught.value)


@pytest.mark.parametrize(
    ("role", "options", "sentence"),
    [
        ("batch", {"startingOffset": "4"}, "option startingOffset has no effect in a batch that browses (set mode=ranges"),
        ("batch", {"endingoffset": "4"}, "option endingOffset has no effect in a batch that browses (set mode=ranges"),
        ("batch", {"partitions": "4"}, "option partitions has no effect in a batch that browses (set mode=ranges: one task"),
        ("batch", {"maxMessagesPerTrigger": "4"}, "option maxMessagesPerTrigger has no effect in a batch that browses (a batch has no triggers"),
        ("batch", {"mode": "ranges", "maxBytesPerTrigger": "4"}, "has no effect in a batch by ranges (a batch has no triggers"),
        ("batch", {"mode": "ranges", "spool": "/a"}, "option spool has no effect in a batch by ranges (remove it: a batch removes nothing"),
        ("batch", {"mode": "spool"}, "option mode is spool, which is a way to stream (remove it, or set mode=ranges)"),
        ("batch", {"failOnDataLoss": "false"}, "option failOnDataLoss has no effect in a batch that browses (remove it: it is for stream)"),
        ("stream", {"endingOffset": "4"}, "(a stream has no end; trigger(availableNow=True) ends with what is there)"),
        ("stream", {"endingTimestamp": "4"}, "(a stream has no end; trigger(availableNow=True) ends with what is there)"),
        ("stream", {"mode": "ranges", "spool": "/a"}, "option spool has no effect in a stream by ranges (remove it: it is for stream with a spool)"),
        ("stream", {"mode": "spool", "owner": "a"}, "option owner has no effect in a stream through a spool (remove it: it is for stream by ranges)"),
        ("stream", {"exactlyOnce": "ids"}, "option exactlyOnce has no effect in a stream (remove it: it is for sink)"),
        ("stream", {"failOnMissing": "true"}, "(remove it: it is for batch)"),
        ("stream", {"maxTriggerDelay": "1m"}, "option maxTriggerDelay has no effect without minMessagesPerTrigger"),
        ("stream", {"minMessagesPerTrigger": "20000"}, "option minMessagesPerTrigger is greater than maxMessagesPerTrigger, 10000"),
        ("stream", {"startingOffset": "1", "startingTimestamp": "1"}, "options startingOffset and startingTimestamp exclude each other"),
        ("stream", {"password": "pw", "passwordEnv": "A"}, "options password and passwordEnv exclude each other"),
        ("stream", {"startingTimestamp": "noon"}, "option startingTimestamp is not a time; write 2026-11-21T18:00:00Z"),
        ("sink", {"selector": "a"}, "option selector has no effect in a sink (remove it: it is for batch, stream)"),
        ("sink", {"idColum": "a"}, "unknown option idColum (did you mean idColumn?)"),
    ],
)  # fmt: skip
def test_an_option_without_effect_is_refused_with_what_to_do(
    role: str, options: dict[str, str], sentence: str
) -> None:
    text = said(role, **options)
    assert sentence in text
    assert "pw" not in text


@pytest.mark.parametrize(
    ("tried", "shown", "ours"),
    [
        ("subscribe", "subscribe", "destination"),
        ("startingoffsets", "startingOffsets", "startingOffset"),
        ("startingoffsetsbytimestamp", "startingOffsetsByTimestamp", "startingTimestamp"),
        ("maxoffsetspertrigger", "maxOffsetsPerTrigger", "maxMessagesPerTrigger"),
        ("kafka.bootstrap.servers", "kafka.bootstrap.servers", "url"),
    ],
)
def test_names_of_kafkas_connector_lead_to_ours(tried: str, shown: str, ours: str) -> None:
    assert f"jms: unknown option {shown} (here it is {ours}" in said("stream", **{tried: "x"})
    with pytest.raises(ConfigurationException, match=f"unknown option {shown}"):
        JmsDataSource({**URL, tried: "x"}).schema()


@pytest.mark.parametrize("name", ["provider", "option.url"])
def test_tables_are_refused_as_spark_does_not_pass_their_options_on(name: str) -> None:
    with pytest.raises(ConfigurationException) as caught:
        JmsDataSource({**URL, name: "x"}).schema()
    assert "jms: there can be no table: Spark does not pass" in str(caught.value)
    assert "CREATE TEMPORARY VIEW name USING jms OPTIONS" in str(caught.value)
    with pytest.raises(ConfigurationException, match="use CREATE TEMPORARY VIEW"):
        read_options({}, "batch")


def test_all_problems_are_reported_at_once() -> None:
    text = said("batch", startingOffset="x", pollTimeout="y", idColum="z")
    assert text.count("option") >= 3
    assert text.startswith("jms: option startingOffset has no effect")


def test_a_stream_whose_way_is_open_has_the_options_of_both() -> None:
    options = read_options({**URL, "owner": "me", "spool": "/a", "startingOffset": "7"}, "stream")
    assert (options.owner, options.spool, options.starting_offset) == ("me", "/a", "7")


@pytest.mark.parametrize(
    ("text", "micros"),
    [("1357041600000", 1357041600_000_000), ("2013-01-01T12:00:00Z", 1357041600_000_000),
     ("2013-01-01T13:00:00.5+01:00", 1357041600_500_000), ("2013-01-01", 1356998400_000_000)],
)  # fmt: skip
def test_times_are_iso_or_milliseconds(text: str, micros: int) -> None:
    assert read_options({**URL, "startingTimestamp": text}, "stream").starting_timestamp == micros


def test_every_option_has_a_role_that_reads_it() -> None:
    options = [*OPTIONS.values(), *JOURNAL_OPTIONS.values()]
    assert all(option.roles and option.users for option in options)
    assert {role for option in options for role in option.roles} == set(Role)
