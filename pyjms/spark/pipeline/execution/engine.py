"""The Spark session of a runner: it starts queries and reports their progress. All calls block.

Spark reports batches to a listener in a separate thread, shortly after they are finished.
(spark-pipeline 6.2)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pyjms._logger import get_logger
from pyjms.settings import SparkSettings
from pyjms.spark.gateway import jvm_is_running, make_session_active
from pyjms.spark.pipeline.definition.brokers import BrokerLocation
from pyjms.spark.pipeline.definition.pipeline import Pipeline
from pyjms.spark.pipeline.execution.location import PipelineLocation
from pyjms.spark.pipeline.reporting.events import PipelinesReady
from pyjms.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import StreamingQueryProgress
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["RUNNER_CONF", "SparkEngine"]

logger: Final = get_logger(__name__)

RUNNER_CONF: Final[Mapping[str, str]] = {
    "spark.log.level": "ERROR",  # pyjms logs what Spark would warn about
    "spark.ui.showConsoleProgress": "false",
    # stored in a checkpoint with state, so a number for a laptop and a small cluster
    "spark.sql.shuffle.partitions": "8",
}
_VARIABLE_PREFIX: Final = "PYJMS_SPARK_PASSWORD_"


class SparkEngine:
    """A Spark session that runs pipelines' queries."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        is_own: bool,
        on_progress: Callable[[StreamingQueryProgress], None],
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._is_own = is_own
        self._secrets = secrets or {}
        self._starting = threading.Lock()
        self._listener = _listener(on_progress)
        spark.streams.addListener(self._listener)

    @classmethod
    def create(
        cls,
        settings: SparkSettings,
        names: Sequence[str],
        brokers: Iterable[BrokerLocation],
        on_progress: Callable[[StreamingQueryProgress], None],
    ) -> Self:
        """Start Spark according to the settings. Blocks for seconds.

        Raises:
            ConfigurationException: there is no suitable Java or pyspark.
        """
        secrets = _hide_passwords(settings.master, brokers)
        spark = spark_session(
            f"pyjms {' '.join(names)}",
            master=settings.master,
            java=settings.java,
            conf={**RUNNER_CONF, **settings.conf},
            aot_cache=settings.aot_cache,
        )
        return cls(spark, is_own=True, on_progress=on_progress, secrets=secrets)

    def ready(self, names: Sequence[str]) -> PipelinesReady:
        """Return the event that announces the session."""
        context = self._spark.sparkContext
        return PipelinesReady(names, str(context.master), context.version, context.uiWebUrl)

    def location(self, broker: BrokerLocation, folder: Path) -> PipelineLocation:
        """Return the location of a pipeline with this broker and folder."""
        variable = None if broker.password is None else self._secrets.get(broker.password)
        return PipelineLocation(
            url=broker.url,
            user=broker.user,
            password=broker.password if variable is None else None,
            password_env=variable,
            folder=folder,
        )

    def start(
        self, pipeline: Pipeline, location: PipelineLocation, *, once: bool
    ) -> StreamingQuery:
        """Start the query of a pipeline.

        Raises:
            ConfigurationException: the pipeline cannot run.
        """
        from pyjms.spark.jms.source import JmsDataSource
        from pyjms.spark.pipeline.execution.query import start_query

        make_session_active(self._spark)  # Spark looks for Python data sources there
        with self._starting:
            # A starting stream writes to variables of its format without a lock, and two at the
            # same time break the format for the session ("Illegal size 5 of collection"). So each
            # query gets a separate registration.
            self._spark.dataSource.register(JmsDataSource)
            query: StreamingQuery = start_query(self._spark, pipeline, location, once=once)
        return query

    def close(self) -> None:
        """Stop Spark, unless the session was passed in."""
        try:
            if self._is_own:
                self._spark.stop()
            else:
                self._spark.streams.removeListener(self._listener)
        except Exception as error:  # Spark has ended before, which its pipelines have reported
            logger.debug("Stopping Spark: %s", type(error).__name__)


def _hide_passwords(master: str, brokers: Iterable[BrokerLocation]) -> dict[str, str]:
    """Put passwords into variables that Spark's local processes inherit; return their names.

    The value of a variable is not part of a plan. The machines of a cluster do not inherit them;
    there the option `passwordEnv` of a pipeline names a variable that is set on all of them.
    """
    if not master.startswith("local") or jvm_is_running():
        return {}
    found = dict.fromkeys(broker.password for broker in brokers if broker.password is not None)
    variables = {password: f"{_VARIABLE_PREFIX}{number}" for number, password in enumerate(found)}
    os.environ.update({name: password for password, name in variables.items()})
    return variables


def _listener(on_progress: Callable[[StreamingQueryProgress], None]) -> Any:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:
            """Ignore it: the caller that started the query knows."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:
            on_progress(event.progress)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:
            """Ignore it: there is no batch."""

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
            """Ignore it: the supervisor waits for the end."""

    return Listener()
