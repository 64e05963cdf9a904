"""The runner's Spark: its session, the queries it starts, what it says of batches. All blocks.

Spark tells of batches through a listener, in a thread of its own, a little after they are done.
(spark-pipeline 6.2)
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pyjms.settings import SparkSettings
from pyjms.spark.gateway import jvm_is_running, make_session_active
from pyjms.spark.pipeline.definition.brokers import BrokerLocation
from pyjms.spark.pipeline.definition.pipeline import Pipeline
from pyjms.spark.pipeline.execution.location import PipelineLocation
from pyjms.spark.pipeline.execution.running_query import Query
from pyjms.spark.pipeline.reporting.events import PipelinesReady
from pyjms.spark.pipeline.reporting.progress import Progress
from pyjms.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Engine"]

logger = logging.getLogger(__name__)

_CONF: Final[Mapping[str, str]] = {
    "spark.log.level": "ERROR",  # what it warns of is said by our own lines
    "spark.ui.showConsoleProgress": "false",
    # a checkpoint keeps its number, so one that serves a laptop and a small cluster
    "spark.sql.shuffle.partitions": "8",
}
_HIDDEN: Final = "PYJMS_SPARK_PASSWORD_"


class Engine:
    """A Spark session that runs pipelines' queries."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        is_own: bool,
        on_progress: Callable[[Progress], None],
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self._spark = spark
        self._is_own = is_own
        self._secrets = secrets or {}
        self._starting = threading.Lock()
        self._listener = _listener(on_progress)
        spark.streams.addListener(self._listener)

    @classmethod
    def start(
        cls,
        settings: SparkSettings,
        names: Sequence[str],
        brokers: Iterable[BrokerLocation],
        on_progress: Callable[[Progress], None],
    ) -> Self:
        """Start Spark as the settings say.

        Raises:
            ConfigurationException: there is no Java, or no pyspark.
        """
        secrets = _hide_passwords(settings.master, brokers)
        spark = spark_session(
            f"pyjms {' '.join(names)}",
            master=settings.master,
            java=settings.java,
            conf={**_CONF, **settings.conf},
            aot_cache=settings.aot_cache,
        )
        return cls(spark, is_own=True, on_progress=on_progress, secrets=secrets)

    def ready(self, names: Sequence[str]) -> PipelinesReady:
        """Return what there is to say of it."""
        context = self._spark.sparkContext
        return PipelinesReady(names, str(context.master), context.version, context.uiWebUrl)

    def place(self, broker: BrokerLocation, folder: Path) -> PipelineLocation:
        """Return where a pipeline with that broker and folder runs."""
        variable = None if broker.password is None else self._secrets.get(broker.password)
        return PipelineLocation(
            url=broker.url,
            user=broker.user,
            password=broker.password if variable is None else None,
            password_env=variable,
            folder=folder,
        )

    def query(self, pipeline: Pipeline, place: PipelineLocation, *, once: bool) -> Query:
        """Start a pipeline's query.

        Raises:
            ConfigurationException: the pipeline cannot run like that.
        """
        from pyjms.spark.jms.source import JmsDataSource
        from pyjms.spark.pipeline.execution.query import start_query

        make_session_active(self._spark)  # Spark looks for Python data sources there
        with self._starting:
            # Each stream, as it starts, writes into the variables of its format without a lock;
            # two at once break them for good ("Illegal size 5 of collection"). So each query has
            # a format of its own.
            self._spark.dataSource.register(JmsDataSource)
            query: Query = start_query(self._spark, pipeline, place, once=once)
        return query

    def close(self) -> None:
        """End Spark, or leave the session that was given as it was."""
        try:
            if self._is_own:
                self._spark.stop()
            else:
                self._spark.streams.removeListener(self._listener)
        except Exception as error:  # it has ended before, which its pipelines were told
            logger.debug("Ending Spark: %s", type(error).__name__)


def _hide_passwords(master: str, brokers: Iterable[BrokerLocation]) -> dict[str, str]:
    """Put passwords into variables that Spark's processes here inherit; return their names.

    What a variable holds is in no plan. The machines of a cluster have other variables, so there
    the pipelines' option `passwordEnv` names one that is set on all of them.
    """
    if not master.startswith("local") or jvm_is_running():
        return {}
    found = dict.fromkeys(broker.password for broker in brokers if broker.password is not None)
    variables = {password: f"{_HIDDEN}{number}" for number, password in enumerate(found)}
    os.environ.update({name: password for password, name in variables.items()})
    return variables


def _listener(on_progress: Callable[[Progress], None]) -> Any:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryListener,
    )

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: QueryStartedEvent) -> None:
            """Known from the start itself."""

        def onQueryProgress(self, event: QueryProgressEvent) -> None:
            on_progress(event.progress)

        def onQueryIdle(self, event: QueryIdleEvent) -> None:
            """Nothing to tell."""

        def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
            """Known from who waits for it."""

    return Listener()
