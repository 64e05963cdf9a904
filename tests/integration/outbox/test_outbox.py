"""Messages written in database transactions, and the relay that sends them."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.ext.asyncio import async_sessionmaker, create_async_engine
from sqlalchemy.orm import sessionmaker

import pyjms.outbox
from pyjms import (
    InvalidDestinationException,
    MapMessage,
    MessageConversionException,
    Queue,
    jms_listener,
)
from pyjms.aio import JmsTemplate
from pyjms.outbox import OutboxRelay, send, send_async
from pyjms.outbox.relay import OutboxRows
from pyjms.outbox.tables import OUTBOX, OUTBOX_ID
from pyjms.testing.app import JmsTestApp
from pyjms.testing.clock import VirtualClock
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.clients.queues import messages_in, texts_in
from tests.kit.processes.command_line import pyjms as command


class Order(BaseModel):
    number: int


def waiting(engine: Engine) -> int:
    count = select(func.count()).select_from(OUTBOX).where(OUTBOX.c.sent_at.is_(None))
    with engine.connect() as connection:
        return connection.execute(count).scalar_one()


async def test_what_is_committed_is_sent_with_all_that_it_has(
    engine: Engine, jms_template: JmsTemplate
) -> None:
    sessions = sessionmaker(engine)
    with sessions.begin() as session:
        own = send(
            session,
            "orders",
            Order(number=7),
            properties={"region": "EU", "weight": 1.5, "urgent": True, "customer": 9},
            correlation_id="c-1",
            type="order",
            reply_to=Queue("replies"),
            group_id="g",
            priority=8,
            time_to_live=3600.0,
        )
        send(session.connection(), "orders", b"\x00\xff")
    with sessions() as session:
        send(session, "orders", "rolled back")
        session.rollback()
    assert await OutboxRelay(engine).send_waiting(jms_template) == 2
    first, second = await messages_in(jms_template, "orders")
    assert first.text == '{"number":7}'  # type: ignore[attr-defined]
    assert (first.correlation_id, first.type, first.group_id, first.priority) == (
        *("c-1", "order", "g"),
        8,
    )
    assert str(first.reply_to) == "queue://replies"
    assert 3_500_000 < first.expiration - first.timestamp <= 3_600_000
    expected = {"region": "EU", "weight": 1.5, "urgent": True, "customer": 9, OUTBOX_ID: own}
    assert expected.items() <= dict(first.properties).items()
    assert second.get_body(bytes) == b"\x00\xff"
    assert waiting(engine) == 0


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_async_sessions_write_too(
    engine: Engine, jms_template: JmsTemplate, tmp_path: Path
) -> None:
    own = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/shop.db")
    async with async_sessionmaker(own)() as session, session.begin():
        await send_async(session, "topic://news", "a", outbox="other")
        await send_async(session, "orders", "b")
    await own.dispose()
    assert await OutboxRelay(engine).send_waiting(jms_template) == 1
    assert await texts_in(jms_template, "orders") == ["b"]
    assert waiting(engine) == 1
    assert await OutboxRelay(engine, outbox="other").send_waiting(jms_template) == 1


async def test_an_application_relays_while_it_runs(engine: Engine, jms_app: JmsTestApp) -> None:
    seen: list[int] = []

    @jms_listener("orders")
    async def handle(order: Order) -> None:
        seen.append(order.number)

    relay = OutboxRelay(engine, interval=0.01, batch_size=3)
    await jms_app.start(handle, relay)
    sessions = sessionmaker(engine)
    for number in range(10):
        with sessions.begin() as session:
            send(session, "orders", Order(number=number))
    await jms_app.recorder.until(lambda calls: len(calls) == 10, 30.0)
    assert seen == list(range(10))
    await jms_app.stop()
    with sessions.begin() as session:
        send(session, "orders", Order(number=10))
    await anyio.sleep(0.05)
    assert waiting(engine) == 1
    assert relay.sent == 10


async def test_one_relay_at_a_time_has_its_turn(engine: Engine, jms_template: JmsTemplate) -> None:
    with sessionmaker(engine).begin() as session:
        send(session, "orders", "a")
    rows = {name: _rows(engine, name) for name in ("one", "two")}
    taken = rows["one"].take()
    assert taken is not None
    assert len(taken) == 1
    assert rows["two"].take() is None
    assert await OutboxRelay(engine).send_waiting(jms_template) == 0
    rows["one"].leave()
    taken = rows["two"].take()
    assert taken is not None
    rows["two"].settle(taken)
    assert waiting(engine) == 0


def _rows(engine: Engine, relay: str, *, lease: float = 3600.0) -> OutboxRows:
    return OutboxRows(engine, "default", relay, batch_size=10, lease=lease, keep=False)


async def test_a_lease_that_has_ended_is_anothers(engine: Engine) -> None:
    with sessionmaker(engine).begin() as session:
        send(session, "orders", "a")
    assert _rows(engine, "dead", lease=0.0).take() is not None
    assert _rows(engine, "alive").take() is not None


async def test_sent_rows_may_be_kept_and_expired_ones_are_not_sent(
    engine: Engine, jms_template: JmsTemplate
) -> None:
    with sessionmaker(engine).begin() as session:
        send(session, "orders", "late", time_to_live=0.000001)
        send(session, "orders", "a")
    await OutboxRelay(engine, keep=True).send_waiting(jms_template)
    assert await texts_in(jms_template, "orders") == ["a"]
    assert waiting(engine) == 0
    with engine.connect() as connection:
        assert len(connection.execute(select(OUTBOX)).all()) == 2
    assert await OutboxRelay(engine, keep=True).send_waiting(jms_template) == 0


async def test_a_broker_that_is_away_is_tried_again(
    jms_clock: VirtualClock,
    engine: Engine,
    jms_broker: EmbeddedTestBroker,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with sessionmaker(engine).begin() as session:
        send(session, "orders", "a")
    gone = JmsTemplate(pyjms.aio.ConnectionFactory("vm://nowhere?create=false"))
    relay = OutboxRelay(engine)
    with caplog.at_level(logging.WARNING):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(relay.run, gone)
            with anyio.fail_after(30):
                while "trying again in 2 s" not in caplog.text:
                    await jms_clock.advance(1.0)
            tasks.cancel_scope.cancel()
    assert "Outbox default: sending failed, trying again in 1 s" in caplog.text
    assert waiting(engine) == 1


async def test_a_row_that_cannot_be_sent_stops_its_outbox_and_not_the_relay(
    jms_clock: VirtualClock,
    engine: Engine,
    jms_template: JmsTemplate,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It is named in the log; when it has been deleted, the others follow."""
    with sessionmaker(engine).begin() as session:
        for text in ("a", "b", "c"):
            send(session, "orders", text)
    second = OUTBOX.c.body == b"b"
    with engine.begin() as connection:
        connection.execute(OUTBOX.update().where(second).values(body=b"\xff"))
    relay = OutboxRelay(engine)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay.run, jms_template)
        with anyio.fail_after(30):
            while "trying again in 2 s" not in caplog.text:
                await jms_clock.advance(1.0)
        assert "UnicodeDecodeError" in caplog.text
        assert "row 2 of pyjms_outbox, to queue://orders" in caplog.text
        assert relay.sent == 0
        with engine.begin() as connection:
            connection.execute(OUTBOX.delete().where(OUTBOX.c.id == 2))
        with anyio.fail_after(30):
            while relay.sent < 2:
                await jms_clock.advance(1.0)
        tasks.cancel_scope.cancel()
    assert await texts_in(jms_template, "orders") == ["a", "c"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("orders", MapMessage()), MessageConversionException),
        (("topc://orders", "a"), InvalidDestinationException),
    ],
)
def test_what_cannot_be_sent_is_refused_at_once(
    arguments: tuple[Any, ...], error: type[Exception], engine: Engine
) -> None:
    with sessionmaker(engine)() as session, pytest.raises(error):
        send(session, *arguments)


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 10},
        {"time_to_live": -1.0},
        {"properties": {"a": b"x"}},
        {"properties": {"": "x"}},
        {"properties": {"a": 2**70}},
        {"properties": {"JMSPriority": "high"}},
        {"correlation_id": 5},
    ],
)
def test_options_are_checked(options: dict[str, Any], engine: Engine) -> None:
    with (
        sessionmaker(engine)() as session,
        pytest.raises((TypeError, ValueError, MessageConversionException)),
    ):
        send(session, "orders", "a", **options)


@pytest.mark.parametrize("options", [{"batch_size": 0}, {"interval": -1.0}, {"lease": -1.0}])
def test_a_relay_checks_its_numbers(options: dict[str, Any], engine: Engine) -> None:
    with pytest.raises(ValueError, match=r"\d or more"):
        OutboxRelay(engine, **options)


def test_the_commands_create_tables_and_relay(tmp_path: Path, our_broker: str, name: str) -> None:
    url = f"sqlite:///{tmp_path}/cli.db"
    created = command("outbox", "create-tables", "--database", url)
    assert created.stdout == "pyjms_inbox, pyjms_outbox, pyjms_outbox_relays\n"
    with sessionmaker(create_engine(url)).begin() as session:
        send(session, name, "a")
    done = command("outbox", "relay", "--database", url, "--url", our_broker, "--once")
    assert done.stdout == "1 message sent\n"
    assert command("receive", name, "--url", our_broker).stdout == "a\n"
