"""The fixtures for pipelines, as far as they need no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ConfigurationException
from pyjms.spark import Pipeline, jms_pipeline
from pyjms.testing.spark import PipelineRun

pytest_plugins = ["pytester"]


@jms_pipeline("IN", sink="OUT")
def copy(messages: object) -> object:
    return messages


@jms_pipeline("IN", sink="A", name="a")
@jms_pipeline("IN", sink="B", name="b")
def twice(messages: object) -> object:
    return messages


@pytest.fixture
def run(tmp_path: Path) -> Iterator[PipelineRun]:
    made = PipelineRun(None, tmp_path)  # type: ignore[arg-type]
    yield made
    made.close()
    made.close()


@pytest.mark.parametrize(
    ("pipeline", "messages", "text"),
    [
        (twice, [], "twice is marked as 2 pipelines"),
        (len, [], r"len is marked as 0 pipelines \(mark it with @jms_pipeline"),
        (copy, {"other": ["x"]}, r"copy has no source other \(its sources are messages"),
        (Pipeline(name="t", sql="SELECT 1", source="topic://T", sink="OUT"), ["x"], r"topic://T is a topic.*Consumer\.NAME\.T"),
    ],
)  # fmt: skip
def test_what_it_refuses(run: PipelineRun, pipeline: Any, messages: Any, text: str) -> None:
    with pytest.raises(ConfigurationException, match=text):
        run(pipeline, messages)


def test_there_is_nothing_before_something_ran(run: PipelineRun) -> None:
    assert run.url == ""
    assert run.take("OUT") == []
    assert run.url.startswith("tcp://127.0.0.1:")


def test_without_pyspark_the_fixtures_skip_and_say_why(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        """
        import importlib.util
        there = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *more: None if name == "pyspark" else there(name, *more)
        """
    )
    pytester.makepyfile("def test_it(jms_run_pipeline): ...")
    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rs")
    done.assert_outcomes(skipped=1)
    done.stdout.fnmatch_lines(['*Spark is not installed: pip install "*?spark?"*'])
