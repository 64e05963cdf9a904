"""The pytest plugin: a real broker, in memory, for each test; Spark, for pipelines.

Fixtures are coroutines and come alive through anyio's plugin: set `anyio_mode = "auto"`
or mark tests with `pytest.mark.anyio`. They run on whatever backend the test runs on.
Nothing of pyjms is imported until a fixture asks for it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyjms.core.template import JmsTemplate
    from pyjms.testing.app import JmsTestApp
    from pyjms.testing.broker import EmbeddedBroker
    from pyjms.testing.clock import VirtualClock
    from pyjms.testing.spark import PipelineRun

__all__ = [
    "jms_app",
    "jms_broker",
    "jms_clock",
    "jms_template",
    "pyjms_broker_url",
    "run_pipeline",
    "spark",
]


@pytest.fixture
async def jms_broker() -> AsyncIterator[EmbeddedBroker]:
    """A broker of this test's own, in memory; `await jms_broker.drained("foo.bar")`."""
    from pyjms.testing.broker import embedded_broker  # noqa: PLC0415
    from pyjms.testing.clock import real_time  # noqa: PLC0415

    broker = embedded_broker()
    await broker.start()
    try:
        yield broker
    finally:
        with real_time():
            await broker.stop()


@pytest.fixture
def pyjms_broker_url(jms_broker: EmbeddedBroker) -> str:
    """Where the fixtures connect to; override it to run the same tests on another broker."""
    return jms_broker.url


@pytest.fixture
async def jms_template(pyjms_broker_url: str) -> AsyncIterator[JmsTemplate]:
    """A JmsTemplate (coroutines) on the test's broker; its receives wait 5 s at most."""
    from pyjms.client.factory import ConnectionFactory  # noqa: PLC0415
    from pyjms.connection.caching import CachingConnectionFactory  # noqa: PLC0415
    from pyjms.core.template import JmsTemplate  # noqa: PLC0415
    from pyjms.testing.clock import real_time  # noqa: PLC0415

    # cached consumers would hold messages back from others
    factory = CachingConnectionFactory(ConnectionFactory(pyjms_broker_url), cache_consumers=False)
    try:
        yield JmsTemplate(factory, receive_timeout=5.0)
    finally:
        with real_time():
            await factory.destroy()


@pytest.fixture
async def jms_app(jms_broker: EmbeddedBroker, pyjms_broker_url: str) -> AsyncIterator[JmsTestApp]:
    """Runs handlers on the test's broker: `await jms_app.start(module)`.

    Redeliveries come at once: `start(module, redelivery_delay=1.0)` has them wait.
    """
    from pyjms.testing.app import JmsTestApp  # noqa: PLC0415

    app = JmsTestApp(jms_broker, pyjms_broker_url)
    try:
        yield app
    finally:
        await app.stop()


@pytest.fixture
async def jms_clock() -> AsyncIterator[VirtualClock]:
    """Time that stands still until `await jms_clock.advance(seconds)`.

    It is the time of pyjms and of the broker: redeliveries, expiry, timeouts of receives. Not of
    `jms_app.drained`, nor of the fixtures' own ends: these give up in real time.
    """
    from pyjms.testing.clock import VirtualClock  # noqa: PLC0415

    async with VirtualClock() as clock:
        yield clock


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The Spark session of all tests; it starts in seconds. Skips where pyspark is not there."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip('Spark is not installed: pip install "pyjms[spark]"')
    from pyjms.testing.spark import local_session  # noqa: PLC0415

    session = local_session()
    yield session
    session.stop()


@pytest.fixture
def run_pipeline(spark: SparkSession, tmp_path: Path) -> Iterator[PipelineRun]:
    """Call it with a pipeline and messages; it returns what the pipeline sent."""
    from pyjms.testing.spark import PipelineRun  # noqa: PLC0415

    run = PipelineRun(spark, tmp_path / "checkpoints")
    yield run
    run.close()
