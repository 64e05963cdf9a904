"""Builds a Spark session: Java found, Python workers like this one, Spark told what we need.

Only `master` changes from this process to a cluster. (spark-pipeline 2.2, 6.2)
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyjms.errors import ConfigurationException
from pyjms.spark.gateway import has_active_context
from pyjms.spark.java import JavaHome, cache_folder, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["OLDEST_SPARK", "aot_options", "check_pyspark", "session_conf", "spark_session"]

OLDEST_SPARK: Final = (4, 2)
"""Admission control and AvailableNow for Python sources came with it."""
_NEWEST_SPARK: Final = (5,)
_AOT_FROM: Final = 25
_ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_DEFAULTS: Final[Mapping[str, str]] = {
    "spark.speculation": "false",  # a sink's task must run once at a time
    "spark.sql.python.filterPushdown.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": _ROCKS_DB,
    "spark.ui.enabled": "false",
}
_DRIVER_OPTIONS: Final = "spark.driver.extraJavaOptions"


def spark_session(
    app_name: str = "pyjms",
    *,
    master: str = "local[*,4]",
    java: str = "auto",
    conf: Mapping[str, str] | None = None,
    aot_cache: bool = False,
) -> SparkSession:
    """Return a Spark session, started now or the one that runs in this process already.

    Sets JAVA_HOME, PYSPARK_PYTHON and, unless they are set, SPARK_LOCAL_IP of this process where
    it starts the JVM. `conf` goes over our own settings. `aot_cache` halves the start
    with Java 25: the first run writes the cache at its end, later ones use it. Blocks for
    seconds while the JVM starts.

    Raises:
        ConfigurationException: pyspark is not installed or of the wrong version, or no Java is fit.
    """
    check_pyspark()
    from pyspark.sql import SparkSession

    settings = session_conf(master, conf)
    if not has_active_context():
        found = find_java(java)
        os.environ["JAVA_HOME"] = str(found.path)
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if aot_cache:
            given = settings.get(_DRIVER_OPTIONS, "").split()
            settings[_DRIVER_OPTIONS] = " ".join([*given, *aot_options(found)])
    builder = SparkSession.builder.appName(app_name)
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def session_conf(master: str, conf: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return Spark's settings for a session: ours, then `conf`."""
    return {**_DEFAULTS, "spark.master": master, **(conf or {})}


def aot_options(java: JavaHome, folder: Path | None = None) -> list[str]:
    """Return the options of the JVM that make it write its start-up cache, or use it.

    None before Java 25, which cannot. A cache is good for one Java and one Spark.
    """
    if java.version < _AOT_FROM:
        return []
    folder = folder or cache_folder() / "aot"
    folder.mkdir(parents=True, exist_ok=True)
    spark = importlib.metadata.version("pyspark")
    cache = folder / f"{java.path.name}-{java.version}-spark-{spark}.aot"
    return [f"-XX:AOTCache={cache}" if cache.is_file() else f"-XX:AOTCacheOutput={cache}"]


def check_pyspark() -> None:
    """Find out whether pyspark is there, and new enough, without starting anything.

    Raises:
        ConfigurationException: it is not.
    """
    wanted = "pyspark>=4.2,<5"
    try:
        text = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise ConfigurationException(
            "Pipelines and the Spark formats need pyspark, which is not installed",
            hint='pip install "pyjms[spark]"',
        ) from None
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    if not OLDEST_SPARK <= version < _NEWEST_SPARK:
        raise ConfigurationException(
            f"pyspark {text} is installed, and {wanted} is needed", hint=f'pip install "{wanted}"'
        )
