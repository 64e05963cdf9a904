"""Listeners that code adds: configurers, endpoints, and handlers while the application runs."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide

from pyjms import (
    ApplicationContainer,
    ConfigurationException,
    DefaultJmsListenerContainerFactory,
    IllegalStateException,
    PyjmsSettings,
    SimpleJmsListenerContainerFactory,
    jms_listener,
)
from pyjms.aio import SimpleMessageListenerContainer
from pyjms.listener import (
    JmsListenerEndpointRegistrar,
    JmsListenerEndpointRegistry,
    SimpleJmsListenerEndpoint,
    jms_listener_configurer,
)
from pyjms.listener.container import AbstractMessageListenerContainer
from pyjms.testing.app import JmsTestApp


class Tenant(str):
    """A parameter that only the application's own resolver supplies."""

    __slots__ = ()


class TenantResolver:
    def supports(self, parameter: Any) -> bool:
        return parameter.hint is Tenant

    def resolve(self, parameter: Any, message: Any, session: Any) -> Tenant:
        return Tenant(f"tenant {message.properties['tenant']} of {parameter.name}")


def settings(**sections: Any) -> PyjmsSettings:
    return PyjmsSettings.model_validate(sections)


@pytest.mark.fact("spring-jms 6.9")
async def test_configurers_add_endpoints_and_set_defaults(jms_app: JmsTestApp) -> None:
    got: list[object] = []
    order: list[str] = []
    own_registry = JmsListenerEndpointRegistry()

    @jms_listener("marked", id="marked")
    async def marked(text: str, whose: Tenant) -> None:
        got.append((text, whose))

    async def added(text: str) -> None:
        got.append(text)

    @jms_listener_configurer(order=2)
    def second(registrar: JmsListenerEndpointRegistrar) -> None:
        order.append("second")
        registrar.register_handler(added, "added", id="added", concurrency="1-1")
        registrar.argument_resolvers.append(TenantResolver())

    @jms_listener_configurer(order=1)
    def first(
        registrar: JmsListenerEndpointRegistrar, names: Annotated[list[str], Provide["names"]]
    ) -> None:
        order.append("first")
        registrar.endpoint_registry = own_registry
        registrar.container_factory_name = "simple"
        for name in names:
            registrar.register_endpoint(
                SimpleJmsListenerEndpoint(
                    id=name, destination=name, message_listener=lambda m: got.append(m.text)
                )
            )

    class Services(ApplicationContainer):
        names = providers.Object(["a", "b"])
        simple = providers.Singleton(
            SimpleJmsListenerContainerFactory, ApplicationContainer.native_connection_factory
        )

    given = settings(listeners={"b": {"destination": "other"}, "added": {"auto_startup": False}})
    application = await jms_app.start(marked, second, first, container=Services, settings=given)
    assert order[:2] == ["first", "second"]
    assert application.registry is own_registry
    assert own_registry.get_listener_container_ids() == ("marked", "added", "a", "b")
    assert all(isinstance(c, SimpleMessageListenerContainer) for c in own_registry)
    assert not own_registry["added"].is_running
    await own_registry["added"].start()
    for name in ("a", "other", "added"):
        await jms_app.template.convert_and_send(name, f"to {name}")
        await jms_app.drained(name, raise_errors=True)
    await jms_app.template.convert_and_send("marked", "x", properties={"tenant": "t"})
    await jms_app.drained("marked", raise_errors=True)
    assert got == ["to a", "to other", "to added", ("x", "tenant t of whose")]


@pytest.mark.fact("spring-jms 6.9", "spring-jms 6.2")
async def test_endpoints_of_code_need_an_id_that_is_free(jms_app: JmsTestApp) -> None:
    registrar = JmsListenerEndpointRegistrar()
    with pytest.raises(ValueError, match="Endpoint id must be set"):
        registrar.register_endpoint(
            SimpleJmsListenerEndpoint(destination="a", message_listener=print)
        )

    @jms_listener_configurer()
    def twice(registrar: JmsListenerEndpointRegistrar) -> None:
        for destination in "ab":
            registrar.register_endpoint(
                SimpleJmsListenerEndpoint(
                    id="same", destination=destination, message_listener=print
                )
            )

    with pytest.raises(ConfigurationException, match="already registered with id 'same'"):
        await jms_app.start(twice)


@pytest.mark.fact("spring-jms 6.3")
async def test_which_factory_creates_a_container(
    jms_app: JmsTestApp, pyjms_broker_url: str
) -> None:
    """Its own, else the configurer's, else the default one; that is needed last of all."""
    created: list[str] = []

    class Named(DefaultJmsListenerContainerFactory):
        def __init__(self, name: str, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            self.name = name

        def create_listener_container(self, endpoint: Any) -> AbstractMessageListenerContainer:
            created.append(f"{self.name}: {endpoint.id}")
            return super().create_listener_container(endpoint)

    class Services(ApplicationContainer):
        jms_listener_container_factory = providers.Singleton(
            Named, "default", ApplicationContainer.native_connection_factory
        )
        own = providers.Singleton(Named, "own", ApplicationContainer.native_connection_factory)

    @jms_listener("a", id="a")
    @jms_listener("b", id="b", container_factory="own")
    async def handler(text: str) -> None: ...

    await jms_app.start(handler, container=Services)
    await jms_app.stop()
    assert created == ["default: a", "own: b"]

    @jms_listener_configurer()
    def explicit(registrar: JmsListenerEndpointRegistrar) -> None:
        registrar.container_factory = Named("explicit", Services.own().connection_factory)

    services = Services(settings=PyjmsSettings().with_broker_url(pyjms_broker_url))

    @jms_listener_configurer()
    def configured(registrar: JmsListenerEndpointRegistrar) -> None:
        factory = services.native_connection_factory()
        registrar.container_factory = Named("explicit", factory)
        endpoint = SimpleJmsListenerEndpoint(id="c", destination="c", message_listener=print)
        registrar.register_endpoint(endpoint, Named("given", factory))

    created.clear()
    await jms_app.start(handler, configured, container=services)
    assert created == ["explicit: a", "own: b", "given: c"]
    await jms_app.stop()

    @jms_listener("a", id="a", container_factory="missing")
    async def lost(text: str) -> None: ...

    with pytest.raises(ConfigurationException, match="there is no container factory 'missing'"):
        await jms_app.start(lost)


async def test_a_handler_is_added_while_the_application_runs(jms_app: JmsTestApp) -> None:
    got: list[str] = []

    async def late(text: str) -> None:
        got.append(text)

    application = await jms_app.start(settings=settings())
    container = await application.add_listener(late, "late", id="late", concurrency="2-3")
    assert (container.is_running, container.concurrency) == (True, "2-3")
    await jms_app.template.convert_and_send("late", "x")
    await jms_app.drained("late", raise_errors=True)
    assert got == ["x"]
    with pytest.raises(IllegalStateException, match="already registered with id 'late'"):
        await application.add_listener(late, "late", id="late")
    with pytest.raises(ConfigurationException, match="concurrency"):
        await application.add_listener(late, "late", id="other", concurrency="x")
    await application.registry.unregister("late")
    await jms_app.stop()
    with pytest.raises(IllegalStateException, match="is not running"):
        await application.add_listener(late, "late")


async def test_configurers_that_cannot_work_are_named(jms_app: JmsTestApp) -> None:
    @jms_listener_configurer()
    async def late(registrar: JmsListenerEndpointRegistrar) -> None: ...

    @jms_listener_configurer()
    def alone() -> None: ...

    @jms_listener_configurer()
    def wanting(registrar: JmsListenerEndpointRegistrar, service: str) -> None: ...

    with pytest.raises(ConfigurationException) as raised:
        await jms_app.start(late, alone, wanting)
    text = str(raised.value)
    assert "late is a coroutine function" in text
    assert "alone takes no registrar" in text
    assert "parameter 'service' cannot be supplied" in text
    with pytest.raises(TypeError, match="needs parentheses"):
        jms_listener_configurer(order=print)  # type: ignore[arg-type]


@pytest.mark.fact("spring-jms 6.6")
async def test_the_registry_has_a_container_for_each_endpoint(jms_app: JmsTestApp) -> None:
    @jms_listener("a", id="a")
    @jms_listener("b", id="b", auto_startup=False)
    async def handler(text: str) -> None: ...

    application = await jms_app.start(handler)
    registry = application.registry
    first, second = registry.get_listener_containers()
    assert registry.get_listener_container_ids() == ("a", "b")
    assert registry.get_listener_container("a") is first
    assert registry.get_listener_container("c") is None
    assert (first.is_running, second.is_running, registry.is_running) == (True, False, True)
    stopped: list[bool] = []
    await registry.stop(lambda: stopped.append(first.is_running))
    assert (stopped, registry.is_running) == ([False], False)
    await registry.start()  # by hand: also those that do not start by themselves
    assert (first.is_running, second.is_running) == (True, True)
