"""JmsApplication over the real broker: start and stop, hooks, settings, factories."""

from __future__ import annotations

import logging
import threading
from typing import Annotated, Any

import anyio
import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide

from pyjms import (
    ApplicationContainer,
    DefaultJmsListenerContainerFactory,
    IllegalStateException,
    InvalidClientIDException,
    JmsApplication,
    JmsTemplate,
    PyjmsSettings,
    Queue,
    Topic,
    jms_listener,
    on_shutdown,
    on_startup,
    send_to,
)
from pyjms.aio import ConnectionFactory
from pyjms.aio import JmsTemplate as AioTemplate
from pyjms.listener.default_container import DefaultMessageListenerContainer
from pyjms.listener.endpoint import SimpleJmsListenerEndpoint
from pyjms.support.embedded_broker import EmbeddedBroker
from pyjms.testing.app import JmsTestApp
from tests.kit.clients.messages import text_of
from tests.kit.clients.queues import embedded
from tests.kit.waiting import until


def settings(url: str, **more: Any) -> PyjmsSettings:
    return PyjmsSettings(**more).with_broker_url(url)


class Noted:
    """Records events in order, from any thread."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @on_startup
    async def opened(self) -> None:
        self.events.append("startup")

    @on_startup
    def opened_blocking(self, template: Annotated[JmsTemplate, Provide["jms_template"]]) -> None:
        template.convert_and_send("notes", "first")
        self.events.append(f"startup in {threading.current_thread() is threading.main_thread()}")

    @jms_listener("notes", id="notes")
    def note(self, text: str) -> None:
        self.events.append(text)

    @on_shutdown
    async def closing(self) -> None:
        self.events.append("shutdown 1")
        raise RuntimeError("the other hooks still run")

    @on_shutdown
    def closed(self) -> None:
        self.events.append("shutdown 2")


async def test_hooks_run_around_the_listeners(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    noted = Noted()
    async with JmsApplication(noted, settings=settings(pyjms_broker_url)) as application:
        await jms_broker.drained("notes")
        assert application.is_running
    # methods are found in the order of their names; shutdown runs in reverse
    order = ["startup", "startup in False", "first", "shutdown 1", "shutdown 2"]
    assert noted.events == order
    assert "Shutdown hook Noted.closing failed" in caplog.text


async def test_a_failing_start_up_hook_stops_the_start(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str
) -> None:
    events: list[str] = []

    @on_startup
    async def fails() -> None:
        raise RuntimeError("no database")

    @on_shutdown
    async def closes() -> None:
        events.append("closed")

    @jms_listener("in")
    async def handler(text: str) -> None:
        events.append(text)

    application = JmsApplication(fails, closes, handler, settings=settings(pyjms_broker_url))
    with pytest.raises(RuntimeError, match="no database"):
        await application.start()
    assert not application.is_running
    assert len(application.registry) == 0
    assert events == ["closed"]
    with pytest.raises(RuntimeError, match="no database"):  # and not a group of exceptions
        await application.run_async()


async def test_the_log_says_what_runs_where(
    pyjms_broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("orders.${app.region}", id="orders", concurrency="2-8")
    async def handler(text: str) -> None: ...

    caplog.set_level(logging.INFO, logger="pyjms.app.application")
    url = f"{pyjms_broker_url}&jms.password=secret"
    async with JmsApplication(handler, settings=settings(url, app={"region": "eu"})):
        pass
    lines = [r.getMessage() for r in caplog.records if r.name == "pyjms.app.application"]
    assert lines[0] == "Listening: orders on orders.eu, 2-8 consumers"
    assert lines[1].startswith("Application started: 1 listener on ConnectionFactory('vm://")
    assert lines[-1] == "Application stopped"
    assert "secret" not in caplog.text


@pytest.mark.fact("spring-jms 6.7")
async def test_endpoints_registered_later_start_at_once(jms_app: JmsTestApp) -> None:
    got: list[str] = []

    async def listener(message: Any) -> None:
        got.append(message.text)

    application = await jms_app.start()
    factory = application.container.jms_listener_container_factory()
    endpoint = SimpleJmsListenerEndpoint(destination="late", id="late", message_listener=listener)
    container = await application.registry.register_and_start(
        endpoint, factory.create_listener_container
    )
    assert container.is_running
    await jms_app.template.convert_and_send("late", "x")
    await jms_app.drained("late")
    assert got == ["x"]
    await application.registry.unregister("late")
    assert not container.is_active
    assert application.registry.get_listener_container("late") is None


@pytest.mark.fact("spring-jms 6.10")
async def test_endpoints_are_functions_of_messages_or_handlers(jms_app: JmsTestApp) -> None:
    @jms_listener("b", id="b")
    async def handler(text: str) -> None: ...

    application = await jms_app.start(handler)
    factory = application.container.jms_listener_container_factory()
    got: list[str] = []
    simple = SimpleJmsListenerEndpoint(
        destination="a", message_listener=lambda message: got.append(message.text)
    )
    await application.registry.register_and_start(simple, factory.create_listener_container)
    for queue in "ab":
        await jms_app.template.convert_and_send(queue, queue)
        await jms_app.drained(queue, raise_errors=True)
    assert got == ["a"]
    assert [text_of(m) for m in jms_app.recorder.messages(handler)] == ["b"]


@pytest.mark.fact("spring-jms 6.2")
async def test_ids_and_the_registry(jms_app: JmsTestApp) -> None:
    @jms_listener("a")
    @jms_listener("b", id="named", auto_startup=False)
    async def handler(text: str) -> None: ...

    application = await jms_app.start(handler)
    registry = application.registry
    ids = registry.get_listener_container_ids()
    assert ids == ("pyjms.JmsListenerEndpointContainer#0", "named")
    assert registry["named"].bean_name == "named"
    assert [c.is_running for c in registry] == [True, False]
    assert registry.is_running
    await registry.stop()
    assert not registry.is_running
    await registry.start()  # type: ignore[unreachable]  # by hand: all
    assert [c.is_running for c in registry] == [True, True]
    with pytest.raises(IllegalStateException, match="already registered with id 'named'"):
        registry.register(
            SimpleJmsListenerEndpoint(destination="x", id="named", message_listener=print),
            application.container.jms_listener_container_factory().create_listener_container,
        )


@pytest.mark.fact("spring-jms 6.4")
async def test_the_endpoint_wins_over_its_factory_and_yaml_over_both(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str
) -> None:
    @jms_listener("a", id="plain")
    @jms_listener("b", id="own", concurrency="4")
    @jms_listener("c", id="told", concurrency="4", selector="n = 1")
    async def handler(text: str) -> None: ...

    given = settings(
        pyjms_broker_url,
        jms={"listener": {"min_concurrency": 2, "max_concurrency": 3, "auto_startup": False}},
        listeners={"told": {"destination": "d", "concurrency": "5-6", "selector": "n = 2"}},
    )
    async with JmsApplication(handler, settings=given) as application:
        found = {
            c.bean_name: (c.destination_name, c.concurrency, c.message_selector, c.is_running)
            for c in application.registry
        }
    assert found == {
        "plain": ("a", "2-3", None, False),
        "own": ("b", "1-4", None, False),
        "told": ("d", "5-6", "n = 2", False),
    }


@pytest.mark.fact("spring-jms 6.4")
async def test_the_id_names_the_threads(jms_app: JmsTestApp) -> None:
    names: list[str] = []

    @jms_listener("in", id="worker", concurrency="1-1")
    def handler(text: str) -> None:
        names.append(threading.current_thread().name)

    application = await jms_app.start(handler)
    assert application.registry["worker"].bean_name == "worker"
    await jms_app.template.convert_and_send("in", "x")
    await jms_app.drained("in", raise_errors=True)
    assert names == ["worker-1"]


async def test_the_log_says_which_listeners_are_of_topics(
    pyjms_broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("news", id="archive", durable=True, subscription="archive")
    @jms_listener("topic://news", id="ticker")
    @jms_listener("letters", id="letters", concurrency="2-2")
    async def handler(text: str) -> None: ...

    caplog.set_level(logging.INFO, logger="pyjms.app.application")
    given = settings(pyjms_broker_url, jms={"client_id": "press"})
    async with JmsApplication(handler, settings=given):
        pass
    lines = [r.getMessage() for r in caplog.records if r.name == "pyjms.app.application"]
    assert sorted(lines[:3]) == [
        "Listening: archive on topic://news (durable subscription archive), 1 consumer",
        "Listening: letters on letters, 2 consumers",
        "Listening: ticker on topic://news, 1 consumer",
    ]


async def test_the_log_says_which_listeners_are_not_started(
    pyjms_broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    @jms_listener("in", id="active")
    @jms_listener("idle.in", id="idle")
    async def handler(text: str) -> None: ...

    caplog.set_level(logging.INFO, logger="pyjms.app.application")
    given = settings(pyjms_broker_url, listeners={"idle": {"auto_startup": False}})
    async with JmsApplication(handler, settings=given):
        pass
    lines = [r.getMessage() for r in caplog.records if r.name == "pyjms.app.application"]
    assert sorted(lines[:2]) == [
        "Listening: active on in, 1 consumer",
        "Not started: idle on idle.in (auto_startup: false)",
    ]
    assert lines[2].startswith("Application started: 1 listener on ")


async def test_a_named_broker_is_a_container_factory(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[str] = []

    @jms_listener("in", container_factory="backup")
    async def handler(text: str) -> None:
        got.append(text)

    class Container(ApplicationContainer):
        pass

    given = PyjmsSettings(
        activemq={"broker_url": "tcp://127.0.0.1:1"},  # nobody listens there, nobody connects
        brokers={"backup": {"broker_url": pyjms_broker_url}},
    )
    caplog.set_level(logging.INFO, logger="pyjms.app.application")
    async with JmsApplication(handler, settings=given, container=Container):
        factory = ConnectionFactory(pyjms_broker_url)
        await AioTemplate(factory).convert_and_send("in", "x")
        await jms_broker.drained("in")
    assert got == ["x"]
    started = "Application started: 1 listener on ConnectionFactory('tcp://127.0.0.1:1'), "
    assert started + pyjms_broker_url.partition("?")[0] in caplog.text


async def test_an_application_starts_again(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str
) -> None:
    noted = Noted()
    application = JmsApplication(noted, settings=settings(pyjms_broker_url))
    for _ in range(2):
        await application.start()
        await jms_broker.drained("notes")
        await application.stop()
        await application.stop()  # twice is fine
    assert noted.events.count("first") == 2
    assert noted.events.count("startup") == 2


async def test_handlers_are_registered_before_the_start(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str
) -> None:
    noted = Noted()
    application = JmsApplication(settings=settings(pyjms_broker_url))
    application.register(noted)
    async with application:
        with pytest.raises(IllegalStateException, match="register handlers before it starts"):
            application.register(noted)
    assert "startup" in noted.events


async def test_stopping_gives_a_blocked_handler_its_deadline(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str
) -> None:
    entered, release = anyio.Event(), anyio.Event()

    @jms_listener("in")
    async def handler(text: str) -> None:
        entered.set()
        await release.wait()

    application = JmsApplication(handler, settings=settings(pyjms_broker_url))
    await application.start()
    await application.template.convert_and_send("in", "x")
    await entered.wait()
    await application.stop(timeout=0.05)
    assert not application.is_running
    assert embedded(jms_broker).queue_statistics("in").messages == 1  # it went back


async def test_stopping_waits_for_work_in_progress(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str
) -> None:
    entered, release = anyio.Event(), threading.Event()

    @jms_listener("in")
    def handler(text: str) -> None:
        anyio_loop.call_soon(entered.set)
        release.wait(10)

    from pyjms.runtime.event_loop import LoopHandle

    anyio_loop = LoopHandle()
    application = JmsApplication(handler, settings=settings(pyjms_broker_url))
    await application.start()
    await application.template.convert_and_send("in", "x")
    await entered.wait()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(application.stop)
        await anyio.lowlevel.checkpoint()
        release.set()
    assert embedded(jms_broker).queue_statistics("in").messages == 0


async def test_request_stop_ends_run(pyjms_broker_url: str) -> None:
    noted = Noted()
    application = JmsApplication(noted, settings=settings(pyjms_broker_url))

    @on_startup
    async def stop_soon() -> None:
        application.request_stop()

    application.register(stop_soon)
    await application.run_async()
    assert noted.events[-2:] == ["shutdown 1", "shutdown 2"]
    assert not application.is_running


@pytest.mark.fact("spring-jms 8.1.5", "spring-jms 8.1.6")
async def test_listeners_use_the_factory_beneath_the_cache(jms_app: JmsTestApp) -> None:
    @jms_listener("in", id="in")
    async def handler(text: str) -> None: ...

    application = await jms_app.start(
        handler,
        settings=PyjmsSettings(jms={"listener": {"session": {"acknowledge_mode": "client"}}}),
    )
    container = application.registry["in"]
    wired = application.container
    assert isinstance(container, DefaultMessageListenerContainer)
    assert container.connection_factory is wired.native_connection_factory()
    assert wired.connection_factory().target_connection_factory is wired.native_connection_factory()
    assert wired.jms_template().connection_factory is wired.connection_factory()
    assert container.session_transacted
    await jms_app.template.convert_and_send("in", "x")
    await jms_app.drained("in", raise_errors=True)  # committed, though nobody acknowledged


async def test_providers_are_overridden(jms_app: JmsTestApp) -> None:
    class Plain(ApplicationContainer):
        jms_template = providers.Singleton(
            AioTemplate,
            ApplicationContainer.native_connection_factory,
            default_destination_name="here",
        )

    application = await jms_app.start(container=Plain)
    await application.template.convert_and_send(None, "x")
    assert embedded(jms_app.broker).queue_statistics("here").messages == 1


@pytest.mark.parametrize("domain", [False, True])
async def test_a_name_says_its_kind(domain: bool, jms_app: JmsTestApp) -> None:
    got: list[object] = []

    @jms_listener("topic://news")
    @jms_listener(Queue("in"))
    @send_to("topic://out")
    async def handler(text: str) -> str:
        return text.upper()

    @jms_listener(Topic("out"))
    async def hears(text: str) -> None:
        got.append(text)

    await jms_app.start(handler, hears, settings=PyjmsSettings(jms={"pub_sub_domain": domain}))
    await jms_app.template.convert_and_send("topic://news", "by topic")
    await jms_app.template.convert_and_send("queue://in", "by queue")
    await jms_app.drained("in", raise_errors=True)
    await until(lambda: len(got) >= 2)
    assert sorted(map(str, got)) == ["BY QUEUE", "BY TOPIC"]


@pytest.mark.parametrize("cache_level", ["CONSUMER", "NONE"])
async def test_a_client_id_in_use_ends_the_start(
    cache_level: str,
    jms_broker: EmbeddedBroker,
    pyjms_broker_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Container(ApplicationContainer):
        durables = providers.Singleton(
            DefaultJmsListenerContainerFactory,
            ApplicationContainer.native_connection_factory,
            subscription_durable=True,
            client_id="me",
            cache_level=cache_level,
        )

    @jms_listener("news", container_factory="durables", subscription="audit")
    async def handler(text: str) -> None: ...

    async with await ConnectionFactory(pyjms_broker_url).create_connection() as other:
        await other.set_client_id("me")
        given = settings(
            f"{pyjms_broker_url}&jms.clientID=me" if cache_level == "NONE" else pyjms_broker_url
        )
        application = JmsApplication(handler, settings=given, container=Container)
        with pytest.raises(InvalidClientIDException, match="already connected") as refused:
            await application.start()
        assert "listeners.<id>.client_id" in refused.value.hint
        assert not application.is_running
        assert len(application.registry) == 0
    assert not [line for line in caplog.messages if "retrying" in line or "recover" in line]


async def test_a_client_id_that_cannot_be_set_ends_the_start(pyjms_broker_url: str) -> None:
    class Container(ApplicationContainer):
        durables = providers.Singleton(
            DefaultJmsListenerContainerFactory,
            ApplicationContainer.connection_factory,  # the template's, whose connection is shared
            subscription_durable=True,
            client_id="me",
        )

    @jms_listener("news", container_factory="durables", subscription="audit")
    async def handler(text: str) -> None: ...

    application = JmsApplication(handler, settings=settings(pyjms_broker_url), container=Container)
    with pytest.raises(IllegalStateException, match="set_client_id is not supported on a shared"):
        await application.start()
    assert not application.is_running


async def test_a_broker_that_is_not_there_does_not_keep_the_start_waiting() -> None:
    @jms_listener("in", concurrency="2-2")
    async def handler(text: str) -> None: ...

    async with JmsApplication(handler, settings=settings("tcp://127.0.0.1:1")) as application:
        (container,) = application.registry
        assert container.is_running


@pytest.mark.parametrize("run", ["run", "run_async"])
def test_an_application_runs_in_the_main_thread_only(run: str) -> None:
    application = JmsApplication(settings=PyjmsSettings())
    errors: list[BaseException] = []

    def start() -> None:
        try:
            if run == "run":
                application.run()
            else:
                anyio.run(application.run_async)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    assert [type(error) for error in errors] == [IllegalStateException]
    assert "needs the main thread" in str(errors[0])
    assert not application.is_running


async def test_an_error_handler_for_one_listener_or_for_all(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str
) -> None:
    of_all: list[Exception] = []
    of_one: list[Exception] = []

    @jms_listener("a", id="a")
    @jms_listener("b", id="b")
    async def handler(text: str) -> None:
        raise ValueError(text)

    application = JmsApplication(handler, settings=settings(pyjms_broker_url))
    factory = application.container.jms_listener_container_factory()
    factory.options["error_handler"] = of_all.append
    async with application:
        application.registry["b"].error_handler = of_one.append
        for name in "ab":
            await application.template.convert_and_send(name, name)
            await jms_broker.drained(name)
    assert [str(error.__cause__) for error in of_all] == ["a"] * 7
    assert [str(error.__cause__) for error in of_one] == ["b"] * 7
