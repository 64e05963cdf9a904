"""The limits of a listener's calls, and replies to None, over the real broker."""

from __future__ import annotations

import threading

import anyio
import pytest
from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    JmsApplication,
    Message,
    PyjmsSettings,
    Queue,
    jms_listener,
    send_to,
)
from pyjms.aio import (
    DefaultJmsListenerContainerFactory,
    DefaultMessageListenerContainer,
    JmsClient,
    JmsMessagingTemplate,
    JmsTemplate,
    SimpleJmsListenerContainerFactory,
)
from pyjms.errors import (
    ConfigurationException,
    ListenerExecutionFailedException,
    RequestTimeoutException,
)
from pyjms.jms.message import TextMessage
from pyjms.listener import MessageListenerAdapter
from pyjms.listener.decorators import ListenerOptions
from pyjms.testing.app import JmsTestApp
from pyjms.testing.clock import VirtualClock
from tests.kit.clients.queues import embedded
from tests.kit.waiting import until


class Held:
    """Handlers that run until they are let go, on the loop and in a thread."""

    def __init__(self) -> None:
        self.calls = 0
        self.entered = anyio.Event()
        self.is_held = True
        self.let_go = threading.Event()

    @jms_listener("async", id="async", timeout=5.0)
    async def on_loop(self, text: str) -> None:
        self.calls += 1
        self.entered.set()
        if self.is_held:
            await anyio.sleep_forever()

    @jms_listener("thread", id="thread", timeout=0.02)
    def in_thread(self, text: str) -> str:
        self.calls += 1
        self.let_go.wait(20)
        return text


@pytest.mark.fact("spring-jms 6.12.1")
async def test_a_coroutine_is_cancelled_after_its_timeout_and_delivered_again(
    jms_app: JmsTestApp, jms_clock: VirtualClock
) -> None:
    held = Held()
    application = await jms_app.start(held)
    seen: list[Exception] = []
    application.registry["async"].error_handler = seen.append
    await jms_app.template.convert_and_send("async", "one")
    await held.entered.wait()
    await jms_clock.advance(4.9)
    assert (held.calls, seen) == (1, [])
    held.is_held = False
    await jms_clock.advance(2)
    await jms_app.drained("async")
    (failure,) = seen
    assert isinstance(failure, ListenerExecutionFailedException)
    assert isinstance(failure.__cause__, TimeoutError)
    assert str(failure.__cause__) == "The handler was cancelled after its timeout of 5 s"
    assert held.calls == 2
    assert {each.id: each.timeouts for each in application.health().listeners} == {
        "async": 1,
        "thread": 0,
    }
    assert application.health().ready


async def test_a_handler_that_keeps_its_cancellation_to_itself_has_failed_as_well(
    jms_app: JmsTestApp, jms_clock: VirtualClock
) -> None:
    @jms_listener("in", id="in", timeout=5.0)
    async def stubborn(text: str) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            return  # noqa: B012 - the point

    settings = PyjmsSettings(activemq={"redelivery": {"maximum": 0}})
    await jms_app.start(stubborn, settings=settings)
    await jms_app.template.convert_and_send("in", "one")
    await jms_clock.settle()
    await jms_clock.advance(6)
    await jms_app.drained("in")
    assert len(await jms_app.dead_letters()) == 1


@pytest.mark.fact("spring-jms 6.12.2")
async def test_a_thread_goes_on_after_its_timeout_with_a_warning(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held()
    application = await jms_app.start(held)
    async with anyio.create_task_group() as tasks:
        answers: list[object] = []

        async def ask() -> None:
            answers.append(await jms_app.template.request("thread", "one", timeout=20.0))

        tasks.start_soon(ask)
        await until(lambda: not application.health().ready)
        health = {each.id: each for each in application.health().listeners}["thread"]
        assert (health.status, health.timeouts) == ("stuck", 1)
        held.let_go.set()
    assert (answers, held.calls) == (["one"], 1)
    assert application.health().ready
    (warning,) = [r.getMessage() for r in caplog.records if r.name == "pyjms.listener.call_limits"]
    assert "listener thread has been running for longer than its timeout of 0.02 s" in warning


@pytest.mark.parametrize("form", ["function", "adapter"])
async def test_message_listeners_without_a_mark_have_a_timeout_as_well(
    jms_app: JmsTestApp, jms_clock: VirtualClock, form: str
) -> None:
    class Delegate:
        async def handle_message(self, body: object) -> None:
            await anyio.sleep_forever()

    async def listen(message: Message) -> None:
        await anyio.sleep_forever()

    seen: list[Exception] = []
    container = DefaultMessageListenerContainer(
        jms_app.template.connection_factory,
        destination_name="in",
        session_transacted=True,
        message_listener=listen if form == "function" else MessageListenerAdapter(Delegate()),
        timeout=5.0,
        error_handler=seen.append,
    )
    await container.start()
    await jms_app.template.convert_and_send("in", "one")
    await jms_clock.settle()
    await jms_clock.advance(5.5)
    causes = [error if form == "function" else error.__cause__ for error in seen]
    await container.shutdown(0)
    assert [type(cause) for cause in causes] == [TimeoutError]


@pytest.mark.fact("spring-jms 6.12.3")
@pytest.mark.parametrize("concurrency", ["1", "3-3"])
async def test_messages_are_spaced_by_the_rate_limit(
    jms_app: JmsTestApp, jms_clock: VirtualClock, concurrency: str
) -> None:
    times: list[float] = []

    @jms_listener("in", id="in", rate_limit=0.5, concurrency=concurrency)
    async def handler(text: str) -> None:
        times.append(round(jms_clock.now() - start, 3))

    application = await jms_app.start(handler)
    start = jms_clock.now()
    for number in range(4):
        await jms_app.template.convert_and_send("in", str(number))
    await jms_clock.settle()
    await jms_clock.advance(7)
    assert times == [0, 2, 4, 6]
    application.registry["in"].rate_limit = None  # type: ignore[attr-defined]
    await jms_app.template.convert_and_send("in", "free")
    await jms_app.drained("in")
    assert times[4:] == [7]


@pytest.mark.fact("spring-jms 6.12.3")
async def test_a_batch_takes_the_turns_of_its_messages(
    jms_app: JmsTestApp, jms_clock: VirtualClock
) -> None:
    sizes: list[tuple[float, int]] = []

    @jms_listener("in", id="in", rate_limit=1, batch_size=3, batch_timeout=0.1)
    async def handler(texts: list[str]) -> None:
        sizes.append((round(jms_clock.now() - start, 1), len(texts)))

    await jms_app.start(handler)
    start = jms_clock.now()
    for number in range(6):
        await jms_app.template.convert_and_send("in", str(number))
    await jms_clock.settle()
    await jms_clock.advance(4)
    assert sizes == [(0.0, 3), (3.0, 3)]


@pytest.mark.fact("spring-jms 6.12.3")
async def test_a_message_that_waits_for_its_turn_is_returned_by_a_stop(
    jms_app: JmsTestApp, jms_clock: VirtualClock
) -> None:
    @jms_listener("in", id="in", rate_limit=0.01)
    async def handler(text: str) -> None: ...

    application = await jms_app.start(handler)
    for text in ("one", "two"):
        await jms_app.template.convert_and_send("in", text)
    await jms_clock.settle()
    before = jms_clock.now()
    assert await application.registry["in"].pause()
    assert jms_clock.now() - before < 1
    assert len(jms_app.recorder.calls(handler)) == 1
    assert embedded(jms_app.broker).queue_statistics("in").messages == 1


@pytest.mark.fact("spring-jms 6.2.10")
async def test_none_is_a_reply_if_the_listener_says_so(jms_app: JmsTestApp) -> None:
    @jms_listener("in", id="in", reply_none=True)
    @send_to("out")
    async def find(text: str) -> str | None:
        return None

    await jms_app.start(find)
    reply = await jms_app.template.send_and_receive(
        "in", lambda session: session.create_text_message("x"), timeout=5.0
    )
    assert isinstance(reply, TextMessage)
    assert reply.text is None
    assert await jms_app.template.request("in", "x", type=int, timeout=5.0) is None
    await jms_app.template.convert_and_send("in", "nobody asks")
    await jms_app.drained("in", raise_errors=True)
    assert embedded(jms_app.broker).queue_statistics("out").enqueues == 0


@pytest.mark.fact("spring-jms 6.2.10")
async def test_a_handler_that_returns_nothing_does_not_reply(jms_app: JmsTestApp) -> None:
    class Container(ApplicationContainer):
        replying = providers.Singleton(
            DefaultJmsListenerContainerFactory,
            ApplicationContainer.native_connection_factory,
            reply_none=True,
        )

    @jms_listener("in", id="in", container_factory="replying")
    async def silent(text: str) -> None: ...

    await jms_app.start(silent, container=Container)
    await jms_app.template.send("in", lambda s: _with_reply_to(s.create_text_message("x")))
    await jms_app.drained("in")
    assert embedded(jms_app.broker).queue_statistics("replies").enqueues == 0


@pytest.mark.fact("spring-jms 4.14.1")
async def test_a_request_without_a_reply_raises_if_the_template_says_so(
    jms_app: JmsTestApp,
) -> None:
    factory = jms_app.template.connection_factory
    template = JmsTemplate(factory, raise_on_timeout=True)
    with pytest.raises(RequestTimeoutException, match=r"to queue://nobody within 0.01 s"):
        await template.request("nobody", "x", timeout=0.01)
    with pytest.raises(TimeoutError):
        await JmsMessagingTemplate(template).convert_send_and_receive("nobody", "x", timeout=0.0)
    with pytest.raises(RequestTimeoutException):
        client = JmsClient(template).destination("nobody")
        await client.with_receive_timeout(0.01).send_and_receive("x")


def _with_reply_to(message: TextMessage) -> TextMessage:
    message.reply_to = Queue("replies")
    return message


class Pushing(ApplicationContainer):
    """A container whose factory `simple` creates SimpleMessageListenerContainers."""

    simple = providers.Singleton(
        SimpleJmsListenerContainerFactory, ApplicationContainer.native_connection_factory
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"reply_none": True}, "reply_none: a handler that is annotated `-> None` does not reply"),
        ({"timeout": 0.0}, "timeout is a number of seconds, 0.001 or more, not 0.0"),
        ({"rate_limit": 0}, "rate_limit is a number of messages a second above 0, such as 0.5"),
        (
            {"rate_limit": 1, "container_factory": "simple"},
            "rate_limit: a SimpleMessageListenerContainer handles messages as they arrive",
        ),
        ({"reply_none": True, "batch_size": 3}, "reply_none: a batch handler has no replies"),
    ],
)
def test_limits_without_an_effect_are_refused(options: ListenerOptions, text: str) -> None:
    async def handler(texts: list[str]) -> None: ...

    marked = jms_listener("in", **options)(handler)
    with pytest.raises(ConfigurationException, match="Listener 'in'") as raised:
        JmsApplication(marked, container=Pushing, settings=PyjmsSettings()).check()
    assert text in str(raised.value)
