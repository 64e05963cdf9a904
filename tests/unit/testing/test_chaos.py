"""Failures that a user's tests plan."""

from __future__ import annotations

from typing import Any

import pytest

from pyjms import jms_listener, send_to
from pyjms.jms.message import TextMessage
from pyjms.testing.app import JmsTestApp
from pyjms.testing.chaos import Chaos, ChaosError
from pyjms.testing.clock import VirtualClock
from tests.kit.waiting import until


class Shop:
    def __init__(self) -> None:
        self.seen: list[tuple[str, bool]] = []

    @jms_listener("orders", id="orders")
    @send_to("receipts")
    async def on_order(self, order: str) -> str:
        self.seen.append((order, False))
        return f"receipt of {order}"


@pytest.fixture
async def shop(jms_app: JmsTestApp) -> Shop:
    shop = Shop()
    await jms_app.start(shop)
    return shop


async def receipts(jms_app: JmsTestApp) -> list[str]:
    found = []
    while (text := await jms_app.template.receive_and_convert("receipts", timeout=0)) is not None:
        found.append(text)
    return found


@pytest.mark.parametrize(("at", "calls"), [("before", 1), ("after", 3)])
async def test_a_handler_fails_at_a_point(
    jms_app: JmsTestApp, jms_chaos: Chaos, shop: Shop, at: Any, calls: int
) -> None:
    jms_chaos.fail(shop.on_order, at=at, times=2)
    assert not jms_chaos.is_over
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    assert jms_chaos.is_over
    assert len(shop.seen) == calls  # type: ignore[unreachable]
    assert [type(call.error) for call in jms_app.recorder.calls(shop.on_order)] == [
        ChaosError,
        ChaosError,
        type(None),
    ]
    assert await receipts(jms_app) == ["receipt of a"]


async def test_an_error_of_the_test_s_own_ends_in_the_dead_letters(
    jms_app: JmsTestApp, jms_chaos: Chaos, shop: Shop
) -> None:
    jms_chaos.fail(shop.on_order, TimeoutError("no database"), times=7)
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    (dead,) = await jms_app.dead_letters()
    assert dead.properties["pyjms_failure_type"] == "TimeoutError"
    assert shop.seen == []


async def test_a_duplicate_is_a_redelivery(
    jms_app: JmsTestApp, jms_chaos: Chaos, shop: Shop
) -> None:
    jms_chaos.duplicate(shop.on_order)
    for order in "ab":
        await jms_app.template.convert_and_send("orders", order)
    await jms_app.drained("orders")
    assert [order for order, _ in shop.seen] == ["a", "a", "b"]
    messages = jms_app.recorder.messages(shop.on_order)
    assert [message.delivery_count for message in messages] == [1, 2, 1]
    assert await receipts(jms_app) == ["receipt of a", "receipt of b"]


@pytest.mark.parametrize("at", ["before", "after"])
async def test_a_connection_breaks_while_a_message_is_handled(
    jms_app: JmsTestApp, jms_chaos: Chaos, shop: Shop, at: Any
) -> None:
    jms_chaos.drop_connection(shop.on_order, at=at)
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    await until(lambda: len(shop.seen) == 2)
    assert jms_app.recorder.messages(shop.on_order)[-1].redelivered
    assert await receipts(jms_app) == ["receipt of a"]


async def test_the_connection_of_the_test_s_template_does_not_break(
    jms_app: JmsTestApp, jms_chaos: Chaos, shop: Shop
) -> None:
    jms_chaos.drop_connection(shop.on_order, at="before")
    # the reply comes by a temporary queue, which ends with its connection
    reply = await jms_app.template.send_and_receive(
        "orders", lambda session: session.create_text_message("a")
    )
    assert isinstance(reply, TextMessage)
    assert reply.text == "receipt of a"


async def test_persistent_messages_survive_a_restart_of_the_broker(
    jms_app: JmsTestApp, jms_chaos: Chaos, shop: Shop
) -> None:
    await jms_app.application.pause()
    for order in "abc":
        await jms_app.template.convert_and_send("orders", order)
    await jms_chaos.restart_broker()
    await jms_app.application.resume()
    await jms_app.drained("orders")
    assert [order for order, _ in shop.seen] == ["a", "b", "c"]


async def test_connections_break_between_messages(
    jms_app: JmsTestApp, jms_chaos: Chaos, shop: Shop
) -> None:
    assert await jms_chaos.drop_connections() >= 1
    await jms_app.template.convert_and_send("orders", "a")
    await jms_app.drained("orders")
    assert [order for order, _ in shop.seen] == ["a"]


async def test_a_delay_is_in_the_test_s_time(
    jms_clock: VirtualClock, jms_app: JmsTestApp, jms_chaos: Chaos, shop: Shop
) -> None:
    jms_chaos.delay(shop.on_order, 60.0)
    await jms_app.template.convert_and_send("orders", "a")
    await jms_clock.advance(59.0)
    assert shop.seen == []
    await jms_clock.advance(1.0)
    await jms_app.drained("orders")
    assert len(shop.seen) == 1


async def test_what_cannot_be_planned(jms_chaos: Chaos, shop: Shop) -> None:
    with pytest.raises(ValueError, match="at is 'before' or 'after', not 'commit'"):
        jms_chaos.fail(shop.on_order, at="commit")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="1 or more, not 0"):
        jms_chaos.duplicate(shop.on_order, times=0)
    with pytest.raises(ValueError, match="seconds"):
        jms_chaos.delay(shop.on_order, -1)
    assert jms_chaos.is_over
