"""Applications whose connections are pooled, by `activemq.pool`."""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any

import anyio
import pytest

from pyjms import JmsApplication, PyjmsSettings, jms_listener, send_to
from pyjms.aio import CachingConnectionFactory, ConnectionFactory, JmsPoolConnectionFactory
from pyjms.aio import JmsTemplate as AioTemplate
from pyjms.testing.clock import VirtualClock
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.waiting import until


def settings(url: str, **activemq: Any) -> PyjmsSettings:
    values = {"activemq": {"pool": {"enabled": True}} | activemq}
    return PyjmsSettings.model_validate(values).with_broker_url(url)


@pytest.mark.fact("spring-jms 8.1.2", "spring-jms 8/spring.activemq.pool.enabled")
@pytest.mark.parametrize(
    ("sections", "templates", "listeners"),
    [
        ({}, CachingConnectionFactory, ConnectionFactory),
        ({"jms": {"cache": {"enabled": False}}}, ConnectionFactory, ConnectionFactory),
        (
            {"activemq": {"pool": {"enabled": True}}},
            JmsPoolConnectionFactory,
            JmsPoolConnectionFactory,
        ),
    ],
    ids=["cache", "neither", "pool"],
)
async def test_which_factory_template_and_listeners_use(
    sections: dict[str, Any], templates: type, listeners: type
) -> None:
    application = JmsApplication(settings=PyjmsSettings.model_validate(sections))
    used = application.template.connection_factory
    of_listeners = application.container.jms_listener_container_factory().connection_factory
    assert type(used) is templates
    assert type(of_listeners) is listeners
    if templates is listeners is JmsPoolConnectionFactory:
        assert used is of_listeners


async def test_an_application_with_a_pool(
    jms_broker: EmbeddedTestBroker, pyjms_broker_url: str
) -> None:
    texts: list[str] = []

    @jms_listener("orders", id="orders")
    @send_to("done")
    async def on_order(text: str) -> str:
        return text

    @jms_listener("done", id="done")
    async def on_done(text: str) -> None:
        texts.append(text)

    application = JmsApplication(
        on_order, on_done, settings=settings(pyjms_broker_url, pool={"enabled": True})
    )
    pool: Any = application.template.connection_factory
    for texts_expected in (["first"], ["first", "second"]):  # it starts again with its application
        async with application:
            assert pool.num_connections == 1
            await application.template.convert_and_send("orders", texts_expected[-1])
            with anyio.fail_after(10):
                await until(partial(texts.__eq__, texts_expected))
        assert pool.num_connections == 0
    assert pool.stats.created_connections.count == 2  # for the template and all listeners


async def test_a_listeners_own_redelivery_policy_works_over_a_pool(
    jms_clock: VirtualClock, jms_broker: EmbeddedTestBroker, jms_template: AioTemplate
) -> None:
    times: list[float] = []

    @jms_listener("orders", id="orders")
    async def handle(text: str) -> None:
        times.append(round(jms_clock.now(), 3))
        raise RuntimeError(text)

    values = {
        "activemq": {"pool": {"enabled": True}, "redelivery": {"initial_delay": "7s"}},
        "listeners": {"orders": {"redelivery": {"maximum": 2, "multiplier": 1}}},
    }
    given = PyjmsSettings.model_validate(values).with_broker_url(jms_broker.url)
    async with JmsApplication(handle, settings=given):
        await jms_template.convert_and_send("orders", "a")
        await jms_clock.advance(30)
    assert [round(b - a, 3) for a, b in pairwise(times)] == [7.0, 7.0]


async def test_redelivery_by_destination(
    jms_clock: VirtualClock, jms_broker: EmbeddedTestBroker, jms_template: AioTemplate
) -> None:
    counts: dict[str, int] = {}

    @jms_listener("orders.new", id="new")
    async def on_new(text: str) -> None:
        counts["new"] = counts.get("new", 0) + 1
        raise RuntimeError(text)

    @jms_listener("orders.urgent", id="urgent")
    async def on_urgent(text: str) -> None:
        counts["urgent"] = counts.get("urgent", 0) + 1
        raise RuntimeError(text)

    @jms_listener("other", id="other")
    async def on_other(text: str) -> None:
        counts["other"] = counts.get("other", 0) + 1
        raise RuntimeError(text)

    policies = {"orders.>": {"maximum": 1}, "orders.urgent": {"maximum": 3}}
    values = {
        "activemq": {
            "redelivery": {"maximum": 0, "initial_delay": "1s"},
            "redelivery_by_destination": policies,
        }
    }
    given = PyjmsSettings.model_validate(values).with_broker_url(jms_broker.url)
    async with JmsApplication(on_new, on_urgent, on_other, settings=given):
        for name in ("orders.new", "orders.urgent", "other"):
            await jms_template.convert_and_send(name, "a")
        await jms_clock.advance(20)
    assert counts == {"new": 2, "urgent": 4, "other": 1}
