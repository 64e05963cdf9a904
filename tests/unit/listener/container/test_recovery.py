"""Lost connections and how they come back. (spring-jms 1.11)"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from pyjms.errors import ConnectionFailedException, InvalidDestinationException, JMSException
from pyjms.jms.message import Message
from pyjms.listener.error_handling import describe
from pyjms.runtime.backoff import ExponentialBackOff, FixedBackOff
from pyjms.support.destination import SimpleDestinationResolver
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.listeners.containers import Recorder

DOWN = "Could not connect to broker URL: tcp://HOST:PORT. Reason: java.net.ConnectException: Connection refused"


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Callable[..., Any]:
    """`lines()`: the log so far as `LEVEL text`; DEBUG only if asked."""
    caplog.set_level(logging.INFO, "pyjms")
    short = {"WARNING": "WARN"}
    return lambda: [
        f"{short.get(r.levelname, r.levelname)} {r.getMessage()}" for r in caplog.records
    ]


def as_newest(line: str) -> str:
    """A line of Spring 4.3 as the newest writes it."""
    return (
        line.replace("FixedBackOff{", "FixedBackOffExecution[")
        .replace("}. ", "]. ")
        .replace(" DefaultMessageListenerContainer: ", " ")
    )


def refused(
    level: str, interval: float, attempt: int, limit: str = "unlimited", cause: str = DOWN
) -> str:
    return (
        f"{level} Could not refresh JMS Connection for destination 'q' - retrying using "
        f"FixedBackOffExecution[interval={interval}, currentAttempts={attempt}, "
        f"maxAttempts={limit}]. Cause: {cause}"
    )


@pytest.mark.fact("spring-jms 1.11.6", "spring-jms 1.11.5")
async def test_no_broker_ever(
    provider: JmsProvider,
    oracle: dict[str, Any],
    lines: Callable[..., Any],
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = oracle["start-without-broker"][1]
    provider.down = DOWN
    container = build(recorder.hear, back_off=FixedBackOff(0.15, 3),
                      exception_listener=recorder.on_exception, max_messages_per_task=10)  # fmt: skip
    started = clock.now()
    times: list[float] = []
    log = provider.log

    def log_with_time(call: str) -> None:
        times.append(round(clock.now() - started, 3))
        log(call)

    provider.log = log_with_time  # type: ignore[method-assign]  # a test double
    await container.start()
    await clock.advance(1)
    assert lines() == [as_newest(line) for line in expected["logs"]]
    assert times == [0, 0, 0.15, 0.3, 0.45]
    assert len(recorder.exceptions) == 5
    assert (container.is_running, container.is_active) == (False, True)
    assert container.scheduled_consumer_count == expected["scheduled"]
    assert container.active_consumer_count == expected["active"]
    assert container.paused_task_count == expected["paused"]
    assert not container.is_recovering
    provider.down = None
    provider.send("q", "hello")
    await container.start()
    await recorder.until(lambda: recorder.deliveries == ["hello#1"])


@pytest.mark.fact("spring-jms 1.11.2", "spring-jms 1.11.3")
async def test_a_broker_that_comes_later(
    provider: JmsProvider,
    oracle: dict[str, Any],
    lines: Callable[..., Any],
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = oracle["start-without-broker"][0]
    provider.down = DOWN
    container = build(recorder.hear, recovery_interval=0.4, exception_listener=recorder.on_exception,
                      error_handler=recorder.on_error)  # fmt: skip
    provider.send("q", "hello")
    await container.start()
    assert container.is_running is expected["justAfterStart"]["isRunning"]
    assert container.is_active is expected["justAfterStart"]["isActive"]
    assert container.is_registered_with_destination is expected["justAfterStart"]["isRegistered"]
    await clock.advance(1.0)
    assert container.is_recovering
    assert lines() == [refused("ERROR", 400, n) for n in range(3)]  # no WARN: nothing was lost
    provider.down = None
    await clock.advance(0.3)
    await recorder.until(lambda: recorder.deliveries == expected["deliveries"])
    assert not container.is_recovering
    assert len(recorder.exceptions) == 4
    assert recorder.errors == []


@pytest.mark.fact(
    "spring-jms 1.11.1", "spring-jms 1.11.2", "spring-jms 1.11.9", "spring-jms 1.11.11"
)
@pytest.mark.parametrize("variant", [0, 1])
async def test_an_outage(
    variant: int,
    provider: JmsProvider,
    oracle: dict[str, Any],
    lines: Callable[..., Any],
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    expected = oracle["recovery"][variant]
    consumers = expected["consumers"]
    container = build(
        recorder.hear, concurrent_consumers=consumers, recovery_interval=0.4,
        session_transacted=True, error_handler=recorder.on_error,
        exception_listener=recorder.on_exception,
    )  # fmt: skip
    await container.start()
    provider.send("q", "before1", "before2")
    await recorder.until(lambda: len(recorder.deliveries) == 2)
    await clock.settle()
    provider.calls.clear()
    provider.break_down("java.io.EOFException")
    provider.down = DOWN
    await clock.advance(1.5)
    assert container.is_recovering
    assert not container.is_registered_with_destination
    provider.down = None
    await clock.advance(0.2)
    provider.send("q", "after1", "after2")
    await recorder.until(lambda: len(recorder.deliveries) == 4)
    await clock.settle()
    assert sorted(recorder.deliveries) == sorted(expected["deliveries"])
    assert not container.is_recovering
    warnings = [line for line in lines() if line.startswith("WARN")]
    assert warnings == ["WARN " + expected["firstWarn"]]
    assert len(warnings) == expected["warnLogs"]
    errors = [line for line in lines() if line.startswith("ERROR")]
    assert errors == [refused("ERROR", 400, n) for n in range(4)]
    assert as_newest(expected["firstError"]) in errors[0]
    assert len(recorder.errors) == expected["errorHandlerCalls"]
    created = provider.count("Session.createConsumer", "ConnectionFactory.createConnection")
    assert created["Session.createConsumer"] == 1 + expected["consumersRecreated"]  # one to try
    assert created["ConnectionFactory.createConnection"] == 5
    assert container.scheduled_consumer_count == consumers
    assert container.is_registered_with_destination


@pytest.mark.fact("spring-jms 1.11.1")
async def test_the_others_only_say_that_it_is_done(
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "pyjms.listener.recovery")
    container = build(recorder.hear, concurrent_consumers=3, recovery_interval=0.4)
    await container.start()
    await clock.settle()
    provider.break_down()
    await clock.advance(0.3)
    provider.down = None
    await clock.advance(0.2)
    texts = [r.getMessage() for r in caplog.records if r.levelno == logging.DEBUG]
    done = "Setup of JMS message listener invoker failed - already recovered by other invoker"
    assert sum(done in text for text in texts) == 2
    assert texts.count("Successfully refreshed JMS Connection") == 1


@pytest.mark.fact("spring-jms 1.11.2")
@pytest.mark.parametrize(("level", "trace"), [(logging.DEBUG, True), (logging.INFO, False)])
async def test_traces_only_at_debug(
    level: Any,
    trace: bool,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(level, "pyjms.listener.recovery")
    container = build(recorder.hear)
    await container.start()
    await clock.settle()
    provider.break_down()
    await clock.settle()
    shown = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert len(shown) == 2
    assert all(bool(record.exc_info) is trace for record in shown)


@pytest.mark.fact("spring-jms 1.11.4")
@pytest.mark.parametrize(("level", "closes"), [("CONSUMER", False), ("NONE", True)])
async def test_what_an_attempt_makes(
    level: str,
    closes: bool,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    container = build(recorder.hear, cache_level=level, client_id="me", recovery_interval=1)
    await container.start()
    await clock.settle()
    provider.calls.clear()
    provider.fail_next["Consumer.receive"] = JMSException("broken")
    await clock.advance(1.0)
    provider.calls[:] = provider.calls[provider.calls.index("Consumer.receive") + 1 :]
    closing = ["Consumer.close", "Session.close", "Connection.close"]
    assert provider.calls[:3] == closing
    made = [c.partition("(")[0] for c in provider.calls[3:]]
    trial = [
        "Connection.createSession",
        "Session.createConsumer",
        "Consumer.close",
        "Session.close",
    ]
    if closes:
        assert made[:6] == ["ConnectionFactory.createConnection", *trial, "Connection.close"]
    else:
        assert made[:7] == ["ConnectionFactory.createConnection", "Connection.setClientID",
                            "Connection.start", *trial]  # fmt: skip


@pytest.mark.fact("spring-jms 1.11.4")
async def test_a_missing_destination_is_a_failure_too(
    provider: JmsProvider,
    lines: Callable[..., Any],
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    container = build(recorder.hear, recovery_interval=1)
    provider.fail_next["Session.createConsumer"] = InvalidDestinationException("no q")
    await container.start()
    await clock.advance(1.5)
    assert lines()[0].startswith("WARN Setup of JMS message listener invoker failed")
    assert len(lines()) == 1  # the trial consumer could be made
    provider.break_down()
    await clock.settle()
    provider.down = None
    provider.fail_next["Session.createConsumer"] = InvalidDestinationException("no q")
    await clock.advance(1)
    assert lines()[-2:] == [
        refused("ERROR", 1000, 0, cause="broker gone"), refused("ERROR", 1000, 1, cause="no q"),
    ]  # fmt: skip
    assert container.is_recovering
    await clock.advance(1)
    assert not container.is_recovering


@pytest.mark.fact("spring-jms 1.11.8")
async def test_a_consumer_that_fails_again_and_again(
    provider: JmsProvider,
    lines: Callable[..., Any],
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    container = build(recorder.hear, concurrency="2-2", back_off=FixedBackOff(1, 2))

    async def broken(consumer: Any, message: Message | None) -> None:
        raise JMSException("broken")

    provider.on_receive = broken
    await container.start()
    container.receive_timeout = 0
    await clock.settle()
    recurring = sorted(line for line in lines() if "Recurring" in line)
    assert recurring[0] == (
        "WARN Recurring setup failure in DefaultMessageListenerContainer-1 - retrying using "
        "FixedBackOffExecution[interval=1000, currentAttempts=0, maxAttempts=2]"
    )
    await clock.advance(2.1)
    assert container.scheduled_consumer_count == 0  # both used up their two steps
    steps = [line for line in lines() if "Recurring" in line and "er-1 " in line]
    assert [n for n in range(3) if f"currentAttempts={n}" in steps[n]] == [0, 1, 2]


@pytest.mark.fact("spring-jms 1.11.8")
async def test_a_receive_that_works_forgets_earlier_failures(
    provider: JmsProvider,
    lines: Callable[..., Any],
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    container = build(recorder.hear, recovery_interval=1)
    await container.start()
    for _ in range(3):
        provider.fail_next["Consumer.receive"] = JMSException("broken")
        await clock.advance(2.5)
    assert not [line for line in lines() if "Recurring" in line]
    assert len([line for line in lines() if line.startswith("WARN")]) == 3


@pytest.mark.fact("spring-jms 1.11.10")
async def test_names_are_forgotten_by_a_caching_resolver(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    class Caching(SimpleDestinationResolver):
        forgotten: tuple[object, ...] = ()

        def remove_from_cache(self, name: str) -> None:
            self.forgotten += (name, provider.calls.count("ConnectionFactory.createConnection"))

    resolver = Caching()
    container = build(recorder.hear, destination_resolver=resolver)
    await container.start()
    await clock.settle()
    assert not resolver.forgotten
    provider.fail_next["Consumer.receive"] = JMSException("broken")
    await clock.advance(1)
    assert resolver.forgotten == ("q", 1)
    assert provider.calls.count("ConnectionFactory.createConnection") == 2


@pytest.mark.parametrize("end", ["stop", "shutdown"])
async def test_a_wait_for_the_next_attempt_ends_with_the_container(
    end: str,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    provider.down = DOWN
    container = build(recorder.hear, recovery_interval=600, concurrent_consumers=2)
    await container.start()
    await clock.settle()
    assert container.is_recovering
    before = clock.now()
    await getattr(container, end)()
    await clock.settle()
    assert clock.now() == before
    assert not container.is_recovering
    assert container.active_consumer_count == 0


@pytest.mark.fact("spring-jms 1.11.12")
def test_the_text_of_a_cause() -> None:
    error = JMSException("Could not connect")
    assert describe(error) == "Could not connect"
    error.linked_exception = OSError("refused")
    assert describe(error) == "Could not connect; nested exception is OSError: refused"
    error = JMSException("Could not connect: refused")
    error.linked_exception = OSError("refused")
    assert describe(error) == "Could not connect: refused"
    assert describe(ConnectionFailedException()) == "ConnectionFailedException"


def test_exponential_back_off() -> None:
    execution = ExponentialBackOff(1, 2, max_interval=5).start()
    assert str(execution) == (
        "ExponentialBackOffExecution[currentInterval=n/a, multiplier=2, attempts=0]"
    )
    assert [execution.next_back_off() for _ in range(5)] == [1, 2, 4, 5, 5]
    assert "currentInterval=5000ms" in str(execution)
    execution = ExponentialBackOff(1, 2, max_elapsed_time=6).start()
    assert [execution.next_back_off() for _ in range(4)] == [1, 2, 4, None]
    execution = ExponentialBackOff(max_attempts=2).start()
    assert [execution.next_back_off() for _ in range(3)] == [2, 3, None]
    rule = ExponentialBackOff()
    assert (rule.initial_interval, rule.multiplier, rule.max_interval) == (2, 1.5, 30)
    for bad in ({"multiplier": 0.5}, {"initial_interval": -1}):
        with pytest.raises(ValueError):
            ExponentialBackOff(**bad)
    with pytest.raises(ValueError):
        FixedBackOff(-1)


async def test_recovery_with_exponential_back_off(
    provider: JmsProvider,
    lines: Callable[..., Any],
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    provider.down = "down"
    container = build(recorder.hear, back_off=ExponentialBackOff(1, 2))
    await container.start()
    await clock.advance(7)
    assert len(lines()) == 4
    assert "[currentInterval=2000ms, multiplier=2, attempts=2]" in lines()[2]


async def test_a_message_in_work_is_redelivered_after_an_outage(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    go = anyio.Event()

    async def listener(message: Message) -> None:
        recorder.note(message)
        await go.wait()

    container = build(listener, session_transacted=True, recovery_interval=1,
                      error_handler=recorder.on_error)  # fmt: skip
    provider.send("q", "a")
    await container.start()
    await clock.settle()
    provider.break_down()
    go.set()
    await clock.settle()
    provider.down = None
    await clock.advance(1)
    await recorder.until(lambda: recorder.deliveries == ["a#1", "a#2*"])
    assert [str(error) for error in recorder.errors] == ["broker gone"]
