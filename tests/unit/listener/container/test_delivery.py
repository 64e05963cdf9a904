"""One delivery, from the receive to its end, good or bad. (spring-jms 1.7)"""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Callable
from typing import Any

import anyio
import pytest

from pyjms.enums import AcknowledgeMode
from pyjms.errors import (
    IllegalStateException,
    JMSException,
    ListenerExecutionFailedException,
    TransactionInProgressException,
)
from pyjms.jms.api import Session
from pyjms.jms.message import Message, TextMessage
from pyjms.runtime.event_loop import spawn
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.listeners.containers import Recorder
from tests.kit.waiting import until

ENDINGS = ("Session.commit", "Session.rollback", "Session.recover", "Message.acknowledge")
MODES: dict[str, dict[str, Any]] = {
    "AUTO_ACKNOWLEDGE": {},
    "CLIENT_ACKNOWLEDGE": {"session_acknowledge_mode": AcknowledgeMode.CLIENT},
    "DUPS_OK_ACKNOWLEDGE": {"session_acknowledge_mode": AcknowledgeMode.DUPS_OK},
    "INDIVIDUAL_ACKNOWLEDGE(4)": {"session_acknowledge_mode": 4},
    "sessionTransacted": {"session_transacted": True},
}


def endings(provider: JmsProvider) -> Any:
    """What ended deliveries, without the commits after empty receives."""
    found = []
    for before, call in zip(["", *provider.calls], provider.calls, strict=False):
        if call in ENDINGS and not (call == "Session.commit" and before == "receive=null"):
            found.append(call)
    return found


class Failing:
    """Notes each delivery; raises `error` for the text `bad`, the first times."""

    def __init__(
        self, recorder: Recorder, error: Exception, *, bad: str = "bad", times: int = 10**9
    ) -> None:
        self.recorder = recorder
        self.error = error
        self.bad = bad
        self.left = times

    async def __call__(self, message: Message) -> None:
        self.recorder.note(message)
        assert isinstance(message, TextMessage)
        if message.text == self.bad and self.left:
            self.left -= 1
            raise self.error


def handlers(recorder: Recorder) -> Any:
    return {"error_handler": recorder.on_error, "exception_listener": recorder.on_exception}


@pytest.mark.fact(
    "spring-jms 1.7.1", "spring-jms 1.7/transacted", "spring-jms 1.7/CLIENT_ACKNOWLEDGE",
    "spring-jms 1.7/AUTO / DUPS_OK", "spring-jms 1.7/other number, e.g. ActiveMQs 4",
)  # fmt: skip
@pytest.mark.parametrize("fails", ["first time only", "every time"])
@pytest.mark.parametrize("mode", MODES)
async def test_the_third_of_five_fails(
    mode: str,
    fails: str,
    provider: JmsProvider,
    recorder: Recorder,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    # ActiveMQ's own mode goes as CLIENT does in the newest Spring; the recording is of 4.3
    recorded = "CLIENT_ACKNOWLEDGE" if mode.startswith("INDIVIDUAL") else mode
    expected = next(
        line
        for line in oracle["ack-modes"]
        if line["container"] == "DefaultMessageListenerContainer"
        and (line["mode"], line["m3Fails"]) == (recorded, fails)
    )
    listener = Failing(
        recorder, RuntimeError("no"), bad="m3", times=1 if fails == "first time only" else 99
    )
    provider.send("q", "m1", "m2", "m3", "m4", "m5")
    container = build(listener, **MODES[mode], **handlers(recorder))
    await container.start()
    await recorder.until(lambda: recorder.deliveries[-1:] == ["m5#1"])
    await container.shutdown()
    assert recorder.deliveries == expected["deliveries"]
    assert len(recorder.errors) == expected["errorHandlerCalls"]
    assert provider.count("Session.rollback", "Session.recover") == expected["sessionCalls"]
    assert provider.dead == expected["dlq"]
    assert provider.texts("q") == expected["leftInQueueAfterShutdown"]
    good = {"sessionTransacted": "Session.commit", "AUTO_ACKNOWLEDGE": None,
            "DUPS_OK_ACKNOWLEDGE": None}.get(mode, "Message.acknowledge")  # fmt: skip
    assert endings(provider).count(good) == (0 if good is None else 4 + (not provider.dead))
    assert recorder.exceptions == []


@pytest.mark.fact("spring-jms 1.1/acknowledgeAfterListener")
async def test_the_listener_may_acknowledge_itself(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    listener = Failing(recorder, RuntimeError("no"), times=1)
    container = build(
        listener, session_acknowledge_mode=2, acknowledge_after_listener=False,
        error_handler=recorder.on_error,
    )  # fmt: skip
    provider.send("q", "bad", "good")
    await container.start()
    await recorder.until(lambda: len(recorder.deliveries) == 3)
    await clock.settle()
    assert endings(provider) == ["Session.recover"]


@pytest.mark.fact("spring-jms 1.7.1")
@pytest.mark.parametrize(("options", "commits"), [({"session_transacted": True}, 3), ({}, 0),
                         ({"session_acknowledge_mode": 2}, 0)])  # fmt: skip
async def test_an_empty_receive_commits_a_transacted_session(
    options: Any,
    commits: int,
    provider: JmsProvider,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    container = build(lambda _message: None, **options)
    await container.start()
    await clock.advance(3.5)
    assert [call for call in provider.calls if call in ENDINGS] == ["Session.commit"] * commits


EXCEPTION_KINDS = {
    "RuntimeException": (RuntimeError("runtime trouble"), True, None),
    "Error": (AssertionError("an error"), True, None),
    "JMSException": (JMSException("jms trouble"), True, None),
    "JMSException, no error handler": (JMSException("jms trouble"), False, None),
    "RuntimeException, no error handler": (RuntimeError("runtime trouble"), False, None),
    "RuntimeException, error handler throws": (
        RuntimeError("runtime trouble"), True, RuntimeError("from error handler"),
    ),
}  # fmt: skip


@pytest.mark.fact(
    "spring-jms 1.7.2", "spring-jms 1.7.3", "spring-jms 1.7.4", "spring-jms 1.7.5",
    "spring-jms 1.1/errorHandler, exceptionListener",
)  # fmt: skip
@pytest.mark.parametrize("kind", EXCEPTION_KINDS)
async def test_which_listener_gets_which_exception(
    kind: str,
    provider: JmsProvider,
    recorder: Recorder,
    oracle: dict[str, Any],
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "pyjms")
    expected = next(x for x in oracle["exception-kinds"] if x["listenerThrows"] == kind)
    error, has_handler, second = EXCEPTION_KINDS[kind]

    def handle(failure: Any) -> None:
        recorder.on_error(failure)
        if second is not None:
            raise second

    container = build(
        Failing(recorder, error, times=1), session_transacted=True,
        exception_listener=recorder.on_exception, error_handler=handle if has_handler else None,
    )  # fmt: skip
    provider.send("q", "bad", "good")
    await container.start()
    await recorder.until(lambda: "good#1" in recorder.deliveries)
    await clock.settle()
    assert recorder.deliveries == expected["deliveries"]
    assert len(recorder.errors) == len(expected["errorHandler"])
    assert all(seen is error for seen in recorder.errors)
    assert len(recorder.exceptions) == len(expected["exceptionListener"])
    calls = dict(expected["calls"])
    recoveries = calls["ConnectionFactory.createConnection"] - 1
    calls["Connection.createSession"] += recoveries  # the newest Spring tries the new connection
    calls["Session.createConsumer"] += recoveries
    assert provider.count(*calls) == calls
    lines = [f"{r.levelname.replace('WARNING', 'WARN')} {r.getMessage()}" for r in caplog.records]
    springs = [x.replace("DefaultMessageListenerContainer: ", "") for x in expected["logs"]]
    # Spring's words mean nothing to users who have not heard of its ErrorHandler
    springs = [x.replace(SPRINGS_FAILED, "Listener q failed on q, message ") for x in springs]
    assert [line[: len(x)] for line, x in zip(lines, springs, strict=True)] == springs


SPRINGS_FAILED = "Execution of JMS message listener failed, and no ErrorHandler has been set."
FAILED = "Listener "


@pytest.mark.parametrize(
    ("options", "attempt"),
    [({"session_transacted": True}, "attempt 1"), ({"session_acknowledge_mode": 2}, "attempt 1"),
     ({}, "attempt 1, which is the last: the message counts as acknowledged")],
)  # fmt: skip
async def test_a_failure_is_one_line_and_one_traceback(
    options: Any,
    attempt: str,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    reason = ValueError("the real\nreason")
    failure = ListenerExecutionFailedException("Listener method 'f' threw exception")
    failure.__cause__ = reason
    container = build(
        Failing(recorder, failure, times=1), bean_name="orders", log_tracebacks=True, **options
    )
    provider.send("q", "bad")
    await container.start()
    await recorder.until(lambda: "bad#1" in recorder.deliveries)
    await clock.settle()
    record: Any
    [record] = [r for r in caplog.records if r.getMessage().startswith(FAILED)]
    message_id = record.message_id
    assert record.getMessage() == (
        f"{FAILED}orders failed on q, message {message_id}, {attempt}: ValueError: the real reason"
    )
    assert (record.levelname, record.listener_id, record.destination) == ("WARNING", "orders", "q")
    assert record.exc_info[1] is reason  # and not the chain of what wraps it


@pytest.mark.parametrize(
    ("call", "options", "step"),
    [("Session.commit", {"session_transacted": True}, "commit"),
     ("Message.acknowledge", {"session_acknowledge_mode": 2}, "acknowledgement")],
)  # fmt: skip
async def test_a_commit_that_fails_is_not_the_listeners_failure(
    call: str,
    options: Any,
    step: str,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    container = build(Failing(recorder, RuntimeError("never")), **options)
    provider.fail_next[call] = RuntimeError("the disk is full")
    provider.send("q", "good")
    await container.start()
    await recorder.until(lambda: bool(recorder.deliveries))
    await clock.settle()
    [line] = [r.getMessage() for r in caplog.records if r.getMessage().startswith(FAILED)]
    assert f": the handler had returned, its {step} failed: RuntimeError: the disk is full" in line


class Unprintable(Exception):
    """An application's mistake."""

    def __str__(self) -> str:
        raise TypeError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [(Unprintable(), "Unprintable: its text is not available: TypeError"), (KeyError(), "KeyError"),
     (ValueError("x" * 501), f"ValueError: {'x' * 497}...")],
)  # fmt: skip
async def test_any_exception_makes_a_line(
    error: Unprintable | KeyError | ValueError,
    text: str,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    container = build(Failing(recorder, error, times=1), session_transacted=True)
    provider.send("q", "bad")
    await container.start()
    await recorder.until(lambda: "bad#2*" in recorder.deliveries)
    [line] = [r.getMessage() for r in caplog.records if r.getMessage().startswith(FAILED)]
    assert f": {text} (test_delivery.py:" in line


@pytest.mark.fact("spring-jms 1.7.2")
async def test_after_a_shutdown_a_failure_is_only_a_debug_line(
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "pyjms.listener")
    container = build(None, **handlers(recorder))
    shutdown = []

    async def listener(message: Message) -> None:
        shutdown.append(spawn(container.shutdown, name="shutdown"))
        await until(lambda: not container.is_active)
        raise RuntimeError("late")

    container.message_listener = listener
    provider.send("q", "a")
    await container.start()
    await clock.settle()
    [task] = shutdown
    await task.wait()
    assert recorder.errors == []
    assert "Listener exception after container shutdown" in caplog.text


@pytest.mark.fact("spring-jms 1.7.6")
async def test_a_wrapped_failure_is_not_an_infrastructure_failure(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    wrapped = ListenerExecutionFailedException("handler failed")
    wrapped.__cause__ = JMSException("inside")
    container = build(Failing(recorder, wrapped, times=1), session_transacted=True,
                      **handlers(recorder))  # fmt: skip
    provider.send("q", "bad", "good")
    await container.start()
    await recorder.until(lambda: "good#1" in recorder.deliveries)
    assert recorder.errors == [wrapped]
    assert recorder.exceptions == []
    assert provider.calls.count("ConnectionFactory.createConnection") == 1


@pytest.mark.fact("spring-jms 1.7.7")
@pytest.mark.parametrize("second", [IllegalStateException("closed"), JMSException("broken"),
                                    OSError("gone")])  # fmt: skip
async def test_a_rollback_that_fails(
    second: IllegalStateException | JMSException | OSError,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "pyjms.listener")
    first = RuntimeError("first")
    container = build(Failing(recorder, first, times=1), session_transacted=True,
                      **handlers(recorder))  # fmt: skip
    provider.fail_next["Session.rollback"] = second
    provider.send("q", "bad")
    await container.start()
    await recorder.until(lambda: bool(recorder.errors))
    errors = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    if isinstance(second, IllegalStateException):
        assert recorder.errors == [first]
        assert errors == []
        assert "Could not roll back because the session is already closed" in caplog.text
    else:
        assert recorder.errors == [second]
        [line] = errors
        assert line.startswith(
            "Application exception overridden by rollback error: RuntimeError: first (test_delivery"
        )
        assert "Traceback" not in caplog.text  # one flag away


@pytest.mark.fact("spring-jms 1.7.8")
@pytest.mark.parametrize("call", ["Session.commit", "Session.rollback"])
async def test_the_transaction_of_another_owner_is_not_ended(
    call: str,
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
) -> None:
    error = RuntimeError("no")
    container = build(Failing(recorder, error, times=1), session_transacted=True,
                      **handlers(recorder))  # fmt: skip
    provider.fail_next[call] = TransactionInProgressException("XA")
    provider.send("q", "bad" if call == "Session.rollback" else "good")
    await container.start()
    await recorder.until(lambda: bool(recorder.deliveries))
    await clock.settle()
    assert recorder.errors == ([error] if call == "Session.rollback" else [])
    assert recorder.exceptions == []
    assert provider.calls.count("ConnectionFactory.createConnection") == 1


class Object:
    """A listener object that takes both."""

    def __init__(self, seen: list[Any]) -> None:
        self.seen = seen

    async def on_message(self, message: Message, session: Session | None = None) -> None:
        assert isinstance(message, TextMessage)
        self.seen.append((message.text, session))


@pytest.mark.fact("spring-jms 1.7.9")
async def test_what_listeners_get(
    provider: JmsProvider, build: Callable[..., Any], clock: VirtualClock
) -> None:
    seen: list[tuple[str | None, Session | None]] = []

    def plain(message: Message) -> None:
        assert isinstance(message, TextMessage)
        seen.append((message.text, None))

    def aware(message: Message, session: Session) -> None:
        assert isinstance(message, TextMessage)
        seen.append((message.text, session))

    async def plain_coroutine(message: Message) -> None:
        assert isinstance(message, TextMessage)
        seen.append((message.text, None))

    async def aware_coroutine(message: Message, session: Session) -> None:
        assert isinstance(message, TextMessage)
        seen.append((message.text, session))

    wrapped = functools.partial(aware_coroutine)
    for listener, gets_session in (
        (plain, False), (aware, True), (plain_coroutine, False), (aware_coroutine, True),
        (wrapped, True), (lambda message, session: Object(seen).on_message(message, session), True),
        (Object(seen), True),
    ):  # fmt: skip
        seen.clear()
        container = build(listener)
        provider.send("q", "a")
        await container.start()
        while not seen:
            await clock.settle()
        session = provider.open_sessions[0]
        assert seen == [("a", session if gets_session else None)]
        await container.shutdown()


async def test_def_listeners_run_in_the_consumers_thread(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any]
) -> None:
    threads = []

    def listener(message: Message) -> None:
        threads.append(threading.current_thread())

    container = build(listener, bean_name="orders")
    provider.send("q", "a", "b")
    await container.start()
    await until(lambda: len(threads) >= 2)
    assert [thread.name for thread in threads] == ["orders-1", "orders-1"]
    assert threads[0] is threads[1]
    await container.shutdown()
    await anyio.to_thread.run_sync(threads[0].join)  # it ends with its container


@pytest.mark.fact("spring-jms 1.1/taskExecutor")
async def test_default_names_of_tasks(provider: JmsProvider, build: Callable[..., Any]) -> None:
    for name, prefix in ((None, "DefaultMessageListenerContainer-"), ("orders", "orders-")):
        container = build(lambda _message: None, bean_name=name, concurrent_consumers=2)
        await container.initialize()
        assert [i.name for i in container.consumer_pool.invokers()] == [f"{prefix}1", f"{prefix}2"]
