"""MessageListenerAdapter: methods of objects that know nothing of JMS, on the bundled broker."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from pyjms import JMSException, ListenerExecutionFailedException, Queue, TextMessage, Topic
from pyjms.client.browser import ActiveMQQueueBrowser
from pyjms.listener import MessageListenerAdapter
from pyjms.runtime import clock as _clock
from pyjms.template.template import JmsTemplate


class Delegate:
    def __init__(self) -> None:
        self.got: list[object] = []
        self.threads: list[str] = []

    def handle_message(self, body: Any) -> str | None:
        self.got.append(body)
        self.threads.append(threading.current_thread().name)
        if body == "other":
            raise KeyError("of the delegate")
        return f"re:{body}" if body == "question" else None

    def exits(self, body: Any) -> None:
        raise SystemExit(body)

    async def other(self, body: Any) -> dict[str, object]:
        if body == "jms":
            raise JMSException("of the delegate")
        return {"got": body}


async def deliver(template: Any, build: Any, left: Any, adapter: Any, *bodies: object) -> list[Any]:
    """Send the bodies to a container with this listener; return its errors."""
    errors: list[Exception] = []
    container = build(
        adapter, session_transacted=True, error_handler=errors.append, bean_name="adapted"
    )
    for body in bodies:
        await template.convert_and_send("q", body)
    await container.start()
    while await template.browse("q", lambda _session, browser: _count(browser)):
        await _clock.sleep(0.5)
    await container.shutdown(1)
    return errors


async def _count(browser: ActiveMQQueueBrowser) -> int:
    return len([message async for message in browser])


async def test_a_method_gets_the_converted_body(
    template: JmsTemplate, build: Callable[..., Any], left: Callable[[str], Any]
) -> None:
    delegate = Delegate()
    adapter = MessageListenerAdapter(delegate)
    assert await deliver(template, build, left, adapter, "text", b"bytes", {"a": 1}) == []
    assert delegate.got == ["text", b"bytes", {"a": 1}]
    assert set(delegate.threads) == {"adapted-1"}


async def test_without_a_converter_it_gets_the_message(
    template: JmsTemplate, build: Callable[..., Any], left: Callable[[str], Any]
) -> None:
    delegate = Delegate()
    adapter = MessageListenerAdapter(delegate, message_converter=None)
    await deliver(template, build, left, adapter, "text")
    (message,) = delegate.got
    assert isinstance(message, TextMessage)


async def test_results_are_replies(
    template: JmsTemplate, build: Callable[..., Any], left: Callable[[str], Any]
) -> None:
    adapter = MessageListenerAdapter(Delegate(), default_response_destination="out")
    await deliver(template, build, left, adapter, "question", "no question")
    assert [message.text for message in await left("out")] == ["re:question"]
    adapter = MessageListenerAdapter(
        Delegate(),
        default_listener_method="other",
        default_response_destination=Queue("others"),
    )
    await deliver(template, build, left, adapter, "x")
    assert [m.get_string("got") for m in await left("others")] == ["x"]
    adapter = MessageListenerAdapter(Delegate())  # no destination: the result is dropped
    assert await deliver(template, build, left, adapter, "question") == []


async def test_errors_of_the_method(
    template: JmsTemplate, build: Callable[..., Any], left: Callable[[str], Any]
) -> None:
    """A JMSException is not wrapped, as for any message listener."""
    errors = await deliver(template, build, left, MessageListenerAdapter(Delegate()), "other")
    assert {type(error) for error in errors} == {ListenerExecutionFailedException}
    assert isinstance(errors[0].__cause__, KeyError)
    adapter = MessageListenerAdapter(
        Delegate(), default_listener_method="other", default_response_destination=Topic("t")
    )
    with pytest.raises(JMSException, match="of the delegate") as raised:
        await adapter.on_message(TextMessage("jms"))
    assert type(raised.value) is JMSException


@pytest.mark.parametrize("timeout", [None, 5.0])
async def test_sys_exit_is_an_error_like_others(
    template: JmsTemplate,
    build: Callable[..., Any],
    left: Callable[[str], Any],
    timeout: float | None,
) -> None:
    adapter = MessageListenerAdapter(Delegate(), default_listener_method="exits")
    build = partial(build, timeout=timeout)
    errors = await deliver(template, build, left, adapter, "no more")
    assert {type(error) for error in errors} == {ListenerExecutionFailedException}
    assert isinstance(errors[0].__cause__, SystemExit)


async def test_a_listener_as_delegate_is_called_with_the_message(
    template: JmsTemplate, build: Callable[..., Any], left: Callable[[str], Any]
) -> None:
    class Listener:
        def __init__(self) -> None:
            self.got: list[object] = []

        async def on_message(self, message: Any, session: Any) -> None:
            self.got.append((message.text, session.transacted))

    delegate = Listener()
    assert await deliver(template, build, left, MessageListenerAdapter(delegate), "x") == []
    assert delegate.got == [("x", True)]


async def test_a_subclass_is_its_own_delegate(
    template: JmsTemplate, build: Callable[..., Any], left: Callable[[str], Any]
) -> None:
    class Own(MessageListenerAdapter):
        def __init__(self) -> None:
            super().__init__()
            self.got: list[str] = []

        async def handle_message(self, text: str) -> None:
            self.got.append(text)

    own = Own()
    await deliver(template, build, left, own, "x")
    assert own.got == ["x"]


@pytest.mark.fact("spring-jms 6.2.9")
async def test_without_a_session_there_is_no_reply_but_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    adapter = MessageListenerAdapter(
        Delegate(), default_listener_method="other", default_response_destination="out"
    )
    await adapter.on_message(TextMessage("question"))
    assert "'other' returned a result, but the listener has no session" in caplog.text


def test_a_delegate_without_the_method_is_refused() -> None:
    with pytest.raises(ValueError, match="object has no method 'handle_message'"):
        MessageListenerAdapter(object())
