"""What was recorded of the states of Spring's listener containers, with ours at two brokers.

At a real ActiveMQ 5.17.2 and at ours, each in a process of its own: how containers scale, stop,
start without a broker, and recover. Listeners wait for events and for calls that are counted, never
for a measured time.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import anyio
import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.errors import JMSException
from pyjms.jms.destination import Queue
from pyjms.listener.task_executor import TaskExecutor
from pyjms.runtime.backoff import FixedBackOff
from tests.kit.brokers.destination_names import destination_name
from tests.kit.clients.counted_calls import CountedFactory
from tests.kit.clients.remote import RemoteClient, closing
from tests.kit.data import spring_oracle
from tests.kit.failures.cutting_proxy import CuttingProxy
from tests.kit.listeners.embedded import Diary
from tests.kit.listeners.remote import build, diary, factory, heard, proxy, until

pytestmark = [pytest.mark.activemq, pytest.mark.parametrize("anyio_backend", ["asyncio"])]

__all__ = ["build", "diary", "factory", "proxy"]


@pytest.fixture
async def client(broker_url: str, request: pytest.FixtureRequest) -> AsyncIterator[RemoteClient]:
    """At either broker."""
    async with closing(RemoteClient(broker_url, destination_name(request))) as client:
        yield client


class Together:
    """A listener that waits until so many sessions have a message each."""

    def __init__(self, sessions: int) -> None:
        self.expected = sessions
        self.sessions: set[int] = set()
        self.scheduled: list[int] = []
        self.handled = 0
        self.container: Any = None
        self._complete = anyio.Event()

    async def __call__(self, message: Any, session: ActiveMQSession) -> None:
        self.scheduled.append(self.container.scheduled_consumer_count)
        self.sessions.add(id(session))
        if len(self.sessions) >= self.expected:
            self._complete.set()
        await self._complete.wait()
        self.handled += 1


def pulling(client: RemoteClient, prefetch: int = 0) -> CountedFactory:
    return CountedFactory(client.factory(f"jms.prefetchPolicy.queuePrefetch={prefetch}"))


async def idle_receives(counted: CountedFactory, count: int) -> None:
    """Wait for so many empty receives from now."""
    wanted = counted.calls.count("receive=null") + count
    await until(lambda: counted.calls.count("receive=null") >= wanted)


@pytest.mark.parametrize("variant", range(5))
async def test_scaling_up_with_real_prefetch(
    variant: int, client: RemoteClient, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["scale-up"][variant]
    counted = pulling(client, {0: 1000, 2: 0}.get(variant, 1))
    listener = Together(expected["threadsThatHandledAMessage"])
    container = listener.container = build(
        listener, connection_factory=counted, concurrency="1-5",
        idle_consumer_limit=3 if variant == 4 else 1,
    )  # fmt: skip
    if variant == 3:  # sent while it runs
        await container.start()
    await client.send("q", *map(str, range(expected["handled"])))
    await container.start()
    await until(lambda: listener.handled == expected["handled"])
    assert max(listener.scheduled) == expected["maxScheduled"]
    assert len(listener.sessions) == expected["threadsThatHandledAMessage"]
    # Spring 4.3 hangs here with a prefetch of 0; the newest does not
    assert expected["shutdownWithin5s"] is (variant != 2)
    with anyio.fail_after(60):
        await container.shutdown()


LIMITS: dict[int, dict[str, Any]] = {
    0: {"idle_receives_per_task_limit": -1},  # the default of 4.3; since 6.2 there is a limit
    1: {"max_messages_per_task": 5, "idle_task_execution_limit": 1},
    2: {"max_messages_per_task": 5, "idle_task_execution_limit": 3},
}


@pytest.mark.parametrize("variant", range(4))
async def test_scaling_down(variant: int, client: RemoteClient, build: Callable[..., Any]) -> None:
    expected = spring_oracle()["scale-down"][variant]
    counted = pulling(client)
    listener = Together(5)
    limits = LIMITS.get(variant) or {"task_executor": TaskExecutor(10)}
    container = listener.container = build(
        listener, connection_factory=counted, concurrency="1-5", receive_timeout=0.03, **limits
    )
    await client.send("q", *"abcde")
    await container.start()
    await until(lambda: listener.handled == 5)
    if variant:  # -2147483648 is Spring's "no limit"
        assert container.max_messages_per_task == expected["effectiveMaxMessagesPerTask"]
    assert listener.scheduled[-1] == expected["scheduledWhenLastMessageDone"]
    await idle_receives(counted, 60)  # 12 for each of 5
    await until(lambda: container.scheduled_consumer_count == expected["scheduledAfterIdle"])
    await idle_receives(counted, 20)
    assert container.scheduled_consumer_count == expected["scheduledAfterIdle"]


async def test_numbers_changed_at_run_time(client: RemoteClient, build: Callable[..., Any]) -> None:
    steps = iter(spring_oracle()["runtime-concurrency"])

    def state() -> dict[str, Any]:
        return {
            "concurrentConsumers": container.concurrent_consumers,
            "maxConcurrentConsumers": container.max_concurrent_consumers,
            "scheduled": container.scheduled_consumer_count,
            "active": container.active_consumer_count,
            "paused": container.paused_task_count,
            "isRunning": container.is_running,
            "isActive": container.is_active,
        }

    async def reached() -> None:
        step = next(steps)
        await until(lambda: {"step": step["step"], **state()} == step)

    counted = pulling(client)
    listener = Together(4)
    container = listener.container = build(
        listener, connection_factory=counted, concurrent_consumers=2, receive_timeout=0.03
    )
    await container.start()
    await reached()
    container.concurrent_consumers = 4
    await idle_receives(counted, 6)
    await reached()
    await client.send("q", *map(str, range(40)))
    await until(lambda: listener.handled == 40)
    await reached()
    container.max_concurrent_consumers = 1
    await reached()
    container.concurrent_consumers = 1
    container.max_concurrent_consumers = 1
    await reached()
    await container.stop()
    await reached()
    await container.start()
    await reached()
    assert next(steps, None) is None


async def test_rejected_tasks(
    client: RemoteClient, diary: Diary, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["rejected-tasks"]
    executor = TaskExecutor(2)
    container = build(diary, concurrent_consumers=4, task_executor=executor)

    async def reached(step: dict[str, Any]) -> None:
        await until(lambda: container.active_consumer_count == step["active"])
        assert container.scheduled_consumer_count == step["scheduled"]
        assert container.paused_task_count == step["paused"]
        assert container.is_running == step["isRunning"]

    await container.start()
    await reached(expected["before"])
    executor.max_workers = 8
    await reached(expected["before"])
    await client.send("q", "a")
    await heard(diary, lambda: diary.deliveries == ["a#1"])
    await reached(expected["after"])


EXCEPTION_KINDS: dict[str, tuple[Exception, bool, Exception | None]] = {
    "RuntimeException": (RuntimeError("runtime trouble"), True, None),
    "Error": (AssertionError("an error"), True, None),
    "JMSException": (JMSException("jms trouble"), True, None),
    "JMSException, no error handler": (JMSException("jms trouble"), False, None),
    "RuntimeException, no error handler": (RuntimeError("runtime trouble"), False, None),
    "RuntimeException, error handler throws": (
        RuntimeError("runtime trouble"), True, RuntimeError("from error handler"),
    ),
}  # fmt: skip
SPRINGS_FAILED = "Execution of JMS message listener failed, and no ErrorHandler has been set."


@pytest.mark.parametrize("kind", EXCEPTION_KINDS)
async def test_which_listener_gets_which_exception(
    kind: str, client: RemoteClient, factory: ConnectionFactory, diary: Diary, build: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    lines = spring_oracle()["exception-kinds"]
    expected = next(line for line in lines if line["listenerThrows"] == kind)
    error, has_handler, second = EXCEPTION_KINDS[kind]
    told: list[Exception] = []

    async def listener(message: Any) -> None:
        await diary(message)
        if message.text == "bad" and not message.redelivered:
            raise error

    def handle(failure: Exception) -> None:
        diary.on_error(failure)
        if second is not None:
            raise second

    counted = CountedFactory(factory)
    container = build(
        listener, connection_factory=counted, session_transacted=True,
        exception_listener=told.append, error_handler=handle if has_handler else None,
        recovery_interval=0.05,
    )  # fmt: skip
    await client.send("q", "bad", "good")
    await container.start()
    await heard(diary, lambda: "good#1" in diary.deliveries)
    await container.shutdown()
    assert diary.deliveries == expected["deliveries"]
    assert len(diary.errors) == len(expected["errorHandler"])
    assert all(seen is error for seen in diary.errors)
    assert len(told) == len(expected["exceptionListener"])
    calls = dict(expected["calls"])
    recoveries = calls["ConnectionFactory.createConnection"] - 1
    calls["Connection.createSession"] += recoveries  # the newest Spring tries the new connection
    calls["Session.createConsumer"] += recoveries
    assert counted.count(*calls) == calls
    queue = f"{client.prefix}.q"
    springs = [x.replace("DefaultMessageListenerContainer: ", "") for x in expected["logs"]]
    springs = [
        x.replace(SPRINGS_FAILED, f"Listener {queue} failed on queue://{queue}") for x in springs
    ]
    springs = [x.replace("'q'", f"'{queue}'").removeprefix("WARN ") for x in springs]
    warned = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [line[: len(x)] for line, x in zip(warned, springs, strict=True)] == springs


class Busy:
    """A listener that stays busy until `go` is set."""

    def __init__(self, diary: Diary) -> None:
        self.diary = diary
        self.entered, self.go = anyio.Event(), anyio.Event()
        self.finished = 0

    async def __call__(self, message: Any) -> None:
        await self.diary(message)
        self.entered.set()
        await self.go.wait()
        self.finished += 1


async def test_stop_while_the_listener_is_busy(
    client: RemoteClient, diary: Diary, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["stop-semantics"][0]
    listener = Busy(diary)
    container = build(listener, session_transacted=True, prefetch=1)
    await client.send("q", "a", "b")
    await container.start()
    await listener.entered.wait()
    await container.stop()
    now = expected["immediately"]
    assert (container.is_running, container.is_active) == (now["isRunning"], now["isActive"])
    assert (container.active_consumer_count, listener.finished) == (now["activeConsumers"], 0)
    listener.go.set()
    then = expected["afterListenerFinished"]
    await until(lambda: container.active_consumer_count == then["active"])
    assert listener.finished == then["listenerCompleted"]
    assert container.scheduled_consumer_count == then["scheduled"]
    assert container.paused_task_count == then["paused"]
    await container.start()
    await heard(diary, lambda: len(diary.deliveries) == len(expected["afterRestart"]))
    assert diary.deliveries == expected["afterRestart"]


async def test_stop_callbacks(
    client: RemoteClient, diary: Diary, build: Callable[..., Any]
) -> None:
    expected = spring_oracle()["stop-semantics"][1]
    listener = Busy(diary)
    container = build(listener)
    called: list[str] = []
    await client.send("q", "a")
    await container.start()
    await listener.entered.wait()
    await container.stop(lambda: called.append(f"first, {listener.finished} handled"))
    assert bool(called) is expected["firstCallbackInline"]
    await container.stop(lambda: called.append("second"))
    assert called.count("second") == expected["secondCallbackCalledImmediately"]
    listener.go.set()
    await until(lambda: len(called) == 2)
    handled = expected["firstCallback"]["handledBeforeCallback"]
    assert called == ["second", f"first, {handled} handled"]
    await container.stop(lambda: called.append("third"))
    assert called.count("third") == expected["thirdCallbackCalledImmediately"]


@pytest.mark.parametrize("variant", range(2, 6))
async def test_a_message_received_just_as_stop_comes(
    variant: int,
    client: RemoteClient,
    factory: ConnectionFactory,
    diary: Diary,
    build: Callable[..., Any],
) -> None:
    expected = spring_oracle()["stop-semantics"][variant]
    counted = CountedFactory(factory)
    container = build(
        diary, connection_factory=counted, session_transacted=expected["sessionTransacted"],
        accept_messages_while_stopping=expected["acceptMessagesWhileStopping"],
        error_handler=diary.on_error, receive_timeout=30,
    )  # fmt: skip
    stopped = anyio.Event()

    async def stop(_message: Any) -> None:
        with anyio.CancelScope(shield=True):  # as if another task stopped it right now
            await container.stop(stopped.set)

    counted.on_receive = stop
    await client.send("q", "a")
    await container.start()
    with anyio.fail_after(60):
        await stopped.wait()
    await container.shutdown()
    assert len(diary.deliveries) == expected["listenerCalls"]
    assert diary.errors == []
    left = await client.take("q")
    assert len(left) == expected["leftInQueue"]
    if left:
        assert left[0].redelivered is expected["redeliveredFlagOfLeftMessage"]


async def consumed(client: RemoteClient) -> None:
    """Wait until the broker knows that the messages of the queue are consumed."""
    session = await client.session()
    with anyio.fail_after(60):
        while [  # noqa: ASYNC110
            m async for m in await session.create_browser(cast("Queue", client.destination("q")))
        ]:
            await anyio.sleep(0.01)


@pytest.mark.parametrize("variant", range(3))
async def test_the_broker_goes_and_comes_back(
    variant: int,
    client: RemoteClient,
    proxy: CuttingProxy,
    diary: Diary,
    build: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = spring_oracle()["recovery"][variant]
    container = build(
        diary, connection_factory=ConnectionFactory(proxy.url), session_transacted=True,
        recovery_interval=0.05, cache_level=expected["cacheLevel"],
        concurrent_consumers=expected["consumers"], error_handler=diary.on_error,
    )  # fmt: skip
    await container.start()
    await client.send("q", "before1", "before2")
    await heard(diary, lambda: len(diary.deliveries) == 2)
    await consumed(client)
    proxy.is_open = False
    await proxy.cut_now()
    with anyio.fail_after(30):
        await proxy.refused()
    await until(lambda: container.is_recovering)
    proxy.is_open = True
    await client.send("q", "after1", "after2")
    await heard(diary, lambda: len(diary.deliveries) == 4)
    await until(lambda: not container.is_recovering)
    assert sorted(diary.deliveries) == sorted(expected["deliveries"])
    warned = [r for r in caplog.records if "trying to recover" in r.getMessage()]
    assert len(warned) == expected["warnLogs"]
    assert len(diary.errors) == expected["errorHandlerCalls"]
    assert container.scheduled_consumer_count == expected["consumers"]


async def test_a_broker_that_comes_later(
    client: RemoteClient,
    proxy: CuttingProxy,
    diary: Diary,
    build: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = spring_oracle()["start-without-broker"][0]
    proxy.is_open = False
    container = build(diary, connection_factory=ConnectionFactory(proxy.url),
                      recovery_interval=0.05)  # fmt: skip
    await client.send("q", "hello")
    await container.start()
    just_after = expected["justAfterStart"]
    assert container.is_running is just_after["isRunning"]
    assert container.is_active is just_after["isActive"]
    assert container.is_registered_with_destination is just_after["isRegistered"]
    with anyio.fail_after(30):
        await proxy.refused()
    proxy.is_open = True
    await heard(diary, lambda: diary.deliveries == expected["deliveries"])
    assert "trying to recover" not in caplog.text  # nothing was lost


async def test_no_broker_ever(
    client: RemoteClient,
    proxy: CuttingProxy,
    diary: Diary,
    build: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Until its back-off is exhausted; then it waits for a start."""
    expected = spring_oracle()["start-without-broker"][1]
    proxy.is_open = False
    container = build(diary, connection_factory=ConnectionFactory(proxy.url),
                      back_off=FixedBackOff(0.15, 3), max_messages_per_task=10)  # fmt: skip
    await container.start()
    await until(lambda: container.paused_task_count == expected["paused"])
    assert container.is_running is expected["isRunning"]
    assert container.is_active is expected["isActive"]
    assert container.scheduled_consumer_count == expected["scheduled"]
    assert container.active_consumer_count == expected["active"]
    assert [first_words(line, client) for line in caplog.messages] == [
        as_newest(line) for line in expected["logs"]
    ]
    proxy.is_open = True
    await client.send("q", "hello")
    await container.start()
    await heard(diary, lambda: diary.deliveries == ["hello#1"])


def as_newest(line: str) -> str:
    """A line of Spring 4.3 as the newest writes it, without its level, class and cause."""
    text = line.partition(": ")[2].partition(" Cause:")[0]
    return text.replace("FixedBackOff{", "FixedBackOffExecution[").replace("}.", "].")


def first_words(line: str, client: RemoteClient) -> str:
    """A line of ours without its cause, which names the address."""
    return line.partition(" Cause:")[0].replace(f"'{client.prefix}.q'", "'q'")


@pytest.mark.parametrize("transport", ["tcp", "failover"])
async def test_a_simple_container_and_an_outage(
    transport: str,
    client: RemoteClient,
    proxy: CuttingProxy,
    diary: Diary,
    build: Callable[..., Any],
) -> None:
    absent, plain, failover = spring_oracle()["simple-container"]
    expected = plain if transport == "tcp" else failover
    url = proxy.url if transport == "tcp" else f"failover:({proxy.url})?initialReconnectDelay=10"
    told: list[Exception] = []
    container = build(
        diary, "SimpleMessageListenerContainer", connection_factory=ConnectionFactory(url),
        concurrency="2-4", exception_listener=told.append, recover_on_exception=True,
    )  # fmt: skip
    if transport == "tcp":
        proxy.is_open = False
        with pytest.raises(JMSException):
            await container.start()
        assert container.is_running is absent["isRunning"]
        proxy.is_open = True
    await container.start()
    assert container.scheduled_consumer_count == expected["consumersForConcurrency 2-4"]
    await client.send("q", "before")
    await heard(diary, lambda: len(diary.deliveries) == 1)
    refused = proxy.refusals
    proxy.is_open = False
    await proxy.cut_now()
    await until(lambda: proxy.refusals > refused)
    await until(lambda: len(told) == len(expected["exceptionListener"]))
    proxy.is_open = True
    await client.send("q", "after")
    if expected["receivesAgain"]:
        await heard(diary, lambda: len(diary.deliveries) == 2)
    else:
        assert await client.left("q") == ["after"]  # nobody else took it
    assert container.is_running is expected["isRunning"]
    assert len(told) == len(expected["exceptionListener"])
