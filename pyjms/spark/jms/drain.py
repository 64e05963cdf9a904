"""The way to end a stream between two batches: a flag that its source sees.

Stopping a query kills the batch in progress; a source that has no more data lets it end. The flag
is a file, since the source runs in a process of its own. (spark-pipeline 6.2)
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from pyjms.spark.jms.options import JmsOptions

__all__ = ["DRAIN_FILE", "drain_flag", "is_draining"]

DRAIN_FILE: Final = "PYJMS_SPARK_DRAIN_FILE"
"""Environment variable of the driver that names the flag."""

_flag: Path | None = None


def is_draining(_options: JmsOptions) -> bool:
    """Whether the sources of this driver shall take nothing new."""
    name = os.environ.get(DRAIN_FILE)
    return name is not None and Path(name).exists()


def drain_flag() -> Path:
    """Return this driver's flag: make the file, and its sources take nothing new.

    The JVM hands the name on to the sources, so the first call comes before it starts; later
    ones return the same. One that this process got from its parent is the parent's, unless the
    JVM runs with it already.
    """
    global _flag
    if _flag is not None:
        return _flag
    named = os.environ.get(DRAIN_FILE)
    if named is not None and _jvm_runs():
        _flag = Path(named)
        return _flag
    folder = tempfile.mkdtemp(prefix="pyjms-drain-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _flag = Path(folder) / "drain"
    os.environ[DRAIN_FILE] = str(_flag)
    return _flag


def _jvm_runs() -> bool:
    pyspark = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._gateway is not None
