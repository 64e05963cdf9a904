"""Start, stop, restart, shut down. (spring-jms 1.10)"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

from pyjms.errors import (
    ConfigurationException,
    ConnectionFailedException,
    InvalidSelectorException,
    UnsupportedOperationException,
)
from pyjms.jms.message import Message
from pyjms.listener.task_executor import TaskExecutor, Work
from pyjms.runtime import clock as _clock
from pyjms.runtime.event_loop import BackgroundTask
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.listeners.containers import Recorder


class Gate:
    """A listener that stays busy until it is released."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.entered = anyio.Event()
        self.go = anyio.Event()
        self.finished = 0

    async def __call__(self, message: Message) -> None:
        self.recorder.note(message)
        self.entered.set()
        await self.go.wait()
        self.finished += 1


def nothing(message: Message) -> None:
    """Takes a message."""


@pytest.mark.fact(
    "spring-jms 1.10/after properties set / initialize", "spring-jms 1.10/start",
    "spring-jms 1.10/stop", "spring-jms 1.10/start again", "spring-jms 1.10/shutdown / destroy",
)  # fmt: skip
async def test_states_and_what_each_call_does(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(nothing, concurrent_consumers=2)

    def state() -> Any:
        return container.is_active, container.is_running

    assert state() == (False, False)
    await container.initialize()
    assert state() == (True, False)
    assert (container.scheduled_consumer_count, container.paused_task_count) == (2, 2)
    assert provider.calls == []
    await container.start()
    assert state() == (True, True)
    assert provider.calls[:2] == ["ConnectionFactory.createConnection", "Connection.start"]
    assert container.paused_task_count == 0
    await clock.settle()
    invokers = container.consumer_pool.invokers()
    provider.calls.clear()
    await container.stop()
    assert state() == (True, False)
    assert provider.calls[0] == "Connection.stop"
    await clock.settle()
    assert (container.scheduled_consumer_count, container.active_consumer_count) == (2, 0)
    await container.start()
    assert state() == (True, True)
    assert container.consumer_pool.invokers() == invokers
    await clock.settle()
    await container.shutdown()
    assert state() == (False, False)
    assert (container.scheduled_consumer_count, container.paused_task_count) == (0, 0)
    assert provider.open_connections == []
    assert provider.open_sessions == []


@pytest.mark.fact("spring-jms 1.10/start")
@pytest.mark.parametrize(("level", "attempts"), [("CONNECTION", 1), ("NONE", 0)])
async def test_start_connects_but_never_raises(
    level: str,
    attempts: int,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "pyjms.listener")
    provider.down = "nobody there"
    container = build(nothing, cache_level=level, exception_listener=recorder.on_exception)
    await container.start()
    assert container.is_running
    assert provider.calls.count("ConnectionFactory.createConnection") == attempts
    assert [type(error) for error in recorder.exceptions] == [ConnectionFailedException] * attempts
    assert all(record.levelno == logging.DEBUG for record in caplog.records)
    await container.shutdown()


@pytest.mark.fact("spring-jms 1.10.1")
@pytest.mark.parametrize("options", [{"session_transacted": True}, {"max_messages_per_task": 5}])
async def test_stop_does_not_wait_and_the_listener_ends_normally(
    options: Any,
    provider: JmsProvider,
    recorder: Recorder,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = oracle["stop-semantics"][0]
    gate = Gate(recorder)
    container = build(gate, **options)
    provider.send("q", "a", "b")
    await container.start()
    await gate.entered.wait()
    provider.calls.clear()
    await container.stop()
    assert gate.finished == 0
    now = expected["immediately"]
    assert (container.is_running, container.is_active) == (now["isRunning"], now["isActive"])
    assert container.active_consumer_count == now["activeConsumers"]
    gate.go.set()
    await clock.settle()
    then = expected["afterListenerFinished"]
    assert gate.finished == then["listenerCompleted"]
    assert provider.texts("q") == then["queueLeft"]
    assert container.scheduled_consumer_count == then["scheduled"]
    assert container.active_consumer_count == then["active"]
    if "session_transacted" in options:
        assert provider.calls.count("Session.commit") == 1
        assert container.paused_task_count == then["paused"]
    await container.start()
    await clock.settle()
    assert recorder.deliveries == expected["afterRestart"]


@pytest.mark.fact("spring-jms 1.10.2")
async def test_stop_callbacks(
    provider: JmsProvider,
    recorder: Recorder,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = oracle["stop-semantics"][1]
    gate = Gate(recorder)
    container = build(gate)
    called = []
    await container.stop(lambda: called.append("not started"))
    assert called == ["not started"]
    provider.send("q", "a")
    await container.start()
    await gate.entered.wait()
    await container.stop(lambda: called.append(f"first, {gate.finished}"))
    assert ("first, 0" in called) == expected["firstCallbackInline"]
    await container.stop(lambda: called.append("second"))
    assert called.count("second") == expected["secondCallbackCalledImmediately"]
    gate.go.set()
    await clock.settle()
    assert called == ["not started", "second", "first, 1"]
    await container.stop(lambda: called.append("third"))
    assert called.count("third") == expected["thirdCallbackCalledImmediately"]


@pytest.mark.fact("spring-jms 1.10.2")
async def test_a_start_discards_the_callback(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    gate = Gate(recorder)
    container = build(gate)
    called = []
    provider.send("q", "a")
    await container.start()
    await gate.entered.wait()
    await container.stop(lambda: called.append(1))
    await container.start()
    gate.go.set()
    await clock.settle()
    await container.shutdown()
    assert called == []


@pytest.mark.fact("spring-jms 1.10.3")
@pytest.mark.parametrize("variant", [2, 3, 4, 5])
async def test_a_message_received_just_as_stop_comes(
    variant: int,
    provider: JmsProvider,
    recorder: Recorder,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = oracle["stop-semantics"][variant]
    container = build(
        recorder.note, session_transacted=expected["sessionTransacted"],
        accept_messages_while_stopping=expected["acceptMessagesWhileStopping"],
        error_handler=recorder.on_error,
    )  # fmt: skip

    async def stop(consumer: Any, message: Message | None) -> None:
        if message is not None:
            with anyio.CancelScope(shield=True):  # as if another task stopped it right now
                await container.stop()

    provider.on_receive = stop
    provider.send("q", "a")
    await container.start()
    if expected["listenerCalls"]:
        await recorder.until(lambda: bool(recorder.deliveries))
    await clock.settle()
    await container.shutdown()
    assert len(recorder.deliveries) == expected["listenerCalls"]
    assert len(provider.texts("q")) == expected["leftInQueue"]
    if expected["redeliveredFlagOfLeftMessage"]:
        assert provider.backlog("q").entries[0].count == 1  # the next delivery is marked
        assert provider.calls.count("Session.rollback") == 1
    assert recorder.errors == []
    warning = (
        "Rejecting received message because of the listener container having been stopped "
        "in the meantime: ID:a"
    )
    assert (warning in caplog.text) == (not expected["acceptMessagesWhileStopping"])


@pytest.mark.fact("spring-jms 1.10.4")
async def test_an_inactive_stopped_container_keeps_nothing_open(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    gate = Gate(recorder)
    container = build(gate, concurrent_consumers=2)
    provider.send("q", "a")
    await container.start()
    await gate.entered.wait()
    await clock.settle()
    await container.stop()
    await clock.settle()
    assert len(provider.open_sessions) == 2  # one listener is at work still
    gate.go.set()
    await clock.settle()
    assert (provider.open_sessions, provider.open_connections) == ([], [])
    assert not container.is_registered_with_destination
    await container.start()
    await clock.settle()
    assert len(provider.open_sessions) == 2
    provider.send("q", "b")
    await recorder.until(lambda: recorder.deliveries == ["a#1", "b#1"])


@pytest.mark.parametrize("timeout", [None, 60.0])
async def test_waiting_consumers_are_stopped_at_once(
    timeout: float | None, provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(nothing, receive_timeout=timeout, concurrent_consumers=3)
    await container.start()
    await clock.settle()
    before = clock.now()
    await container.shutdown()
    assert clock.now() == before
    assert container.active_consumer_count == 0


@pytest.mark.fact("spring-jms 1.10.5", "spring-jms 1.10.6")
async def test_shutdown_waits_a_round_interrupts_and_waits_another(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], jumping: VirtualClock
) -> None:
    gate = Gate(recorder)
    container = build(gate, session_transacted=True, receive_timeout=3)
    provider.send("q", "a")
    await container.start()
    await gate.entered.wait()
    before = jumping.now()
    await container.shutdown()
    assert jumping.now() - before == 3  # the waiting listener was interrupted after one round
    assert gate.finished == 0
    assert provider.texts("q") == ["a"]


@pytest.mark.fact("spring-jms 1.10.5")
async def test_shutdown_gives_up_a_thread_after_two_rounds(
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    go, entered = threading.Event(), anyio.Event()
    container = build(None, session_transacted=True, receive_timeout=3)

    def listener(message: Message) -> None:
        recorder.loop.call_soon(entered.set)
        go.wait()

    container.message_listener = listener
    provider.send("q", "a")
    await container.start()
    await entered.wait()
    done = anyio.Event()

    async def shut_down() -> None:
        await container.shutdown()
        done.set()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(shut_down)
        await clock.advance(5.9)
        assert not done.is_set()
        await clock.advance(0.2)
        await done.wait()
    assert container.active_consumer_count == 0
    assert provider.texts("q") == ["a"]
    assert "Shutdown does not wait any longer for 1 consumers of destination 'q'" in caplog.text
    go.set()


async def test_shutdown_lets_listeners_finish_within_the_deadline(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    async def listener(message: Message) -> None:
        await _clock.sleep(20)
        recorder.note(message)

    container = build(listener, session_transacted=True)
    provider.send("q", "a")
    await container.start()
    await clock.settle()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(container.shutdown, 30)
        await clock.advance(20)
    assert recorder.deliveries == ["a#1"]
    assert provider.texts("q") == []
    assert provider.calls.count("Session.commit") == 1


@pytest.mark.fact("spring-jms 1.10.5")
@pytest.mark.parametrize(
    "options", [{"accept_messages_while_stopping": True}, {"receive_timeout": None}]
)
async def test_shutdown_without_limit(
    options: Any,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    gate = Gate(recorder)
    container = build(gate, **options)
    provider.send("q", "a")
    await container.start()
    await gate.entered.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(container.shutdown)
        await clock.advance(3600)
        assert container.active_consumer_count == 1
        gate.go.set()
    assert gate.finished == 1


@pytest.mark.fact("spring-jms 1.10.7")
async def test_the_three_counts(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    gate = Gate(recorder)
    container = build(gate, concurrent_consumers=3, task_executor=TaskExecutor(2))

    def counts() -> Any:
        return (container.scheduled_consumer_count, container.active_consumer_count,
                container.paused_task_count)  # fmt: skip

    await container.initialize()
    assert counts() == (3, 0, 3)
    await container.start()
    assert counts() == (3, 2, 1)
    await container.stop()
    await clock.settle()
    assert counts() == (3, 0, 3)
    loops = build(gate, concurrent_consumers=2)
    await loops.start()
    await loops.stop()
    await clock.settle()
    assert loops.scheduled_consumer_count == 2
    assert loops.active_consumer_count == loops.paused_task_count == 0  # waiting for a restart


@pytest.mark.fact("spring-jms 1.10.8")
async def test_rejected_tasks(
    provider: JmsProvider,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = oracle["rejected-tasks"]
    executor = TaskExecutor(2)
    container = build(nothing, concurrent_consumers=4, task_executor=executor, receive_timeout=0.2)

    def check(step: Any) -> None:
        assert container.scheduled_consumer_count == step["scheduled"]
        assert container.active_consumer_count == step["active"]
        assert container.paused_task_count == step["paused"]
        assert container.is_running == step["isRunning"]

    await container.start()
    await clock.advance(0.5)
    check(expected["before"])
    rejected = [r.getMessage() for r in caplog.records if "rejected and paused" in r.getMessage()]
    assert len(rejected) == 2
    assert rejected[0].startswith(
        "Listener container task [DefaultMessageListenerContainer-3] has been rejected and paused: "
    )
    executor.max_workers = 8
    await clock.advance(0.5)
    check(expected["before"])
    provider.send("q", "a")
    await clock.settle()
    check(expected["after"])


@pytest.mark.fact("spring-jms 1.10.8")
async def test_too_few_consumers_at_work_are_reported(
    build: Callable[..., Any], clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    busy = TaskExecutor(1)
    container = build(nothing, concurrent_consumers=2, task_executor=busy)
    await container.start()
    await clock.advance(10.5)  # a task of ten receives ends and is rescheduled
    assert "Number of scheduled consumers has dropped below concurrent_consumers" in caplog.text
    assert container.active_consumer_count == 1

    class Sulking(TaskExecutor):
        def execute(
            self, function: Callable[[], Awaitable[None]], name: str, ended: Work | None = None
        ) -> BackgroundTask:
            self.max_workers = self.active_count + (name not in seen)
            seen.add(name)
            return super().execute(function, name, ended)

    seen: set[str] = set()
    container = build(nothing, task_executor=Sulking(1))
    await container.start()
    await clock.advance(10.5)
    assert "All scheduled consumers have been paused" in caplog.text
    assert container.paused_task_count == 1
    seen.clear()
    await container.start()
    assert container.paused_task_count == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # trio's Cancelled cannot be raised
async def test_a_consumer_cancelled_from_outside_is_paused_and_reported(
    provider: JmsProvider,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    cancelled = anyio.get_cancelled_exc_class()

    async def listener(message: Message) -> None:
        if not caplog.records:
            raise cancelled

    container = build(listener, session_transacted=True)
    provider.send("q", "a")
    await container.start()
    await clock.settle()
    assert "was cancelled from outside and is paused" in caplog.text
    assert (container.paused_task_count, container.active_consumer_count) == (1, 0)
    assert provider.texts("q") == ["a"]
    await container.start()
    await clock.settle()
    assert provider.texts("q") == []


async def test_a_listener_that_a_shutdown_cancels_is_rolled_back(
    provider: JmsProvider, build: Callable[..., Any]
) -> None:
    """Before its session is closed: a provider may keep an open transaction for a while."""
    begun = anyio.Event()

    async def listener(message: Message) -> None:
        begun.set()
        await anyio.sleep_forever()

    container = build(listener, session_transacted=True)
    provider.send("q", "a")
    await container.start()
    await begun.wait()
    await container.shutdown(0.1)
    names = [call.partition("(")[0] for call in provider.calls]
    assert "Session.rollback" in names
    assert names.index("Session.rollback") < names.index("Session.close")
    assert provider.texts("q") == ["a"]


async def test_start_after_shutdown_starts_again(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(recorder.note)
    await container.start()
    await container.shutdown()
    await container.start()
    provider.send("q", "a")
    await recorder.until(lambda: recorder.deliveries == ["a#1"])


@pytest.mark.fact("spring-jms 1.10.9")
async def test_auto_startup_is_reported_and_an_explicit_start_works(
    provider: JmsProvider, build: Callable[..., Any]
) -> None:
    container = build(nothing, auto_startup=False)
    assert not container.is_auto_startup
    await container.start()
    assert container.is_running


@pytest.mark.parametrize(
    "error", [ConfigurationException("bad option"), UnsupportedOperationException("not built")]
)
async def test_a_url_that_no_broker_can_help_with_ends_the_start(
    error: ConfigurationException | UnsupportedOperationException,
    provider: JmsProvider,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    container = build(lambda _message: None)
    provider.fail_next["ConnectionFactory.createConnection"] = error
    with pytest.raises(type(error)):
        await container.start()
    assert not container.is_running
    with pytest.raises(type(error)):
        await container.wait_until_listening()
    await container.start()  # mended meanwhile
    await container.wait_until_listening()
    assert container.is_registered_with_destination


async def test_a_selector_that_is_none_ends_the_start(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(lambda _message: None, message_selector="price >")
    with pytest.raises(InvalidSelectorException):
        await container.start()
    assert not container.is_active
    assert provider.calls == []


@pytest.mark.parametrize("level", ["NONE", "CONNECTION", "SESSION", "CONSUMER"])
async def test_what_a_broker_refuses_for_good_stops_the_container(
    level: str,
    provider: JmsProvider,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    container = build(lambda _message: None, cache_level=level)
    provider.fail_next["Session.createConsumer"] = InvalidSelectorException("XPATH is not built in")
    await container.start()
    with pytest.raises(InvalidSelectorException, match="XPATH"):
        await container.wait_until_listening()
    await clock.settle()
    assert not container.is_running
    [line] = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
    assert line == (
        "Stopping container for destination 'q': its configuration cannot work. "
        "Cause: XPATH is not built in"
    )


async def test_waiting_for_the_start_of_a_container_ends(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    container = build(lambda _message: None)
    await container.wait_until_listening()  # not started
    provider.down = "no broker"
    await container.start()
    await container.wait_until_listening()  # it waits for its broker
    await container.stop()
    provider.down = None
    await container.start()
    await container.wait_until_listening()
    assert container.is_running
    full = build(lambda _message: None, task_executor=TaskExecutor(1))
    full.task_executor.active_count = 1
    await full.start()
    await full.wait_until_listening()  # the executor takes nothing
    assert full.paused_task_count == 1
