"""Applications with several brokers: a template for each entry of `brokers`."""

from __future__ import annotations

from typing import Annotated, Any

import anyio
import pytest
from dependency_injector.wiring import Provide

from pyjms import ConfigurationException, JmsApplication, JmsTemplate, PyjmsSettings, jms_listener
from pyjms.aio import JmsTemplate as AioTemplate
from pyjms.support.embedded_broker import EmbeddedBroker
from pyjms_broker import BrokerService
from tests.kit.waiting import until


@pytest.fixture
async def audit_broker() -> Any:
    async with BrokerService("audit-broker", persistent=False) as broker:
        yield broker


def settings_with(url: str, audit_url: str) -> PyjmsSettings:
    settings = PyjmsSettings(brokers={"audit": {"broker_url": audit_url}})
    return settings.with_broker_url(url)


async def test_handlers_get_the_template_of_a_further_broker(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str, audit_broker: Any
) -> None:
    got = anyio.Event()
    texts: list[str] = []

    @jms_listener("orders", id="orders")
    def on_order(text: str, audit: Annotated[JmsTemplate, Provide["jms_templates.audit"]]) -> None:
        audit.convert_and_send("seen", f"blocking {text}")

    @jms_listener("other", id="other")
    async def on_other(
        text: str, audit: Annotated[AioTemplate, Provide["jms_templates.audit"]]
    ) -> None:
        await audit.convert_and_send("seen", f"coroutine {text}")

    @jms_listener("all", id="all")
    def on_all(text: str, templates: Annotated[Any, Provide["jms_templates"]]) -> None:
        templates["audit"].convert_and_send("seen", f"all {text}")

    @jms_listener("seen", id="seen", container_factory="audit")
    async def on_seen(text: str) -> None:
        texts.append(text)
        if len(texts) == 4:
            got.set()

    settings = settings_with(pyjms_broker_url, audit_broker.vm_uri)
    app = JmsApplication(on_order, on_other, on_all, on_seen, settings=settings)
    async with app:
        for name in ("orders", "other", "all"):
            await app.template.convert_and_send(name, name)
        await app.templates["audit"].convert_and_send("seen", "application")
        with anyio.fail_after(10):
            await got.wait()
    assert sorted(texts) == ["all all", "application", "blocking orders", "coroutine other"]
    with anyio.fail_after(10):  # the application closed its connections to that broker
        await until(lambda: not audit_broker.connections.by_id)


async def test_a_send_to_its_own_broker_belongs_to_the_handlers_transaction(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str, audit_broker: Any
) -> None:
    attempts: list[int] = []
    done = anyio.Event()

    @jms_listener("work", id="work", container_factory="audit")
    async def on_work(
        text: str, audit: Annotated[AioTemplate, Provide["jms_templates.audit"]]
    ) -> None:
        await audit.convert_and_send("result", text)
        attempts.append(1)
        if len(attempts) == 1:
            raise RuntimeError("once more")
        done.set()

    settings = settings_with(
        pyjms_broker_url, f"{audit_broker.vm_uri}?jms.redeliveryPolicy.initialRedeliveryDelay=0"
    )
    async with JmsApplication(on_work, settings=settings) as app:
        audit = app.templates["audit"]
        await audit.convert_and_send("work", "x")
        with anyio.fail_after(10):
            await done.wait()
        assert await audit.receive_and_convert("result", timeout=5.0) == "x"
        assert await audit.receive("result", timeout=0) is None


async def test_a_misspelt_broker_is_named_before_the_start(pyjms_broker_url: str) -> None:
    @jms_listener("orders", id="orders")
    def on_order(text: str, audit: Annotated[JmsTemplate, Provide["jms_templates.audti"]]) -> None:
        raise AssertionError((text, audit))

    app = JmsApplication(on_order, settings=settings_with(pyjms_broker_url, "tcp://elsewhere:1"))
    with pytest.raises(ConfigurationException, match=r"has no 'audti'; did you mean 'audit'\?"):
        app.check()
    with pytest.raises(KeyError, match="audti"):
        app.templates["audti"]
    assert list(app.templates) == ["audit"]
    assert "audti" not in app.templates
