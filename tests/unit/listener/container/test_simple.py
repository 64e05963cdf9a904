"""SimpleMessageListenerContainer. (spring-jms 2)"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.jms.destination import Topic
from pyjms.jms.message import Message, TextMessage
from pyjms.listener.simple_container import SimpleMessageListenerContainer
from pyjms.listener.task_executor import SimpleAsyncTaskExecutor
from pyjms.runtime import clock as _clock
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.listeners.containers import Recorder
from tests.kit.values import present


@pytest.fixture
async def simple(provider: JmsProvider) -> AsyncIterator[Callable[..., Any]]:
    """`simple(listener, **properties)`: a container on queue "q", shut down after the test."""
    built = []

    def make(listener: Any, **properties: Any) -> SimpleMessageListenerContainer:
        if "destination" not in properties:
            properties.setdefault("destination_name", "q")
        built.append(
            SimpleMessageListenerContainer(provider, message_listener=listener, **properties)
        )
        return built[-1]

    yield make
    for container in built:
        await container.shutdown(0)


MODES: dict[str, dict[str, Any]] = {
    "AUTO_ACKNOWLEDGE": {},
    "CLIENT_ACKNOWLEDGE": {"session_acknowledge_mode": 2},
    "DUPS_OK_ACKNOWLEDGE": {"session_acknowledge_mode": 3},
    "sessionTransacted": {"session_transacted": True},
}


@pytest.mark.fact("spring-jms 2.1")
async def test_consumers_are_made_once_on_one_connection(
    provider: JmsProvider, recorder: Recorder, simple: Callable[..., Any], clock: VirtualClock
) -> None:
    container = simple(recorder.hear, concurrent_consumers=3)
    await container.start()
    assert container.is_registered_with_destination
    for number in range(10):
        provider.send("q", str(number))
        await clock.advance(1)
    await recorder.until(lambda: len(recorder.deliveries) == 10)
    await container.stop()
    await container.start()
    assert provider.count(
        "ConnectionFactory.createConnection", "Connection.createSession", "Session.createConsumer",
        "Consumer.setMessageListener", "Consumer.receive", "Consumer.close",
    ) == {
        "ConnectionFactory.createConnection": 1, "Connection.createSession": 3,
        "Session.createConsumer": 3, "Consumer.setMessageListener": 3, "Consumer.receive": 0,
        "Consumer.close": 0,
    }  # fmt: skip
    await container.shutdown()
    assert (provider.open_connections, provider.open_sessions) == ([], [])
    assert SimpleMessageListenerContainer().concurrent_consumers == 1


@pytest.mark.fact("spring-jms 2.2")
async def test_concurrency_is_the_upper_number_for_good(
    provider: JmsProvider,
    recorder: Recorder,
    oracle: dict[str, Any],
    simple: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    assert simple(recorder.hear, concurrency="5").concurrent_consumers == 5
    container = simple(recorder.hear, concurrency="2-4")
    assert container.concurrent_consumers == container.max_concurrent_consumers == 4
    await container.start()
    expected = oracle["simple-container"][1]["consumersForConcurrency 2-4"]
    assert container.scheduled_consumer_count == expected
    container.concurrent_consumers = 9
    provider.send("q", *map(str, range(50)))
    await recorder.until(lambda: len(recorder.deliveries) == 50)
    assert provider.calls.count("Session.createConsumer") == expected


@pytest.mark.fact("spring-jms 2.3")
async def test_a_durable_subscription_has_one_consumer(
    recorder: Recorder, simple: Callable[..., Any]
) -> None:
    container = simple(recorder.hear, destination=Topic("t"), durable_subscription_name="s",
                       concurrent_consumers=2)  # fmt: skip
    with pytest.raises(ValueError, match="Only 1 concurrent consumer supported for durable"):
        await container.initialize()


@pytest.mark.fact("spring-jms 2.4")
async def test_start_raises_without_a_broker(
    provider: JmsProvider,
    recorder: Recorder,
    oracle: dict[str, Any],
    simple: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    expected = oracle["simple-container"][0]
    caplog.set_level(logging.DEBUG, "pyjms.listener")
    provider.down = "nobody there"
    container = simple(recorder.hear)
    await container.initialize()
    assert provider.calls == ["ConnectionFactory.createConnection"]
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]
    with pytest.raises(ConnectionFailedException, match="nobody there"):
        await container.start()
    assert container.is_running is expected["isRunning"]
    provider.down = None
    await container.start()
    assert container.is_running


@pytest.mark.fact("spring-jms 2.4")
@pytest.mark.parametrize(("lazily", "connections"), [(False, 1), (True, 0)])
async def test_connect_lazily(
    lazily: bool,
    connections: int,
    provider: JmsProvider,
    recorder: Recorder,
    simple: Callable[..., Any],
) -> None:
    container = simple(recorder.hear, connect_lazily=lazily)
    await container.initialize()
    assert len(provider.open_connections) == connections
    assert "Connection.start" not in provider.calls
    await container.start()
    assert len(provider.open_connections) == 1


@pytest.mark.fact("spring-jms 2.5")
@pytest.mark.parametrize("mode", MODES)
async def test_the_third_of_five_always_fails(
    mode: str,
    provider: JmsProvider,
    recorder: Recorder,
    oracle: dict[str, Any],
    simple: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = next(
        line for line in oracle["ack-modes"]
        if line["container"] == "SimpleMessageListenerContainer" and line["mode"] == mode
    )  # fmt: skip

    async def listener(message: Message) -> None:
        recorder.note(message)
        assert isinstance(message, TextMessage)
        if message.text == "m3":
            raise RuntimeError("no")

    container = simple(listener, error_handler=recorder.on_error, **MODES[mode])
    provider.send("q", "m1", "m2", "m3", "m4", "m5")
    await container.start()
    await recorder.until(lambda: recorder.deliveries[-1:] == ["m5#1"])
    await clock.settle()
    await container.shutdown()
    assert recorder.deliveries == expected["deliveries"]
    assert len(recorder.errors) == expected["errorHandlerCalls"]
    assert provider.count("Session.rollback", "Session.recover") == expected["sessionCalls"]
    assert provider.dead == expected["dlq"]
    assert provider.texts("q") == expected["leftInQueueAfterShutdown"]


@pytest.mark.fact("spring-jms 2.6")
@pytest.mark.parametrize(("recovers", "back", "alive"), [(True, True, True), (True, False, False),
                         (False, True, False)])  # fmt: skip
async def test_one_attempt_to_recover(
    recovers: bool,
    back: bool,
    alive: bool,
    provider: JmsProvider,
    recorder: Recorder,
    simple: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "pyjms.listener")
    order = []

    def told(error: Exception) -> None:
        recorder.on_exception(error)
        order.append(provider.calls.count("ConnectionFactory.createConnection"))

    container = simple(recorder.hear, recover_on_exception=recovers, exception_listener=told,
                       concurrency="2-4")  # fmt: skip
    await container.start()
    await clock.settle()
    provider.down = None if back else "still down"
    error = JMSException("EOF")
    present(provider.open_connections[0].exception_listener)(error)
    await clock.settle()
    assert (recorder.exceptions, order) == ([error], [1])
    attempts = provider.calls.count("ConnectionFactory.createConnection") - 1
    assert attempts == (1 if recovers else 0)
    assert container.is_running
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert errors == ([] if alive or not recovers else ["Encountered non-recoverable JMSException"])
    if recovers:
        assert provider.calls.count("Consumer.close") == 4
        assert container.scheduled_consumer_count == (4 if back else 0)
        provider.down = None
        provider.send("q", "a")
        await clock.advance(60)
        assert recorder.deliveries == (["a#1"] if alive else [])


@pytest.mark.fact("spring-jms 2.7")
async def test_with_an_executor_the_acknowledgement_does_not_wait(
    provider: JmsProvider, recorder: Recorder, simple: Callable[..., Any], clock: VirtualClock
) -> None:
    go = anyio.Event()

    async def listener(message: Message) -> None:
        recorder.note(message)
        await go.wait()

    container = simple(listener, task_executor=SimpleAsyncTaskExecutor())
    provider.send("q", "a", "b", "c")
    await container.start()
    await clock.settle()
    assert sorted(recorder.deliveries) == ["a#1", "b#1", "c#1"]  # the session went on at once
    assert container.active_consumer_count == 3
    go.set()


@pytest.mark.fact("spring-jms 2.8")
async def test_a_jms_exception_of_the_listener_is_only_handled(
    provider: JmsProvider, recorder: Recorder, simple: Callable[..., Any], clock: VirtualClock
) -> None:
    async def listener(message: Message) -> None:
        recorder.note(message)
        if message.redelivered is False:
            raise JMSException("trouble")

    container = simple(listener, session_transacted=True, error_handler=recorder.on_error,
                       exception_listener=recorder.on_exception)  # fmt: skip
    provider.send("q", "a")
    await container.start()
    await recorder.until(lambda: recorder.deliveries == ["a#1", "a#2*"])
    assert len(recorder.errors) == len(recorder.exceptions) == 1
    assert provider.calls.count("ConnectionFactory.createConnection") == 1


@pytest.mark.fact("spring-jms 2.9")
@pytest.mark.parametrize("name", ["transaction_manager", "receive_timeout", "cache_level"])
def test_what_it_does_not_have(name: str) -> None:
    with pytest.raises(TypeError, match=f"no option {name!r}"):
        unknown: dict[str, Any] = {name: None}
        SimpleMessageListenerContainer(**unknown)
    assert not hasattr(SimpleMessageListenerContainer(), name)


async def test_stop_callback_waits_for_the_listener(
    provider: JmsProvider, recorder: Recorder, simple: Callable[..., Any], clock: VirtualClock
) -> None:
    go = anyio.Event()
    called = []

    async def listener(message: Message) -> None:
        recorder.note(message)
        await go.wait()

    container = simple(listener)
    await container.stop(lambda: called.append("not running"))
    provider.send("q", "a")
    await container.start()
    await recorder.until(lambda: bool(recorder.deliveries))
    await container.stop(lambda: called.append("done"))
    assert called == ["not running"]
    go.set()
    await clock.settle()
    assert called == ["not running", "done"]
    await container.start()
    await container.stop(lambda: called.append("idle"))
    assert called[-1] == "idle"


async def test_shutdown_lets_listeners_finish_then_cancels_them(
    provider: JmsProvider, recorder: Recorder, simple: Callable[..., Any], clock: VirtualClock
) -> None:
    async def listener(message: Message) -> None:
        recorder.note(message)
        await _clock.sleep(5)
        recorder.note(message)

    for deadline, notes, left in ((10, 2, []), (2, 1, ["a"])):
        recorder.deliveries.clear()
        container = simple(listener, session_transacted=True)
        provider.send("q", "a")
        await container.start()
        await clock.settle()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(container.shutdown, deadline)
            await clock.advance(6)
        assert len(recorder.deliveries) == notes
        assert provider.texts("q") == left
