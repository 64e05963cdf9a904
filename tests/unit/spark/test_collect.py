"""Which pipelines there are, and where: decorated ones, settings, brokers."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyjms.errors import ConfigurationException
from pyjms.settings import PyjmsSettings, load_settings
from pyjms.spark.checks import (
    BrokerLocation,
    broker_of,
    choose_pipelines,
    collect_pipelines,
    find_problems,
    uses_embedded_broker,
)
from pyjms.spark.pipeline import Pipeline
from pyjms.spark.run import PipelineRunner, running_embedded_broker


def settings(**values: object) -> PyjmsSettings:
    return PyjmsSettings.model_validate(values)


def same(frame: object) -> object:
    return frame


def both(a: object, b: object) -> object:
    return a


def decorated(name: str = "delays", **values: object) -> Pipeline:
    given = {"source": "IN", "sink": "OUT", **values}
    function = same if isinstance(given["source"], str) else both
    return Pipeline(name=name, function=function, **given)  # type: ignore[arg-type]


SQL = {"sql": "SELECT text FROM messages", "source": "A", "sink": "B"}


def test_entries_with_sql_are_pipelines_and_others_change_decorated_ones() -> None:
    marked = decorated(trigger=5.0, options={"selector": "a = 1", "mode": "ranges"})
    found = collect_pipelines(
        settings(
            pipelines={
                "delays": {"trigger": "2s", "options": {"selector": "a = 2"}},
                "copy": {**SQL, "schema": "a STRING"},
            }
        ),
        [marked, decorated("other")],
    )
    delays, other, copy = found
    assert (delays.trigger, delays.sink, delays.function) == (2.0, "OUT", same)
    assert delays.options == {"selector": "a = 2", "mode": "ranges"}
    assert other == decorated("other")
    assert (copy.name, copy.sql, copy.schema) == ("copy", SQL["sql"], "a STRING")


def test_placeholders_are_replaced() -> None:
    given = settings(app={"region": "EU"}, pipelines={"copy": {**SQL, "sink": "B.${region}"}})
    marked = decorated(
        source={"a": "A.${region}", "b": "B"}, schema={"a": "n INT"}, dead_letter="${region}.bad",
        options={"x": "${app.region}"},
    )  # fmt: skip
    joined, copy = collect_pipelines(given, [marked])
    assert joined.source == {"a": "A.EU", "b": "B"}
    assert (joined.dead_letter, joined.options) == ("EU.bad", {"x": "EU"})
    assert copy.sink == "B.EU"


def test_all_problems_are_reported_at_once() -> None:
    given = settings(
        pipelines={
            "delays": {"sql": "SELECT 1"},
            "nobody": {"trigger": "1s"},
            "half": {"sql": "SELECT 1"},
        }
    )
    with pytest.raises(ConfigurationException) as caught:
        collect_pipelines(given, [decorated(), decorated("twice"), decorated("twice")])
    lines = str(caught.value).splitlines()
    assert lines[0] == "Pipeline twice is defined more than once; give each its own name"
    assert "delays: it has both a function and sql" in lines[1]
    assert lines[2].startswith("pipelines.nobody has no sql, so it changes a decorated pipeline")
    assert "Pipeline half: source is missing" in lines[3]
    assert "sink is missing" in lines[3]
    some = collect_pipelines(settings(pipelines={"nobody": {"trigger": "1s"}}), are_all=False)
    assert some == []


def test_some_are_chosen_by_name() -> None:
    found = [decorated("a"), decorated("b")]
    assert choose_pipelines(found, ()) == found
    assert choose_pipelines(found, ["b"]) == found[1:]
    with pytest.raises(ConfigurationException, match=r"no pipeline c.*the pipelines are a, b"):
        choose_pipelines(found, ["a", "c"])
    with pytest.raises(ConfigurationException, match="There are no pipelines"):
        choose_pipelines([], ())


def test_the_broker_of_a_pipeline() -> None:
    given = settings(
        activemq={"broker_url": "tcp://h:1", "user": "me", "password": "secret"},
        brokers={"far": {"broker_url": "tcp://far:2"}, "here": {"broker_url": "VM://x"}},
    )
    place = broker_of(given, None, None)
    assert place == BrokerLocation("tcp://h:1", "me", "secret")
    assert "secret" not in repr(place)
    assert broker_of(given, "far", "tcp://embedded:1").url == "tcp://far:2"
    with pytest.raises(
        ConfigurationException, match=r"no broker 'near'.*the brokers are far, here"
    ):
        broker_of(given, "near", None)
    with pytest.raises(
        ConfigurationException, match=r"brokers\.here\.broker_url is a vm:// URL \(vm://x\)"
    ):
        broker_of(given, "here", None)
    with pytest.raises(ConfigurationException, match=r"activemq\.broker_url is not set"):
        broker_of(settings(), None, None)
    assert broker_of(settings(), None, "tcp://embedded:1").url == "tcp://embedded:1"
    local = settings(activemq={"embedded": {"enabled": False}})
    assert broker_of(local, None, None).url == "tcp://localhost:61616"


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("http://h:61614", "http://h:61614: Could not create Transport. Reason: http: is not supported"),
        ("failover:(tcp://me:pw@h:1)?password=pw", "failover:(tcp://h:1)?password=***: Could not create Transport. Reason: Invalid connect parameters: {password=***}"),
        ("tpc://h:1", "tpc://h:1: Could not create Transport. Reason: Transport scheme NOT recognized: [tpc]"),
        ("tcp://h", "tcp://h: Could not create Transport. Reason: tcp://h names no port (write tcp://h:61616)"),
        ("localhost", "unreadable: Could not create Transport. Reason: Transport not scheme specified: [localhost]"),
    ],
)  # fmt: skip
def test_a_broker_that_the_client_cannot_reach_is_a_problem_of_its_pipelines(
    url: str, sentence: str
) -> None:
    given = settings(activemq={"broker_url": "nio://h:1"}, brokers={"far": {"broker_url": url}})
    pipelines = [decorated("a", broker="far"), decorated("b"), decorated("c", broker="far")]
    problem = find_problems(given, pipelines)[0]
    assert problem.startswith(f"Pipelines a and c: brokers.far.broker_url {sentence}")
    assert "pw" not in problem
    with pytest.raises(ConfigurationException, match=r"^brokers\.far\.broker_url "):
        broker_of(given, "far", None)
    assert broker_of(given, None, None).url == "nio://h:1"


@pytest.mark.parametrize("root", ["s3a://key:pw@bucket/x", "hdfs://n/x", "file:///x", "abfs:/x"])
def test_checkpoints_are_in_a_folder_and_not_at_a_uri(tmp_path: Path, root: str) -> None:
    file = tmp_path / "application.yaml"
    file.write_text(f"spark:\n  checkpoint_root: {root}\n")
    with pytest.raises(ConfigurationException) as caught:
        load_settings(file, environ={})
    scheme = root.partition(":")[0]
    said = str(caught.value)
    assert (
        f"application.yaml:2: spark.checkpoint_root: is a URI ({scheme}:), but must be a path"
        in said
    )
    assert "must be a path in a file system that all machines mount" in said
    assert "pw" not in said


@pytest.mark.parametrize("root", ["/shared/x", "./a:b", "C:/data", "\\\\server\\x"])
def test_any_path_can_be_the_folder_of_checkpoints(tmp_path: Path, root: str) -> None:
    file = tmp_path / "application.yaml"
    file.write_text(f"spark:\n  checkpoint_root: '{root}'\n")
    assert load_settings(file, environ={}).spark.checkpoint_root == root


def test_dead_letters_of_an_entry_need_a_schema() -> None:
    def found(**entry: object) -> list[str | None]:
        given = settings(pipelines={"delays": entry, "copy": {**SQL, **entry}})
        return [p.dead_letter for p in collect_pipelines(given, [decorated()])]

    with pytest.raises(ConfigurationException) as caught:
        found(dead_letter="bad")
    assert [line.partition(";")[0] for line in str(caught.value).splitlines()] == [
        f"Pipeline {name}: dead_letter has no effect without a schema, since any message matches"
        for name in ("delays", "copy")
    ]
    assert found(dead_letter=None) == [None, None]
    assert found(dead_letter="bad", schema="n INT") == ["bad", "bad"]


def test_a_broker_in_memory_has_to_be_asked_for() -> None:
    asked = settings(activemq={"embedded": {"enabled": True}})
    assert uses_embedded_broker(asked, [decorated()], once=True)
    assert not uses_embedded_broker(asked, [decorated()], once=False)
    assert not uses_embedded_broker(asked, [decorated(broker="far")], once=True)
    assert not uses_embedded_broker(settings(), [decorated()], once=True)
    there = settings(activemq={"broker_url": "tcp://h:1", "embedded": {"enabled": True}})
    assert not uses_embedded_broker(there, [decorated()], once=True)


async def test_the_broker_in_memory_has_a_port(caplog: pytest.LogCaptureFixture) -> None:
    async with running_embedded_broker() as url:
        assert url.startswith("tcp://")
    assert "empty in-memory broker" in caplog.text


def test_a_run_without_a_broker_says_so_before_spark_starts(tmp_path: Path) -> None:
    given = settings(
        spark={"checkpoint_root": str(tmp_path)}, brokers={"b": {"broker_url": "vm://x"}}
    )
    runner = PipelineRunner(given, [decorated("one"), decorated("two"), decorated("b", broker="b")])
    runner.stop()  # nothing runs
    with pytest.raises(ConfigurationException) as caught:
        runner.run()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("Pipelines one and two: ")  # once for the two that share it
    assert "activemq.broker_url is not set" in lines[0]
    assert lines[1].startswith("Pipeline b: ")
    assert "brokers.b.broker_url is a vm:// URL (vm://x)" in lines[1]
    assert "source queue://IN is read 2 times, by one and two" in lines[2]
    assert len(lines) == 3
    assert list(tmp_path.iterdir()) == []
