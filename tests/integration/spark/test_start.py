"""How a local Spark starts its Python processes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from pyjms.spark.start import cache_folder

pytestmark = pytest.mark.timeout(300)


def look(_: int) -> tuple[str, str, str, bool]:
    """Return what a worker sees; it runs there."""
    parent = Path(f"/proc/{os.getppid()}/cmdline").read_text()
    imported = "pyjms.spark.source" in sys.modules
    return os.environ["SPARK_HOME"], pyspark.__file__, parent, imported


@pytest.mark.fact("spark-pipeline 2.3")
def test_workers_import_the_installed_pyspark_and_are_forked_by_our_daemon(
    spark: SparkSession,
) -> None:
    [(home, file, parent, imported)] = spark.sparkContext.parallelize([0], 1).map(look).collect()
    assert Path(home).parent == cache_folder() / "spark"
    assert Path(file).is_relative_to(home)
    assert Path(file).resolve() == Path(pyspark.__file__).resolve()
    assert "pyjms.spark.daemon" in parent
    assert imported
