"""The Spark fixtures by short names, for projects that want them.

Import them in a `conftest.py`: `from pyjms.testing.spark_names import run_pipeline, spark`. The
plugin itself only defines `jms_spark` and `jms_run_pipeline`, as other plugins define `spark`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyjms.testing.spark import PipelineRun

__all__ = ["run_pipeline", "spark"]


@pytest.fixture(scope="session")
def spark(jms_spark: SparkSession) -> SparkSession:
    """The fixture `jms_spark`."""
    return jms_spark


@pytest.fixture
def run_pipeline(jms_run_pipeline: PipelineRun) -> PipelineRun:
    """The fixture `jms_run_pipeline`."""
    return jms_run_pipeline
