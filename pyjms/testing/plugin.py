"""The pytest plugin: a real broker in memory for each test, and Spark for pipelines.

Most fixtures are coroutines, run by anyio's plugin: set `anyio_mode = "auto"` or mark tests with
`pytest.mark.anyio`. They use the backend of the test. `jms_blocking_app` is for tests that are not
coroutines. A test that uses the wrong ones fails with a hint. No other module of pyjms is imported
before a fixture needs it.
"""

from __future__ import annotations

import importlib.util
import inspect
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pyjms.support.embedded_broker import EmbeddedBroker
    from pyjms.template.template import JmsTemplate
    from pyjms.testing.app import JmsTestApp
    from pyjms.testing.blocking import BlockingJmsTestApp
    from pyjms.testing.chaos import Chaos
    from pyjms.testing.clock import VirtualClock
    from pyjms.testing.remote import RemoteBroker
    from pyjms.testing.spark import PipelineRun

from pyjms.runtime.distribution import install_command

_COROUTINE_FIXTURES = frozenset({"jms_app", "jms_broker", "jms_chaos", "jms_clock", "jms_template"})


_OPTION = "pyjms_broker"
_OPTION_HELP = (
    "the broker of the tests instead of an embedded one: a URL (tcp://localhost:61616), or an "
    "image that docker or podman runs for them (container:apache/activemq-classic:6.1.7)"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for a real broker, on the command line and in the project's configuration."""
    group = parser.getgroup("pyjms")
    group.addoption("--pyjms-broker", metavar="BROKER", help=_OPTION_HELP)
    parser.addini(_OPTION, _OPTION_HELP, default="")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail with a hint if no plugin would run the coroutine fixtures of a test."""
    if not isinstance(item, pytest.Function) or "anyio_backend" in item.fixturenames:
        return
    wanted = sorted(_COROUTINE_FIXTURES & set(item.fixturenames))
    if not wanted or item.config.pluginmanager.hasplugin("asyncio"):  # pytest-asyncio runs them
        return
    if inspect.iscoroutinefunction(item.function):
        hint = 'set anyio_mode = "auto" in the pytest section of pyproject.toml, or mark it with '
        hint += "@pytest.mark.anyio"
    else:
        hint = "make it `async def`, or use jms_blocking_app, whose template blocks"
    pytest.fail(f"{item.name} uses {', '.join(wanted)} and runs in no event loop: {hint}", False)


@pytest.fixture
async def jms_broker(request: pytest.FixtureRequest) -> AsyncIterator[EmbeddedBroker]:
    """A broker in memory, only for this test; `await jms_broker.drained("foo.bar")`.

    With `jms_chaos` its messages are stored in a directory of the test: they survive a restart.
    """
    from pyjms.support.embedded_broker import embedded_broker  # noqa: PLC0415
    from pyjms.testing.clock import real_time  # noqa: PLC0415

    folder = None
    if "jms_chaos" in request.fixturenames:
        folder = request.getfixturevalue("tmp_path") / "broker"
    broker = embedded_broker(folder)
    await broker.start()
    try:
        yield broker
    finally:
        with real_time():
            await broker.stop()


@pytest.fixture(scope="session")
def pyjms_real_broker_url(pytestconfig: pytest.Config) -> Iterator[str]:
    """The URL of the broker of `--pyjms-broker` or the setting `pyjms_broker`; empty: none."""
    chosen = pytestconfig.getoption("--pyjms-broker")
    broker = str(pytestconfig.getini(_OPTION) if chosen is None else chosen)
    if not broker.startswith("container:"):
        yield broker
        return
    from pyjms.testing.remote import broker_in_container  # noqa: PLC0415

    with broker_in_container(broker) as url:
        yield url


@pytest.fixture
def pyjms_broker_url(jms_broker: EmbeddedBroker, pyjms_real_broker_url: str) -> str:
    """The URL that the fixtures connect to; override it to run some tests on another broker."""
    return pyjms_real_broker_url or jms_broker.url


@pytest.fixture
async def jms_template(pyjms_broker_url: str) -> AsyncIterator[JmsTemplate]:
    """A JmsTemplate (coroutines) on the test's broker; its receives wait at most 5 s."""
    from pyjms.client.factory import ConnectionFactory  # noqa: PLC0415
    from pyjms.connection.caching import CachingConnectionFactory  # noqa: PLC0415
    from pyjms.template.template import JmsTemplate  # noqa: PLC0415
    from pyjms.testing.clock import real_time  # noqa: PLC0415

    # cached consumers would withhold prefetched messages from others
    factory = CachingConnectionFactory(ConnectionFactory(pyjms_broker_url), cache_consumers=False)
    try:
        yield JmsTemplate(factory, receive_timeout=5.0)
    finally:
        with real_time():
            await factory.destroy()


@pytest.fixture
async def jms_app(jms_broker: EmbeddedBroker, pyjms_broker_url: str) -> AsyncIterator[JmsTestApp]:
    """Runs handlers on the test's broker: `await jms_app.start(module)`.

    Messages are redelivered at once: `start(module, redelivery_delay=1.0)` delays them.
    """
    from pyjms.testing.app import JmsTestApp  # noqa: PLC0415

    broker: EmbeddedBroker | RemoteBroker = jms_broker
    if not pyjms_broker_url.startswith(jms_broker.url):
        from pyjms.testing.remote import RemoteBroker  # noqa: PLC0415

        broker = RemoteBroker(pyjms_broker_url)
        await broker.begin()
    app = JmsTestApp(broker, pyjms_broker_url)
    try:
        yield app
    finally:
        await app.stop()


@pytest.fixture
def jms_chaos(jms_app: JmsTestApp) -> Chaos:
    """Plans failures: `jms_chaos.fail(handler)`, `await jms_chaos.restart_broker()`."""
    return jms_app.chaos


@pytest.fixture
def jms_blocking_app(pyjms_real_broker_url: str) -> Iterator[BlockingJmsTestApp]:
    """Runs handlers on an embedded or real broker, for tests that are not coroutines.

    `jms_blocking_app.start(module)`, `jms_blocking_app.template.convert_and_send(...)`.
    """
    from pyjms.testing.blocking import BlockingJmsTestApp  # noqa: PLC0415

    with BlockingJmsTestApp(pyjms_real_broker_url or None) as app:
        yield app


@pytest.fixture
async def jms_clock() -> AsyncIterator[VirtualClock]:
    """Virtual time, which stands still until `await jms_clock.advance(seconds)`.

    It is the time of pyjms and of the broker: redelivery, expiration, time-outs of receives.
    `jms_app.drained` and the teardown of fixtures use real time.
    """
    from pyjms.testing.clock import VirtualClock  # noqa: PLC0415

    async with VirtualClock() as clock:
        yield clock


@pytest.fixture(scope="session")
def jms_spark() -> Iterator[SparkSession]:
    """The Spark session of all tests; starts within seconds. Skips if pyspark is not installed."""
    if importlib.util.find_spec("pyspark") is None:
        pytest.skip(f"Spark is not installed: {install_command('spark')}")
    from pyjms.testing.spark import local_session  # noqa: PLC0415

    session = local_session()
    yield session
    session.stop()


@pytest.fixture
def jms_run_pipeline(jms_spark: SparkSession, tmp_path: Path) -> Iterator[PipelineRun]:
    """Call it with a pipeline and messages; it returns the messages that the pipeline sent."""
    from pyjms.testing.spark import PipelineRun  # noqa: PLC0415

    run = PipelineRun(jms_spark, tmp_path / "checkpoints")
    yield run
    run.close()
