"""Pipelines under test: one Spark session per pytest run, and a real broker in memory on a port.

Spark runs Python in other processes, so the broker has a port on 127.0.0.1. Nothing is patched. A
run takes some seconds, so test the function itself with `spark.createDataFrame` first.
(spark-pipeline 6.2)
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeAlias, TypeVar

from pydantic import BaseModel

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import ConfigurationException
from pyjms.jms.api import MessageConsumer, Session
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, Topic, parse_destination
from pyjms.jms.message import Message
from pyjms.settings import PyjmsSettings
from pyjms.spark.drain import drain_flag
from pyjms.spark.events import PipelineEvent, PipelineFailed
from pyjms.spark.pipeline import Pipeline, pipeline_marks
from pyjms.spark.session import spark_session
from pyjms.support.embedded_broker import EmbeddedBroker, embedded_broker
from pyjms.sync.portal import call_on_loop, shared_loop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


P = ParamSpec("P")
R = TypeVar("R")

Body: TypeAlias = "str | bytes | Mapping[str, Any] | BaseModel"
"""The body of a text or bytes message; mappings and models become JSON text."""

_CONF: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.log.level": "ERROR",
    # interpreted expressions: to compile them takes longer than the few rows of a test
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # without the JVM's optimizing compiler: it takes half of the CPU time of a short run
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
    ),
}
_TOPIC_WAIT: Final = 0.5
"""Seconds without a message after which all messages of a topic have arrived."""
_NO_PREFETCH: Final = "jms.prefetchPolicy.all=0"


def local_session() -> SparkSession:
    """Return a session for tests: two concurrent tasks, four attempts each, no web UI."""
    folder = drain_flag().parent  # set before the JVM starts; removed when this process ends
    conf = {**_CONF, "spark.sql.warehouse.dir": str(folder / "warehouse")}
    return spark_session("pyjms-test", master="local[2,4]", conf=conf)


class PipelineRun:
    """Runs pipelines on messages: `sent = run_pipeline(delays, ["...", "..."])`.

    The fixture `run_pipeline` is an instance for one test: a second call continues with the same
    broker and checkpoints, as a later run would.
    """

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.url: str = ""
        """The broker's URL, after the first run."""
        self._spark = spark
        self._folder = folder
        self._broker: EmbeddedBroker | None = None

    def __call__(
        self,
        pipeline: Pipeline | Callable[..., Any],
        messages: Sequence[Body | Message] | Mapping[str, Sequence[Body | Message]],
    ) -> list[Message]:
        """Send `messages` to the pipeline's source, run it until they are done, return its output.

        Blocks for seconds. `pipeline` is a `Pipeline` or a function marked once. With several
        sources, `messages` maps each source's name to its messages. Use `take` for messages sent to
        destinations other than the sink (`destination` columns). If the sink is a folder, the
        result is [].

        Raises:
            AssertionError: the pipeline failed; its message says why.
            ConfigurationException: the pipeline cannot run, or reads a topic.
        """
        chosen = _choose(pipeline)
        by_source = messages if isinstance(messages, Mapping) else {"messages": messages}
        unknown = set(by_source) - set(chosen.sources)
        if unknown:
            raise ConfigurationException(
                f"Pipeline {chosen.name} has no source {', '.join(sorted(unknown))}",
                hint=f"its sources are {', '.join(chosen.sources)}",
            )
        return self._call(self._run, chosen, by_source)

    def take(self, destination: str) -> list[Message]:
        """Remove and return all messages of a queue."""
        return self._call(self._take, parse_destination(destination))

    def dead_letters(self, queue: str = DEFAULT_DEAD_LETTER_QUEUE) -> list[Message]:
        """Remove and return the messages in the pipeline's `dead_letter` queue."""
        return self.take(queue)

    def close(self) -> None:
        """Stop the broker. Idempotent."""
        broker, self._broker = self._broker, None
        if broker is not None:
            self._call(broker.stop)

    @staticmethod
    def _call(
        function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        return call_on_loop(shared_loop(), partial(function, *args, **kwargs))

    async def _run(
        self, pipeline: Pipeline, messages: Mapping[str, Sequence[Body | Message]]
    ) -> list[Message]:
        from pyjms.spark.run import PipelineRunner  # noqa: PLC0415

        await self._start()
        for source, bodies in messages.items():
            await self._send(pipeline.sources[source], bodies)
        url = {"broker_url": self.url}
        settings = PyjmsSettings.model_validate(
            {
                "activemq": url,
                "brokers": {name: url for name in [pipeline.broker] if name is not None},
                "spark": {"checkpoint_root": str(self._folder), "restart": {"max_attempts": 0}},
            }
        )
        failures = _Failures()
        runner = PipelineRunner(settings, [pipeline], [failures], spark=self._spark)
        sink = None if pipeline.folder is not None else parse_destination(pipeline.sink)
        if isinstance(sink, Topic):
            return await self._with_subscription(sink, runner.run_async, failures)
        done = await runner.run_async(once=True)
        assert done, failures.text
        return [] if sink is None else await self._take(sink)

    async def _with_subscription(
        self, topic: Topic, run: Callable[..., Any], failures: _Failures
    ) -> list[Message]:
        async with _open_session(self.url) as session:
            consumer = await session.create_consumer(topic)
            assert await run(once=True), failures.text
            found = [message async for message in _all_of(consumer, _TOPIC_WAIT)]
            await session.commit()
            return found

    async def _start(self) -> None:
        if self._broker is None:
            self._broker = embedded_broker()
            await self._broker.start()
            self.url = await self._broker.tcp_url()

    async def _send(self, name: str, bodies: Sequence[Body | Message]) -> None:
        destination = parse_destination(name)
        if isinstance(destination, Topic):
            raise ConfigurationException(
                f"{name} is a topic without a subscription before the pipeline runs",
                hint=f"read the queue Consumer.NAME.{destination.physical_name} of a virtual topic",
            )
        async with _open_session(self.url) as session:
            producer = await session.create_producer(destination)
            for body in bodies:
                await producer.send(_message(session, body))
            await session.commit()

    async def _take(self, destination: Destination) -> list[Message]:
        await self._start()
        join = "&" if "?" in self.url else "?"
        async with _open_session(f"{self.url}{join}{_NO_PREFETCH}") as session:
            consumer = await session.create_consumer(destination)
            found = [message async for message in _all_of(consumer, 0.0)]
            await session.commit()
            return found


class _Failures:
    """Keeps the reason for which a pipeline failed."""

    def __init__(self) -> None:
        self.text = ""

    def on_event(self, event: PipelineEvent) -> None:
        if isinstance(event, PipelineFailed):
            self.text = f"pipeline {event.pipeline} failed: {event.reason}"


@asynccontextmanager
async def _open_session(url: str) -> AsyncIterator[Session]:
    """Yield a transacted session on a started connection, closed at the end of the block."""
    connection = await ConnectionFactory(url).create_connection()
    try:
        await connection.start()
        yield await connection.create_session(transacted=True)
    finally:
        await connection.close()


async def _all_of(consumer: MessageConsumer, timeout: float) -> AsyncIterator[Message]:
    while (message := await consumer.receive(timeout)) is not None:
        yield message


def _choose(pipeline: Pipeline | Callable[..., Any]) -> Pipeline:
    if isinstance(pipeline, Pipeline):
        return pipeline
    marks = pipeline_marks(pipeline)
    if len(marks) != 1:
        raise ConfigurationException(
            f"{getattr(pipeline, '__name__', pipeline)} is marked as {len(marks)} pipelines",
            hint="give run_pipeline one of pipeline_marks(function)"
            if marks
            else "mark it with @jms_pipeline",
        )
    return marks[0]


def _message(session: Session, body: Body | Message) -> Message:
    if isinstance(body, Message):
        return body
    if isinstance(body, bytes):
        return session.create_bytes_message(body)
    if isinstance(body, BaseModel):
        return session.create_text_message(body.model_dump_json())
    return session.create_text_message(body if isinstance(body, str) else json.dumps(dict(body)))
