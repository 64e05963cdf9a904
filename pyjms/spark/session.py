"""Spark sessions with a suitable Java, the Python of this process, and the required settings.

Only `master` differs between this process and a cluster. (spark-pipeline 2.2, 6.2)
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyjms._distribution import install_command
from pyjms.errors import ConfigurationException
from pyjms.spark.gateway import has_active_context
from pyjms.spark.java import JavaHome, cache_folder, find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "DEFAULT_CONF",
    "OLDEST_SPARK",
    "aot_options",
    "check_pyspark",
    "session_conf",
    "spark_session",
]

OLDEST_SPARK: Final = (4, 2)
"""The first version with admission control and AvailableNow for Python sources."""
_NEWEST_SPARK: Final = (5,)
_OLDEST_AOT_JAVA: Final = 25
_ROCKS_DB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
DEFAULT_CONF: Final[Mapping[str, str]] = {
    "spark.speculation": "false",  # two attempts of a sink's task must not run at once
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
    """Return a Spark session: the one of this process, or a new one.

    A new session starts the JVM, which blocks for seconds. It sets the environment variables
    JAVA_HOME and PYSPARK_PYTHON of this process and, with a local master, SPARK_LOCAL_IP unless it
    is set. Like Spark's builder it may be called from any thread, but not from two at once.

    Args:
        app_name: the name of the application in Spark's UI and logs.
        master: `local[*,4]` is this process with four attempts per task; a cluster has a URL.
        java: `auto`, `system`, `bundled`, or the folder of a Java, as in `find_java`.
        conf: settings of Spark, which override those of pyjms.
        aot_cache: whether Java 25 keeps a start-up cache, which halves the time to start. The first
            run writes the cache when it ends, later ones use it.

    Raises:
        ConfigurationException: pyspark is not installed or has an unsupported version, or there is
            no suitable Java.

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
    """Return Spark's settings for a session: those of pyjms, overridden by `conf`."""
    return {**DEFAULT_CONF, "spark.master": master, **(conf or {})}


def aot_options(java: JavaHome, folder: Path | None = None) -> list[str]:
    """Return the JVM options that write the start-up cache, or use it; none before Java 25.

    A cache belongs to one version of Java and one of Spark.
    """
    if java.version < _OLDEST_AOT_JAVA:
        return []
    folder = folder or cache_folder() / "aot"
    folder.mkdir(parents=True, exist_ok=True)
    spark = importlib.metadata.version("pyspark")
    cache = folder / f"{java.path.name}-{java.version}-spark-{spark}.aot"
    return [f"-XX:AOTCache={cache}" if cache.is_file() else f"-XX:AOTCacheOutput={cache}"]


def check_pyspark() -> None:
    """Check that pyspark is installed and has a supported version; starts nothing.

    Raises:
        ConfigurationException: it is missing, or has another version.
    """
    required = "pyspark>=4.2,<5"
    try:
        text = importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        raise ConfigurationException(
            "Pipelines and the Spark formats need pyspark, which is not installed",
            hint=install_command("spark"),
        ) from None
    version = tuple(int(part) for part in text.split(".")[:2] if part.isdigit())
    if not OLDEST_SPARK <= version < _NEWEST_SPARK:
        raise ConfigurationException(
            f"pyspark {text} is installed, but {required} is required",
            hint=f'pip install "{required}"',
        )
