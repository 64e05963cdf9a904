"""Providers replaced in a subclass of ApplicationContainer: each is used wherever its name is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from dependency_injector import containers, providers
from dependency_injector.wiring import Provide
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider
from prometheus_client import CollectorRegistry

from pyjms import (
    ApplicationContainer,
    DefaultJmsListenerContainerFactory,
    PyjmsSettings,
    SimpleMessageConverter,
    jms_listener,
)
from pyjms import ConnectionFactory as BlockingFactory
from pyjms import JmsTemplate as BlockingTemplate
from pyjms.aio import (
    CachingConnectionFactory,
    ConnectionFactory,
    JmsClient,
    JmsMessagingTemplate,
    JmsTemplate,
)
from pyjms.aio import JmsTransactionManager as AioTransactionManager
from pyjms.app.application import JmsApplication
from pyjms.app.interceptors import TemplateInterceptors
from pyjms.app.objects import ApplicationLoop
from pyjms.listener import JmsListenerEndpointRegistry
from pyjms.observability.prometheus import PrometheusMetrics
from pyjms.support.destination import DynamicDestinationResolver

Users = dict[str, Callable[[Any, Any], bool]]
"""By the provider that uses the replaced one: whether it does."""


async def _surround(invocation: Any, proceed: Any) -> object:
    return await proceed()


_CASES: dict[str, tuple[Callable[[], providers.Provider[Any]], Users]] = {
    "message_converter": (
        lambda: providers.Singleton(SimpleMessageConverter),
        {
            "jms_template": lambda user, own: user.message_converter is own,
            "jms_listener_container_factory": (
                lambda user, own: user.options["message_converter"] is own
            ),
        },
    ),
    "destination_resolver": (
        lambda: providers.Singleton(DynamicDestinationResolver),
        {
            "jms_template": lambda user, own: user.destination_resolver is own,
            "jms_listener_container_factory": (
                lambda user, own: user.options["destination_resolver"] is own
            ),
        },
    ),
    "native_connection_factory": (
        lambda: providers.Singleton(ConnectionFactory, "tcp://elsewhere:1"),
        {
            "connection_factory": lambda user, own: user.target_connection_factory is own,
            "jms_listener_container_factory": lambda user, own: user.connection_factory is own,
        },
    ),
    "listener_connection_factory": (
        lambda: providers.Singleton(ConnectionFactory, "tcp://elsewhere:3"),
        {"jms_listener_container_factory": lambda user, own: user.connection_factory is own},
    ),
    "connection_factory": (
        lambda: providers.Singleton(ConnectionFactory, "tcp://elsewhere:2"),
        {
            "jms_template": lambda user, own: user.connection_factory is own,
            "transaction_manager": lambda user, own: user.connection_factory is own,
        },
    ),
    "native_connection_factories": (
        lambda: providers.Object({"audit": ConnectionFactory("tcp://elsewhere:6")}),
        {
            "connection_factories": (
                lambda user, own: user["audit"].target_connection_factory is own["audit"]
            ),
        },
    ),
    "connection_factories": (
        lambda: providers.Object({"audit": ConnectionFactory("tcp://elsewhere:7")}),
        {"jms_templates": lambda user, own: user["audit"].connection_factory is own["audit"]},
    ),
    "jms_templates": (
        lambda: providers.Object({"audit": JmsTemplate(ConnectionFactory("tcp://elsewhere:8"))}),
        {},
    ),
    "settings": (
        lambda: providers.Object(PyjmsSettings(jms={"pub_sub_domain": True})),
        {
            "jms_template": lambda user, _: user.pub_sub_domain,
            "jms_listener_container_factory": lambda user, _: user.options["pub_sub_domain"],
        },
    ),
    "jms_template": (
        lambda: providers.Singleton(JmsTemplate, ConnectionFactory("tcp://elsewhere:5")),
        {
            "jms_messaging_template": lambda user, own: user.jms_template is own,
            "blocking_jms_template": lambda user, own: user.core is own,
        },
    ),
    "application_loop": (
        lambda: providers.Singleton(ApplicationLoop),
        {"blocking_jms_template": lambda user, own: user.loop is own},
    ),
    "blocking_jms_template": (
        lambda: providers.Singleton(
            lambda: BlockingTemplate(BlockingFactory("tcp://elsewhere:10"))
        ),
        {},
    ),
    "jms_messaging_template": (
        lambda: providers.Singleton(
            JmsMessagingTemplate, JmsTemplate(ConnectionFactory("tcp://elsewhere:9"))
        ),
        {},
    ),
    "jms_client": (
        lambda: providers.Singleton(JmsClient, JmsTemplate(ConnectionFactory("tcp://elsewhere:9"))),
        {},
    ),
    "jms_listener_container_factory": (
        lambda: providers.Singleton(
            DefaultJmsListenerContainerFactory, ConnectionFactory("tcp://elsewhere:3")
        ),
        {},
    ),
    "interceptors": (lambda: providers.Object((_surround,)), {}),
    "send_interceptors": (
        lambda: providers.Object((_surround,)),
        {"jms_template": lambda user, own: user.send_interceptors == own},
    ),
    "tracer_provider": (
        lambda: providers.Object(TracerProvider()),
        {"instrumentations": lambda user, _: len(user) == 0},
    ),
    "meter_provider": (
        lambda: providers.Object(MeterProvider()),
        {"instrumentations": lambda user, _: len(user) == 0},
    ),
    "metrics_registry": (
        lambda: providers.Object(CollectorRegistry()),
        {"instrumentations": lambda user, _: len(user) == 0},
    ),
    "instrumentations": (
        lambda: providers.Object([PrometheusMetrics(CollectorRegistry())]),
        {"jms_template": lambda user, _: len(user.receive_interceptors) == 1},
    ),
    "template_interceptors": (
        lambda: providers.Object(TemplateInterceptors([_surround], [])),
        {"jms_template": lambda user, _: user.send_interceptors == (_surround,)},
    ),
    "listener_registry": (lambda: providers.Singleton(JmsListenerEndpointRegistry), {}),
    "transaction_manager": (
        lambda: providers.Singleton(
            AioTransactionManager, CachingConnectionFactory(ConnectionFactory("tcp://elsewhere:4"))
        ),
        {},
    ),
}


def _subclass(
    name: str, base: type[ApplicationContainer] = ApplicationContainer
) -> type[ApplicationContainer]:
    metaclass: Any = type(base)
    made: type[ApplicationContainer] = metaclass("Own", (base,), {name: _CASES[name][0]()})
    return made


def test_every_provider_has_a_case() -> None:
    assert set(_CASES) == set(ApplicationContainer.providers) - {"__self__"}


@pytest.mark.parametrize("name", _CASES)
def test_a_replaced_provider_is_used_by_the_others(name: str) -> None:
    container = (
        _subclass(name)() if name == "settings" else _subclass(name)(settings=PyjmsSettings())
    )
    own = getattr(container, name)()
    assert getattr(container, name)() is own
    for user, uses in _CASES[name][1].items():
        assert uses(getattr(container, user)(), own), f"{user} uses another {name}"


@pytest.mark.parametrize("name", _CASES)
def test_a_provider_that_a_base_class_replaced_stays_replaced(name: str) -> None:
    class Further(_subclass(name)):  # type: ignore[misc]
        extra: providers.Singleton[list[Any]] = providers.Singleton(list)

    container = Further() if name == "settings" else Further(settings=PyjmsSettings())
    own = getattr(container, name)()
    for user, uses in _CASES[name][1].items():
        assert uses(getattr(container, user)(), own), f"{user} uses another {name}"


def test_two_containers_share_nothing() -> None:
    kind = _subclass("message_converter")
    first, second = kind(settings=PyjmsSettings()), kind(settings=PyjmsSettings())
    assert first.message_converter() is not second.message_converter()
    assert first.jms_template().message_converter is first.message_converter()
    assert second.jms_template().message_converter is second.message_converter()
    base: Any = ApplicationContainer(settings=PyjmsSettings())
    assert type(base.message_converter()) is not SimpleMessageConverter


def test_services_of_a_base_class_use_what_its_subclass_replaced() -> None:
    class Base(ApplicationContainer):
        names: providers.Singleton[list[str]] = providers.Singleton(list, ["base"])
        service = providers.Singleton(tuple, names)

    class Sub(Base):
        names = providers.Singleton(list, ["sub"])

    assert Sub(settings=PyjmsSettings()).service() == ("sub",)
    assert Base(settings=PyjmsSettings()).service() == ("base",)


def test_an_override_of_the_instance_wins() -> None:
    container: Any = _subclass("message_converter")(settings=PyjmsSettings())
    own = SimpleMessageConverter()
    container.message_converter.override(providers.Object(own))
    assert container.jms_template().message_converter is own


def test_a_handler_that_names_the_base_provider_gets_the_replaced_one() -> None:
    seen: list[object] = []

    @jms_listener("q")
    def handle(
        text: str, converter: Annotated[Any, Provide[ApplicationContainer.message_converter]]
    ) -> None:
        seen.append(converter)

    kind = _subclass("message_converter")
    assert issubclass(kind, containers.DeclarativeContainer)
    JmsApplication(handle, settings=PyjmsSettings(), container=kind).check()


def test_a_container_that_is_requested_later_supplies_the_objects_in_use() -> None:
    app = JmsApplication(settings=PyjmsSettings(), send_interceptors=[_surround])
    template, registry = app.template, app.registry
    container = app.container
    assert container is app.container
    assert (container.jms_template(), container.listener_registry()) == (template, registry)
    assert container.connection_factory() is template.connection_factory
    assert container.jms_messaging_template().jms_template is template
    assert container.send_interceptors() == [_surround]


def test_what_is_overridden_in_a_container_that_was_not_given_is_used() -> None:
    app = JmsApplication(settings=PyjmsSettings())
    own = SimpleMessageConverter()
    app.container.message_converter.override(providers.Object(own))
    assert app.template.message_converter is own
