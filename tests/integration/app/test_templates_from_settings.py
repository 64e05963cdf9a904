"""Templates made from the settings: in programs without an application, and for its threads."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import anyio
import pytest
from dependency_injector import providers

from pyjms import (
    ApplicationContainer,
    CachingConnectionFactory,
    ConfigurationException,
    IllegalStateException,
    JmsApplication,
    JmsPoolConnectionFactory,
    JmsTemplate,
    PyjmsSettings,
    aio,
    jms_listener,
)
from pyjms.jms.message import MapMessage

_numbers = itertools.count(1)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "stamps.py").write_text(
        "async def stamp(invocation, proceed):\n"
        "    invocation.properties['stamped'] = True\n"
        "    await proceed()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "application.yaml"
    url = f"vm://from-settings-{next(_numbers)}?broker.persistent=false"
    path.write_text(
        f"activemq: {{broker_url: '{url}', user: shop}}\n"
        f"brokers: {{audit: {{broker_url: '{url}', pool: {{enabled: true}}}}, mine: {{}}}}\n"
        "jms:\n"
        "  converter: {dict_format: map}\n"
        "  template: {receive_timeout: 5s, interceptors: ['stamps:stamp']}\n"
    )
    return path


def test_a_blocking_template_has_login_converter_and_interceptors(file: Path) -> None:
    template = JmsTemplate.from_settings(file)
    factory = template.connection_factory
    assert isinstance(factory, CachingConnectionFactory)
    target: Any = factory.target_connection_factory
    assert target.user_name == "shop"
    template.with_priority(7).convert_and_send("orders", {"id": 1})
    message = template.receive("orders")
    assert isinstance(message, MapMessage)
    assert (message.priority, message.properties["stamped"]) == (7, True)
    factory.destroy()


async def test_a_template_of_coroutines_is_made_of_the_same_settings(file: Path) -> None:
    template = aio.JmsTemplate.from_settings(file)
    await template.convert_and_send("orders", {"id": 1})
    message = await template.receive("orders")
    assert isinstance(message, MapMessage)
    assert isinstance(template.connection_factory, aio.CachingConnectionFactory)
    await template.connection_factory.destroy()


def test_a_template_of_a_further_broker_may_use_a_pool(file: Path) -> None:
    template = JmsTemplate.from_settings(file, broker="audit")
    assert isinstance(template.connection_factory, JmsPoolConnectionFactory)
    template.convert_and_send("seen", "x")
    assert template.receive_and_convert("seen") == "x"
    template.connection_factory.destroy()


@pytest.mark.parametrize(
    ("broker", "text"),
    [("mine", "PYJMS_BROKERS__MINE__BROKER_URL"), ("audits", "audit")],
)
def test_a_broker_that_is_missing_is_named(broker: str, text: str, file: Path) -> None:
    with pytest.raises(ConfigurationException) as raised:
        JmsTemplate.from_settings(file, broker=broker)
    assert text in f"{raised.value} {raised.value.hint}"


def test_settings_without_a_broker_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationException, match="name no broker") as caught:
        JmsTemplate.from_settings()
    assert f"application.yaml, which is not in {tmp_path}" in caught.value.hint


@pytest.mark.parametrize("kind", [JmsTemplate, aio.JmsTemplate])
def test_a_misspelt_argument_names_the_right_one(kind: Any) -> None:
    with pytest.raises(TypeError, match="did you mean 'profiles'"):
        kind.from_settings(profile="test")


class Invoices:
    def __init__(self, template: JmsTemplate) -> None:
        self.template = template.with_priority(7)

    def send(self, number: int) -> None:
        self.template.convert_and_send("invoices", number)


class Services(ApplicationContainer):
    invoices = providers.Singleton(Invoices, ApplicationContainer.blocking_jms_template)


@jms_listener("unused", id="unused")
async def on_unused(text: str) -> None: ...


async def test_threads_of_an_application_send_with_its_blocking_template(
    pyjms_broker_url: str,
) -> None:
    settings = PyjmsSettings().with_broker_url(pyjms_broker_url)
    app = JmsApplication(on_unused, settings=settings, container=Services)
    invoices = app.container.invoices()  # a service that is made before the application starts
    with pytest.raises(IllegalStateException, match="is not running"):
        invoices.send(0)
    async with app:
        await anyio.to_thread.run_sync(invoices.send, 1)
        received = await app.template.receive_and_convert("invoices", type=int)
        assert (received, app.blocking_template.core) == (1, app.template)
        with pytest.raises(IllegalStateException, match="event loop"):
            invoices.send(2)
    with pytest.raises(IllegalStateException, match="is not running"):
        invoices.send(3)
