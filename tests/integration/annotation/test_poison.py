"""Messages that no attempt can handle: dead letters at once, with the reason."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import pydantic
import pytest
from dependency_injector import providers
from dependency_injector.wiring import Provide

from pyjms import (
    ApplicationContainer,
    DefaultJmsListenerContainerFactory,
    Header,
    PyjmsSettings,
    SimpleJmsListenerContainerFactory,
    jms_listener,
)
from pyjms.aio import ConnectionFactory
from pyjms.errors import PoisonMessageException
from pyjms.jms.message import MapMessage, TextMessage
from pyjms.testing.app import JmsTestApp
from tests.kit.clients.messages import text_of


class Order(pydantic.BaseModel):
    number: int


class Calls:
    def __init__(self) -> None:
        self.orders: list[Order] = []

    @jms_listener("orders", id="orders")
    async def model(self, order: Order) -> None:
        self.orders.append(order)

    @jms_listener("headers", id="headers")
    def header(self, text: str, count: Annotated[int, Header("count")]) -> None:
        raise AssertionError("the header is missing")

    @jms_listener("maps", id="maps")
    async def raw(self, message: MapMessage) -> None:
        raise AssertionError("the message is no map")

    @jms_listener("blank", id="blank")
    async def text(self, text: str) -> None:
        raise AssertionError("the body is empty")

    @jms_listener("rejected", id="rejected")
    async def reject(self, text: str) -> None:
        raise PoisonMessageException("the account is closed") from ValueError(text)


@pytest.mark.parametrize(
    ("queue", "payload", "kind", "reason"),
    [
        (
            "orders",
            "no json",
            "MessageConversionException",
            "not valid JSON: expected ident at line 1 column 2",
        ),
        ("orders", '{"number": "x"}', "MessageConversionException", "valid integer"),
        ("headers", "text", "MessageConversionException", "Missing header 'count'"),
        ("maps", "text", "MessageConversionException", "is a MapMessage"),
        ("blank", " ", "MessageConversionException", "must not be empty"),
        ("rejected", "closed", "ValueError", "closed"),
    ],
)
async def test_a_message_that_cannot_be_handled_is_a_dead_letter_at_once(
    queue: str, payload: str, kind: str, reason: str, jms_app: JmsTestApp
) -> None:
    await jms_app.start(Calls())
    await jms_app.template.convert_and_send(queue, payload)
    await jms_app.drained(queue)
    [dead] = await jms_app.dead_letters()
    assert isinstance(dead, TextMessage)
    assert dead.text == payload
    assert len(jms_app.recorder.all_calls) == 1
    cause = str(dead.properties["dlqDeliveryFailureCause"])
    assert kind in cause.partition(": ")[0]
    assert reason in cause
    assert str(dead.properties["pyjms_failure_type"]).endswith(kind)
    assert reason in str(dead.properties["pyjms_failure_text"])
    assert "redelivery policy" not in cause


async def test_bad_messages_do_not_block_the_good_ones(jms_app: JmsTestApp) -> None:
    calls = Calls()
    await jms_app.start(calls, redelivery_delay=60.0)
    for payload in ("bad", '{"number": 1}', "worse", '{"number": 2}'):
        await jms_app.template.convert_and_send("orders", payload)
    await jms_app.drained("orders")
    assert calls.orders == [Order(number=1), Order(number=2)]
    assert [text_of(dead) for dead in await jms_app.dead_letters()] == ["bad", "worse"]


MODES: dict[str, dict[str, Any]] = {
    "transacted": {"session_transacted": True},
    "client": {"session_acknowledge_mode": "CLIENT_ACKNOWLEDGE"},
    "individual": {"session_acknowledge_mode": 4},
    "auto": {"session_acknowledge_mode": "AUTO_ACKNOWLEDGE"},
    "dups_ok": {"session_acknowledge_mode": "DUPS_OK_ACKNOWLEDGE"},
}
FACTORIES: dict[str, Any] = {
    "polling": DefaultJmsListenerContainerFactory,
    "pushed": SimpleJmsListenerContainerFactory,
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", FACTORIES)
async def test_in_each_mode(kind: str, mode: str, jms_app: JmsTestApp) -> None:
    calls = Calls()

    class Container(ApplicationContainer):
        jms_listener_container_factory = providers.Singleton(
            FACTORIES[kind], providers.Singleton(ConnectionFactory, jms_app.url), **MODES[mode]
        )

    await jms_app.start(calls, container=Container)
    for payload in ("bad", '{"number": 1}', "worse"):
        await jms_app.template.convert_and_send("orders", payload)
    await jms_app.drained("orders")
    assert calls.orders == [Order(number=1)]
    assert len(jms_app.recorder.all_calls) == 3
    dead = [text_of(message) for message in await jms_app.dead_letters()]
    # a polled message is acknowledged before its listener is called, as in Spring
    acknowledged = kind == "polling" and mode in {"auto", "dups_ok"}
    assert dead == ([] if acknowledged else ["bad", "worse"])


async def test_what_the_handler_sent_is_rolled_back(jms_app: JmsTestApp) -> None:
    @jms_listener("in")
    async def forward(text: str) -> None:
        await jms_app.template.convert_and_send("out", text)
        raise PoisonMessageException("no")

    await jms_app.start(forward)
    await jms_app.template.convert_and_send("in", "x")
    await jms_app.drained("in")
    assert [text_of(dead) for dead in await jms_app.dead_letters()] == ["x"]
    await jms_app.drained("out")


async def test_a_failed_service_does_not_make_a_message_poison(jms_app: JmsTestApp) -> None:
    tries: list[str] = []

    def connect() -> str:
        tries.append("try")
        if len(tries) < 3:
            raise ValueError("the database is away")
        return "database"

    class Container(ApplicationContainer):
        database = providers.Factory(connect)

    seen: list[str] = []

    @jms_listener("orders")
    async def handle(text: str, database: Annotated[str, Provide["database"]]) -> None:
        seen.append(f"{text} {database}")

    await jms_app.start(handle, container=Container)
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    assert seen == ["a database"]
    assert await jms_app.dead_letters() == []


async def test_the_reason_is_logged_once(
    jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    await jms_app.start(Calls())
    with caplog.at_level(logging.INFO, "pyjms"):
        await jms_app.template.convert_and_send("orders", '{"number": "x"}')
        await jms_app.drained("orders")
    [line] = [r for r in caplog.records if r.levelno >= logging.WARNING]
    assert "at delivery 1 and becomes a dead letter" in line.getMessage()
    assert "valid integer" in line.getMessage()
    assert line.exc_info is None


REDELIVER: list[dict[str, Any]] = [
    {"jms": {"listener": {"unreadable_messages": "redeliver"}}},
    {"listeners": {"orders": {"unreadable_messages": "redeliver"}}},
]


@pytest.mark.parametrize("settings", REDELIVER)
async def test_redelivery_is_a_setting(jms_app: JmsTestApp, settings: dict[str, Any]) -> None:
    @jms_listener("orders", id="orders")
    async def model(order: Order) -> None:
        raise AssertionError("it is no order")

    await jms_app.start(model, settings=PyjmsSettings.model_validate(settings))
    await _expect_seven_attempts(jms_app)


async def test_redelivery_is_an_argument(jms_app: JmsTestApp) -> None:
    @jms_listener("orders", unreadable_messages="redeliver")
    async def model(order: Order) -> None:
        raise AssertionError("it is no order")

    await jms_app.start(model)
    await _expect_seven_attempts(jms_app)


async def _expect_seven_attempts(jms_app: JmsTestApp) -> None:
    await jms_app.template.convert_and_send("orders", "bad")
    await jms_app.drained("orders")
    assert len(jms_app.recorder.all_calls) == 7
    [dead] = await jms_app.dead_letters()
    assert "Delivery[7] exceeds" in str(dead.properties["dlqDeliveryFailureCause"])


class Exits:
    @jms_listener("exits", id="exits")
    async def coroutine(self, text: str) -> None:
        raise SystemExit(text)

    @jms_listener("exits.in.thread", id="exits.in.thread")
    def thread(self, text: str) -> None:
        raise SystemExit(text)


@pytest.mark.parametrize("queue", ["exits", "exits.in.thread"])
async def test_sys_exit_is_a_failure_of_the_message(
    queue: str, jms_app: JmsTestApp, caplog: pytest.LogCaptureFixture
) -> None:
    await jms_app.start(Exits())
    await jms_app.template.convert_and_send(queue, "no more")
    await jms_app.drained(queue)
    assert [text_of(message) for message in await jms_app.dead_letters(queue)] == ["no more"]
    failed = [each for each in caplog.messages if "failed on" in each]
    assert failed
    assert all("SystemExit: no more" in each and "\n" not in each for each in failed)
