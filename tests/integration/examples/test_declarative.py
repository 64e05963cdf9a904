"""Spark Declarative Pipelines read and write queues by the formats' names alone."""

from __future__ import annotations

import pytest

from examples.declarative.__main__ import main, missing

pytestmark = [
    pytest.mark.nightly,  # it starts a Spark Connect server: most of a minute
    pytest.mark.timeout(300),
    pytest.mark.skipif(bool(missing()), reason='needs pip install "pyspark[pipelines]"'),
]


@pytest.mark.fact("spark-pipeline 1.5")
def test_a_project_of_tables_and_a_sink(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(120) == 0
    assert capsys.readouterr().out.startswith("120 flights in, ")
