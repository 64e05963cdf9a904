"""Checkpoints that are of another pipeline are refused, part by part."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ConfigurationException
from pyjms.spark import Pipeline
from pyjms.spark.checkpoint import PipelineLocation, comparable, open_checkpoint

STATE = ["StateStoreSave [origin]"]


def made(**values: Any) -> Pipeline:
    base = {"name": "p", "sql": "SELECT 1", "source": "IN", "sink": "OUT"}
    return Pipeline(**{**base, **values})


@pytest.fixture
def place(tmp_path: Path) -> PipelineLocation:
    return PipelineLocation(url="tcp://x", folder=tmp_path / "p")


def check(
    place: PipelineLocation, pipeline: Pipeline, state: list[str] = STATE, spark: str = "4.3"
) -> str:
    checkpoint = open_checkpoint(place, pipeline)
    checkpoint.check(state, spark)
    use(place)
    return checkpoint.owner


def use(place: PipelineLocation) -> None:
    """Make it look as if a batch had been begun."""
    (place.checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (place.checkpoint / "offsets" / "0").touch()


def test_a_new_checkpoint_gets_an_id_that_it_keeps(place: PipelineLocation) -> None:
    owner = check(place, made())
    assert owner.startswith("p/")
    assert len(owner) == 34
    assert check(place, made()) == owner
    assert sorted(file.name for file in place.folder.iterdir()) == [
        "checkpoint", "pyjms-pipeline.json"
    ]  # fmt: skip


def test_a_checkpoint_that_no_message_was_taken_with_may_become_another(
    place: PipelineLocation,
) -> None:
    first = open_checkpoint(place, made())
    first.check(STATE, "4.3")
    second = open_checkpoint(place, made(output_mode="update"))
    second.check([], "4.3")
    assert second.id == first.id
    place.spool("messages").mkdir(parents=True)
    with pytest.raises(ConfigurationException, match="output_mode was update and is append"):
        open_checkpoint(place, made()).check([], "4.3")


def test_nothing_is_written_before_the_plan_is_good(place: PipelineLocation) -> None:
    open_checkpoint(place, made())
    assert not place.folder.exists()


@pytest.mark.parametrize(
    "values",
    [
        {"trigger": 5.0},
        {"partitions": 7},
        {"max_messages_per_trigger": 9},
        {"source": "queue://IN"},
        {"dead_letter": "BAD", "schema": "a INT"},
        {"options": {"pollTimeout": "1s"}},
        {"schema": "a INT"},
    ],
)
def test_what_may_change(place: PipelineLocation, values: dict[str, Any]) -> None:
    owner = check(place, made())
    assert check(place, made(**values)) == owner


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"name": "q"}, "name was p and is q"),
        (
            {"source": "topic://IN"},
            "source was [messages = queue://IN] and is [messages = topic://IN]",
        ),
        ({"sink": "OTHER"}, "sink was queue://OUT and is queue://OTHER"),
        ({"output_mode": "update"}, "output_mode was append and is update"),
        ({"exactly_once": "off"}, "exactly_once was epoch and is off"),
        ({"options": {"Selector": "a = 1"}}, "selector was nothing and is a = 1"),
        ({"options": {"clientId": "c"}}, "clientId was nothing and is c"),
    ],
)
def test_what_may_not(place: PipelineLocation, values: dict[str, Any], sentence: str) -> None:
    check(place, made())
    with pytest.raises(ConfigurationException) as caught:
        check(place, made(**values))
    name = values.get("name", "p")
    assert str(caught.value).startswith(
        f"Pipeline {name}: its checkpoint {place.folder} does not fit: {sentence}"
    )
    assert "set a new `checkpoint`, to start again" in str(caught.value)


def test_numbered_rows_need_the_same_partitions(place: PipelineLocation) -> None:
    check(place, made(exactly_once="ids"))
    with pytest.raises(ConfigurationException, match="partitions was 2 and is 3"):
        check(place, made(exactly_once="ids", partitions=3))


def test_ids_need_the_same_column(place: PipelineLocation) -> None:
    check(place, made(exactly_once="ids", id_column="a"))
    with pytest.raises(ConfigurationException, match="id_column was a and is b"):
        check(place, made(exactly_once="ids", id_column="b"))


def test_numbered_rows_need_the_same_sql(place: PipelineLocation) -> None:
    one, other = (f"SELECT text FROM messages WHERE priority > {n}" for n in (1, 2))
    check(place, made(exactly_once="ids", sql=one))
    with pytest.raises(ConfigurationException, match=r"sql was SELECT .* > 1 and is SELECT .* > 2"):
        check(place, made(exactly_once="ids", sql=other))


def test_state_is_compared_under_the_same_spark(place: PipelineLocation) -> None:
    check(place, made())
    with pytest.raises(
        ConfigurationException, match=r"state was \[StateStoreSave \[origin\]\] and"
    ):
        check(place, made(), ["StateStoreSave [dest]"])
    check(place, made(), ["said otherwise"], "4.4")
    with pytest.raises(ConfigurationException, match=r"state was \[said otherwise\] and"):
        check(place, made(), STATE, "4.4")


def test_a_plan_that_is_made_again_in_the_same_process_is_the_same() -> None:
    """Spark's numbers of attributes and common expressions go on through a session."""
    again = "StateStoreSave [w#91L], merge_count(if (_common_expr_3) a else _common_expr_2)"
    first = "StateStoreSave [w], merge_count(if (_common_expr_0) a else _common_expr_1)"
    assert comparable(again) == comparable(first) == first


def test_numbers_that_an_older_version_kept_do_not_matter(place: PipelineLocation) -> None:
    check(place, made(), ["count(_common_expr_5)"])
    check(place, made(), ["count(_common_expr_0)"])


def test_a_part_that_an_older_version_did_not_write_may_be_anything(
    place: PipelineLocation,
) -> None:
    check(place, made())
    saved = json.loads(place.fingerprint.read_text())
    del saved["parts"]["clientId"]
    place.fingerprint.write_text(json.dumps(saved))
    check(place, made(options={"clientId": "c"}))
    with pytest.raises(ConfigurationException, match="clientId was c and is nothing"):
        check(place, made())


def test_the_order_of_sources_counts(place: PipelineLocation) -> None:
    check(place, made(source={"a": "A", "b": "B"}))
    with pytest.raises(ConfigurationException, match="source was"):
        check(place, made(source={"b": "B", "a": "A"}))


def test_a_checkpoint_of_another_pipeline_is_refused(place: PipelineLocation) -> None:
    use(place)
    with pytest.raises(ConfigurationException, match="so no pipeline wrote it"):
        open_checkpoint(place, made())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("{", "is damaged"), ("[]", "is damaged"), ('{"parts": {}, "format": 2}', "its format is 2")],
)
def test_a_damaged_file_is_refused(place: PipelineLocation, text: str, sentence: str) -> None:
    place.folder.mkdir()
    place.fingerprint.write_text(text)
    with pytest.raises(ConfigurationException, match=sentence):
        open_checkpoint(place, made())


def test_options_have_a_password_or_the_name_of_its_variable(tmp_path: Path) -> None:
    place = PipelineLocation(url="tcp://x", folder=tmp_path, user="u", password="secret")
    assert place.options(made()) == {"url": "tcp://x", "user": "u", "password": "secret"}
    named = PipelineLocation(url="tcp://x", folder=tmp_path, password="secret", password_env="A")
    assert named.options(made()) == {"url": "tcp://x", "passwordEnv": "A"}
    own = made(options={"passwordEnv": "B"})
    assert place.options(own) == {"url": "tcp://x", "user": "u", "passwordEnv": "B"}
    assert "secret" not in repr(place)


def test_the_options_of_a_source(tmp_path: Path) -> None:
    place = PipelineLocation(url="tcp://x", folder=tmp_path)
    pipeline = made(partitions=3, max_messages_per_trigger=7, options={"selector": "a = 1"})
    assert place.source_options(pipeline, "messages", "p/1") == {
        "url": "tcp://x",
        "selector": "a = 1",
        "partitions": "3",
        "owner": "p/1",
        "spool": str(tmp_path / "spool" / "messages"),
        "maxMessagesPerTrigger": "7",
    }
