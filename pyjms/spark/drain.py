"""The drain flag: lets a stream end between two batches.

Stopping a query kills the batch in progress, whereas it finishes if the source reports no new data.
So a runner creates the drain flag before it stops its queries. The flag is a file because Spark
runs a Python source in a separate process; an environment variable of the driver has its path.
(spark-pipeline 6.2)
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyjms.spark.gateway import jvm_is_running

DRAIN_FILE: Final = "PYJMS_SPARK_DRAIN_FILE"
"""The environment variable of the driver with the path of the flag."""

_flag: Path | None = None


def is_draining() -> bool:
    """Return whether the sources of this driver must report no new data."""
    name = os.environ.get(DRAIN_FILE)
    return name is not None and Path(name).exists()


def drain_flag() -> Path:
    """Return the path of this driver's drain flag; later calls return the same path.

    The JVM passes the name on to the processes of the sources, so the first call has to come
    before the JVM starts. A name that this process inherited belongs to its parent and is replaced,
    unless the JVM already runs with it.
    """
    global _flag
    if _flag is not None:
        return _flag
    named = os.environ.get(DRAIN_FILE)
    if named is not None and jvm_is_running():
        _flag = Path(named)
        return _flag
    folder = tempfile.mkdtemp(prefix="pyjms-drain-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _flag = Path(folder) / "drain"
    os.environ[DRAIN_FILE] = str(_flag)
    return _flag


def set_drain_flag(flag: Path) -> None:
    """Create the flag, after which the sources of this driver report no new data."""
    flag.parent.mkdir(parents=True, exist_ok=True)  # cleaners of /tmp remove old folders
    flag.touch()


@contextmanager
def cleared_drain_flag() -> Iterator[Path]:
    """Yield this driver's flag, removed when the block starts and after it ends."""
    flag = drain_flag()
    flag.unlink(missing_ok=True)
    try:
        yield flag
    finally:
        flag.unlink(missing_ok=True)
