"""What an application is made of, as Spring Boot's configuration makes it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Annotated, Any

import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide

import pyjms
from pyjms import (
    AcknowledgeMode,
    ApplicationContainer,
    CacheLevel,
    DefaultJmsListenerContainerFactory,
    ExponentialBackOff,
    InvalidDestinationException,
    JMSException,
    MessageConversionException,
    PyjmsSettings,
    QosSettings,
    SimpleJmsListenerContainerFactory,
    SimpleMessageConverter,
    jms_listener,
)
from pyjms.aio import (
    ConnectionFactory,
    DefaultMessageListenerContainer,
    JmsMessagingTemplate,
    JmsTemplate,
    JmsTransactionManager,
)
from pyjms.errors import DestinationResolutionException
from pyjms.jms.message import Message
from pyjms.listener import (
    MessageListenerAdapter,
    SimpleAsyncTaskExecutor,
    SimpleJmsListenerEndpoint,
)
from pyjms.support import DynamicDestinationResolver
from pyjms.support.destination import SimpleDestinationResolver
from pyjms.testing.app import JmsTestApp
from tests.kit.clients.messages import text_of
from tests.kit.clients.queues import embedded


def settings(**sections: Any) -> PyjmsSettings:
    return PyjmsSettings.model_validate(sections)


class Handlers:
    async def on_message(self, message: Message) -> None: ...

    @jms_listener("topic://news", id="news", durable=True)
    async def handle(self, text: str) -> None: ...


@pytest.mark.fact("spring-jms 1.1/subscriptionName")
async def test_names_of_subscriptions(jms_app: JmsTestApp) -> None:
    """The class of a listener, module.Class.method of a handler; filled in if it is empty."""
    handlers = Handlers()
    factory = ConnectionFactory("vm://x")
    container = DefaultMessageListenerContainer(factory, message_listener=handlers)
    assert container.subscription_name == f"{__name__}.Handlers"
    named = DefaultMessageListenerContainer(
        factory, subscription_name="own", message_listener=handlers
    )
    assert named.subscription_name == "own"
    application = await jms_app.start(handlers, settings=settings(jms={"client_id": "me"}))
    assert application.registry["news"].subscription_name == f"{__name__}.Handlers.handle"


@pytest.mark.fact("spring-jms 1.1/messageConverter, destinationResolver")
async def test_a_container_s_converter_and_resolver() -> None:
    factory = ConnectionFactory("vm://x")
    container = DefaultMessageListenerContainer(factory)
    assert container.message_converter is None
    assert type(container.destination_resolver) is SimpleDestinationResolver
    assert type(MessageListenerAdapter(print, default_listener_method="__call__")
                .message_converter) is SimpleMessageConverter  # fmt: skip


@pytest.mark.fact("spring-jms 1.8.6", "spring-jms 8.1.4")
async def test_the_default_container_factory(jms_app: JmsTestApp) -> None:
    """Transacted, and without a transaction manager; with the settings of jms.listener."""
    given = settings(
        jms={
            "pub_sub_domain": True,
            "subscription_durable": True,
            "client_id": "me",
            "listener": {
                "auto_startup": False,
                "min_concurrency": 1,
                "max_concurrency": 1,
                "receive_timeout": "3s",
                "max_messages_per_task": 5,
                "session": {"acknowledge_mode": "client"},
            },
        }
    )
    application = await jms_app.start(settings=given)
    wired = application.container
    container = wired.jms_listener_container_factory().create_listener_container(
        SimpleJmsListenerEndpoint(id="x", destination="x", message_listener=print)
    )
    assert isinstance(container, DefaultMessageListenerContainer)
    assert (container.session_transacted, container.transaction_manager) == (True, None)
    assert container.session_acknowledge_mode is AcknowledgeMode.CLIENT
    assert (container.pub_sub_domain, container.subscription_durable) == (True, True)
    assert (container.client_id, container.auto_startup) == ("me", False)
    assert (container.concurrency, container.receive_timeout) == ("1-1", 3.0)
    assert container.max_messages_per_task == 5
    assert container.message_converter is wired.message_converter()
    assert container.destination_resolver is wired.destination_resolver()
    assert container.error_handler is None  # of the application, set when it starts
    await jms_app.stop()
    plain = await jms_app.start(
        settings=settings(jms={"listener": {"session": {"transacted": False}}})
    )
    factory = plain.container.jms_listener_container_factory()
    endpoint = SimpleJmsListenerEndpoint(id="x", destination="x", message_listener=print)
    assert not factory.create_listener_container(endpoint).session_transacted
    await jms_app.stop()

    class Own(ApplicationContainer):
        jms_listener_container_factory = providers.Singleton(
            SimpleJmsListenerContainerFactory,  # type: ignore[arg-type]
            ApplicationContainer.native_connection_factory,
        )

    @jms_listener("a", id="a")
    async def handler(text: str) -> None: ...

    own = await jms_app.start(handler, container=Own)
    assert not own.registry["a"].session_transacted


@pytest.mark.fact("spring-jms 8.1.7")
async def test_durable_subscriptions_make_names_those_of_topics(jms_app: JmsTestApp) -> None:
    given = settings(jms={"subscription_durable": True, "client_id": "me"})
    application = await jms_app.start(settings=given)
    factory = application.container.jms_listener_container_factory()
    endpoint = SimpleJmsListenerEndpoint(id="x", destination="x", message_listener=print)
    container = factory.create_listener_container(endpoint)
    assert not given.jms.pub_sub_domain
    assert (container.pub_sub_domain, container.subscription_durable) == (True, True)
    assert not application.template.pub_sub_domain


@pytest.mark.fact("spring-jms 8.1.8")
async def test_listeners_need_not_be_enabled(jms_app: JmsTestApp) -> None:
    @jms_listener("a", id="a")
    async def handler(text: str) -> None: ...

    application = await jms_app.start(handler)
    assert application.registry["a"].is_running


@pytest.mark.fact("spring-jms 8.1.3")
async def test_templates_and_client_are_there(jms_app: JmsTestApp) -> None:
    got: list[object] = []

    @jms_listener("a", id="a")
    def blocking(
        text: str,
        messaging: Annotated[pyjms.JmsMessagingTemplate, Provide["jms_messaging_template"]],
        client: Annotated[pyjms.JmsClient, Provide["jms_client"]],
    ) -> None:
        got.extend([type(messaging), type(client)])
        messaging.convert_and_send(None, text, {"n": 1})
        client.destination("b").send(text, {"n": 2})

    given = settings(jms={"template": {"default_destination": "a.default"}})
    application = await jms_app.start(blocking, settings=given)
    wired = application.container
    assert wired.jms_messaging_template().jms_template is wired.jms_template()
    await jms_app.template.convert_and_send("a", "x")
    await jms_app.drained("a", raise_errors=True)
    assert got == [pyjms.JmsMessagingTemplate, pyjms.JmsClient]
    for name, n in (("a.default", 1), ("b", 2)):
        message: Any = await jms_app.template.receive(name)
        assert (message.text, message.properties["n"]) == ("x", n)
    await jms_app.stop()

    class Own(ApplicationContainer):
        jms_template = providers.Singleton(
            JmsTemplate, ApplicationContainer.connection_factory, priority=9
        )

    replaced = (await jms_app.start(container=Own)).container
    assert replaced.jms_messaging_template().jms_template is replaced.jms_template()
    assert replaced.jms_messaging_template().jms_template.priority == 9


@pytest.mark.fact("spring-jms 6.5")
async def test_a_name_is_resolved_in_the_factory_s_domain(jms_app: JmsTestApp) -> None:
    """`subscription` gives only the name; durable is the factory, or pyjms' own argument."""

    class Services(ApplicationContainer):
        topics = providers.Singleton(
            DefaultJmsListenerContainerFactory,
            ApplicationContainer.native_connection_factory,
            pub_sub_domain=True,
            subscription_durable=True,
            client_id="me",
        )

    @jms_listener("news", id="topic", container_factory="topics", subscription="mine")
    @jms_listener("news", id="queue")
    async def handler(text: str) -> None: ...

    application = await jms_app.start(handler, container=Services)
    topic, queue = application.registry["topic"], application.registry["queue"]
    assert (topic.pub_sub_domain, queue.pub_sub_domain) == (True, False)
    assert (topic.subscription_durable, topic.subscription_name) == (True, "mine")
    await jms_app.template.convert_and_send("topic://news", "to the topic")
    await jms_app.template.convert_and_send("news", "to the queue")
    await jms_app.recorder.until(lambda calls: len(calls) == 2)
    texts = {str(m.destination): text_of(m) for m in jms_app.recorder.messages(handler)}
    assert texts == {"topic://news": "to the topic", "queue://news": "to the queue"}


COMMON: dict[str, Any] = {
    "destination_resolver": DynamicDestinationResolver(),
    "message_converter": SimpleMessageConverter(),
    "exception_listener": print,
    "error_handler": print,
    "session_transacted": True,
    "session_acknowledge_mode": AcknowledgeMode.CLIENT,
    "acknowledge_after_listener": False,
    "pub_sub_domain": True,
    "reply_pub_sub_domain": False,
    "reply_qos_settings": QosSettings(priority=7),
    "subscription_durable": True,
    "client_id": "me",
    "phase": 7,
    "auto_startup": False,
}
DEFAULT: dict[str, Any] = {
    "task_executor": SimpleAsyncTaskExecutor(),
    "cache_level": CacheLevel.SESSION,
    "max_messages_per_task": 5,
    "receive_timeout": 3.0,
    "back_off": ExponentialBackOff(),
}


@pytest.mark.fact("spring-jms 6.11")
@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (DefaultJmsListenerContainerFactory, COMMON | DEFAULT),
        (SimpleJmsListenerContainerFactory, COMMON),
    ],
)
async def test_a_factory_passes_on_what_is_set(kind: Any, options: dict[str, Any]) -> None:
    native = ConnectionFactory("vm://x")
    endpoint = SimpleJmsListenerEndpoint(id="x", destination="x", message_listener=print)
    container = kind(native, **options).create_listener_container(endpoint)
    assert {name: getattr(container, name) for name in options} == options
    plain = kind(native).create_listener_container(endpoint)
    untouched = type(plain)(native)
    names = options.keys() - {"destination_resolver", "back_off", "task_executor"}
    assert {name: getattr(plain, name) for name in names} == {
        name: getattr(untouched, name) for name in names
    }
    if kind is SimpleJmsListenerContainerFactory:
        for name in DEFAULT.keys() - {"task_executor"}:
            with pytest.raises(TypeError, match=f"no option '{name}'"):
                unknown: dict[str, Any] = {name: None}
                kind(native, **unknown).create_listener_container(endpoint)
    else:
        manager = JmsTransactionManager(native)
        made = kind(native, transaction_manager=manager).create_listener_container(endpoint)
        assert made.transaction_manager is manager


@pytest.mark.fact("spring-jms 4.2.4")
async def test_errors_of_the_messaging_template(jms_app: JmsTestApp) -> None:
    """They are those of JMS, where Spring has a second set: the kinds are the same."""

    class Nowhere:
        def resolve_destination_name(self, session: Any, name: str, pub_sub_domain: bool) -> Any:
            raise DestinationResolutionException(f"no {name}")

    application = await jms_app.start()
    factory = application.template.connection_factory
    lost = JmsMessagingTemplate(JmsTemplate(factory, destination_resolver=Nowhere()))
    with pytest.raises(DestinationResolutionException, match="no x"):
        await lost.convert_and_send("x", "text")
    assert issubclass(DestinationResolutionException, InvalidDestinationException)
    messaging = JmsMessagingTemplate(factory)
    with pytest.raises(InvalidDestinationException):
        await messaging.convert_and_send(" ", "text")
    with pytest.raises(MessageConversionException):
        await messaging.convert_and_send("x", object())
    away = JmsMessagingTemplate(ConnectionFactory("vm://away?create=false"))
    with pytest.raises(JMSException) as raised:
        await away.convert_and_send("x", "text")
    assert not isinstance(raised.value, InvalidDestinationException | MessageConversionException)


@pytest.mark.fact("spring-jms 7.8")
async def test_a_database_commits_before_the_message(jms_app: JmsTestApp, tmp_path: Path) -> None:
    """A failure between both commits is a duplicate, never a loss."""
    path = tmp_path / "rows.db"
    with sqlite3.connect(path) as rows:
        rows.execute("CREATE TABLE orders (text TEXT)")
    pending: list[int] = []

    @jms_listener("orders", id="orders")
    async def handler(text: str) -> None:
        with sqlite3.connect(path) as rows:
            rows.execute("INSERT INTO orders VALUES (?)", [text])
        # committed here, while the message is still the broker's
        pending.append(embedded(jms_app.broker).queue_statistics("orders").messages)
        if len(pending) == 1:
            raise ConnectionError("between the commits")

    await jms_app.start(handler)
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    assert pending == [1, 1]
    with sqlite3.connect(path) as rows:
        assert rows.execute("SELECT text FROM orders").fetchall() == [("a",), ("a",)]
