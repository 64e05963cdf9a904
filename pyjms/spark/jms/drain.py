"""The way to end a stream between two batches: a flag that its source sees.

Stopping a query kills the batch in progress; a source that has no more data lets it end. The flag
is a file, since the source runs in a process of its own. (spark-pipeline 6.2)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from pyjms.spark.jms.options import JmsOptions

__all__ = ["DRAIN_FILE", "is_draining"]

DRAIN_FILE: Final = "PYJMS_SPARK_DRAIN_FILE"
"""Environment variable of the driver that names the flag."""


def is_draining(_options: JmsOptions) -> bool:
    """Whether the sources of this driver shall take nothing new."""
    name = os.environ.get(DRAIN_FILE)
    return name is not None and Path(name).exists()
