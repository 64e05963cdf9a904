"""Interceptors around message listeners and handlers: order, failures, short cuts, context."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import pytest

from pyjms import (
    ApplicationContainer,
    ConfigurationException,
    HandlerInvocation,
    JmsApplication,
    JMSException,
    ListenerExecutionFailedException,
    PyjmsSettings,
    jms_listener,
    send_to,
)
from pyjms.jms.message import Message
from pyjms.template.interceptors import InterceptorChain, Proceed
from pyjms.testing.app import JmsTestApp, with_redelivery_delay
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.jms_provider import JmsProvider
from tests.kit.clients.messages import text_of
from tests.kit.listeners.containers import Recorder
from tests.kit.values import present

SEEN: ContextVar[str] = ContextVar("seen", default="nothing")


class Traced:
    def __init__(self, name: str, log: list[str], order: float | None = None) -> None:
        self.name = name
        self.log = log
        if order is not None:
            self.order = order

    async def __call__(self, invocation: HandlerInvocation, proceed: Proceed) -> Any:
        self.log.append(f"{self.name} in")
        try:
            return await proceed()
        finally:
            self.log.append(f"{self.name} out")


NO_SESSION: Any = None


async def run(interceptors: Any, handler: Any) -> Any:
    invocation = HandlerInvocation(handler, "id", Message(), NO_SESSION)
    return await InterceptorChain(interceptors).around_handler(invocation, handler)


async def test_the_first_of_the_list_is_the_outermost() -> None:
    log = []

    async def handler() -> Any:
        log.append("handler")
        return 42

    assert await run([Traced("a", log), Traced("b", log)], handler) == 42
    assert log == ["a in", "b in", "handler", "b out", "a out"]


async def test_an_order_moves_an_interceptor_and_equal_ones_keep_their_places() -> None:
    log = []

    async def handler() -> None:
        log.append("handler")

    await run(
        [Traced("late", log, 5), Traced("x", log), Traced("y", log), Traced("early", log, -1)],
        handler,
    )
    assert log[:5] == ["early in", "x in", "y in", "late in", "handler"]


async def test_a_handler_may_be_retried_and_its_errors_seen() -> None:
    attempts = []

    async def retry(invocation: HandlerInvocation, proceed: Proceed) -> Any:
        for _ in range(2):
            try:
                return await proceed()
            except ValueError as error:
                attempts.append(str(error))
        return await proceed()

    async def handler() -> str:
        if len(attempts) < 2:
            raise ValueError(f"attempt {len(attempts)}")
        return "done"

    assert await run([retry], handler) == "done"
    assert attempts == ["attempt 0", "attempt 1"]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: None, "<lambda> does not take .*async def"),
        (object(), "<object object at .* cannot be called"),
        (Traced, "Traced is a class .*pass an instance"),
    ],
)
def test_what_cannot_surround_a_call_is_refused_by_name(wrong: Any, text: str) -> None:
    with pytest.raises(ConfigurationException, match=text):
        InterceptorChain([wrong])
    with pytest.raises(ConfigurationException, match=text):
        JmsApplication(settings=PyjmsSettings(), interceptors=[wrong])
    with pytest.raises(ConfigurationException, match=text):
        JmsApplication(settings=PyjmsSettings(), send_interceptors=[wrong])


def test_an_invocation_names_handler_listener_and_message() -> None:
    message = Message()
    message.message_id = "ID:1"
    text = repr(HandlerInvocation(run, "orders", message, NO_SESSION))
    assert text == "<HandlerInvocation run of 'orders': ID:1>"


# --- containers made by hand


async def test_a_container_calls_its_interceptors_with_the_listeners_message(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    calls = []

    async def note(invocation: HandlerInvocation, proceed: Proceed) -> Any:
        calls.append((invocation.listener_id, text_of(invocation.message), invocation.session))
        return await proceed()

    container = build(recorder.hear, interceptors=[note], bean_name="by-hand")
    assert container.interceptors == (note,)
    provider.send("q", "a")
    await container.start()
    await clock.settle()
    assert recorder.deliveries == ["a#1"]
    ((listener_id, text, session),) = calls
    assert (listener_id, text) == ("by-hand", "a")
    assert session in provider.open_sessions


async def test_a_container_s_interceptor_that_returns_has_handled_the_message(
    provider: JmsProvider, recorder: Recorder, build: Callable[..., Any], clock: VirtualClock
) -> None:
    async def skip(invocation: HandlerInvocation, proceed: Proceed) -> None:
        return None

    container = build(recorder.hear, interceptors=[skip], session_transacted=True)
    provider.send("q", "a")
    await container.start()
    await clock.settle()
    assert recorder.deliveries == []
    assert provider.calls.count("Session.commit") >= 1
    assert "Session.rollback" not in provider.calls
    await container.shutdown()
    assert provider.texts("q") == []


@pytest.mark.parametrize("listener_kind", ["def", "async def"])
async def test_what_a_container_s_interceptor_raises_is_the_listener_s_failure(
    provider: JmsProvider,
    recorder: Recorder,
    build: Callable[..., Any],
    clock: VirtualClock,
    listener_kind: str,
) -> None:
    failures = iter([RuntimeError("not today")])

    async def fail_once(invocation: HandlerInvocation, proceed: Proceed) -> Any:
        for failure in failures:
            raise failure
        return await proceed()

    container = build(
        recorder.hear if listener_kind == "async def" else recorder.note,
        interceptors=[fail_once],
        session_transacted=True,
        error_handler=recorder.on_error,
    )
    provider.send("q", "a")
    await container.start()
    await recorder.until(lambda: recorder.deliveries)
    assert [str(error) for error in recorder.errors] == ["not today"]
    assert recorder.deliveries == ["a#2*"]


# --- applications


async def test_interceptors_of_an_application_see_handler_id_and_result(
    jms_app: JmsTestApp,
) -> None:
    seen = []

    async def note(invocation: HandlerInvocation, proceed: Proceed) -> Any:
        result = await proceed()
        seen.append((invocation.handler, invocation.listener_id, result))
        return result

    @jms_listener("in", id="answers")
    @send_to("out")
    def handle(text: str) -> str:
        return text.upper()

    await jms_app.start(handle, interceptors=[note])
    await jms_app.template.convert_and_send("in", "hello")
    assert await jms_app.template.receive_and_convert("out") == "HELLO"
    await jms_app.drained("in")
    assert seen == [(handle, "answers", "HELLO")]


async def test_context_and_thread_of_handlers(jms_app: JmsTestApp) -> None:
    found = {}

    async def set_context(invocation: HandlerInvocation, proceed: Proceed) -> Any:
        SEEN.set(present(invocation.listener_id))
        return await proceed()

    @jms_listener("one", id="thread")
    def in_thread(text: str) -> None:
        found[SEEN.get()] = threading.current_thread() is threading.main_thread()

    @jms_listener("two", id="loop")
    async def on_loop(text: str) -> None:
        found[SEEN.get()] = threading.current_thread() is threading.main_thread()

    await jms_app.start(in_thread, on_loop, interceptors=[set_context])
    await jms_app.template.convert_and_send("one", "a")
    await jms_app.template.convert_and_send("two", "a")
    await jms_app.drained("one")
    await jms_app.drained("two")
    assert found == {"thread": False, "loop": True}
    assert SEEN.get() == "nothing"


async def test_a_jms_exception_of_an_interceptor_is_not_a_broken_connection(
    jms_app: JmsTestApp,
) -> None:
    errors: list[Any] = []

    async def refuse(invocation: HandlerInvocation, proceed: Proceed) -> None:
        raise JMSException("refused by an interceptor")

    @jms_listener("in", id="refused")
    async def handle(text: str) -> None:
        raise AssertionError("not called")

    await jms_app.start(handle, interceptors=[refuse], error_handler=errors.append)
    await jms_app.template.convert_and_send("in", "a")
    await jms_app.drained("in")
    (dead,) = await jms_app.dead_letters()
    assert "refused by an interceptor" in str(dead.properties["dlqDeliveryFailureCause"])
    assert len(errors) == 7
    assert all(isinstance(error, ListenerExecutionFailedException) for error in errors)
    assert {error.listener_id for error in errors} == {"refused"}
    assert len(jms_app.recorder.errors()) == 7


async def test_an_error_handler_of_a_factory_is_kept(jms_app: JmsTestApp) -> None:
    own: list[Exception] = []
    general: list[Exception] = []

    @jms_listener("in")
    async def handle(text: str) -> None:
        raise ValueError("wrong")

    url = with_redelivery_delay(jms_app.url, 0)
    settings = PyjmsSettings().with_broker_url(url)
    container = ApplicationContainer(settings=settings)
    container.jms_listener_container_factory().options["error_handler"] = own.append
    await jms_app.start(
        handle, settings=settings, container=container, error_handler=general.append
    )
    await jms_app.template.convert_and_send("in", "a")
    await jms_app.drained("in")
    assert general == []
    assert len(own) == 7
