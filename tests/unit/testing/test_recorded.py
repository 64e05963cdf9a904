"""What tests of users ask afterwards: calls, results, and what waits in queues."""

from __future__ import annotations

import pytest
from pydantic import BaseModel

from pyjms import MessageConversionException, RequestTimeoutException, jms_listener, send_to
from pyjms.testing.app import JmsTestApp
from pyjms.testing.blocking import BlockingJmsTestApp


class Receipt(BaseModel):
    order: int


@jms_listener("orders", id="orders")
@send_to("receipts")
def on_order(order: int) -> Receipt:
    if order < 0:
        raise ValueError("negative")
    return Receipt(order=order)


async def test_calls_results_and_what_was_sent(jms_app: JmsTestApp) -> None:
    await jms_app.start(on_order)
    for order in (1, 2, -1):
        await jms_app.template.convert_and_send("orders", order)
    await jms_app.drained("orders")
    assert jms_app.recorder.results(on_order) == [Receipt(order=1), Receipt(order=2)]
    assert await jms_app.payloads("receipts", Receipt) == [Receipt(order=1), Receipt(order=2)]
    assert await jms_app.payloads("receipts") == [{"order": 1}, {"order": 2}]
    assert len(await jms_app.messages("receipts")) == 2  # they are still there
    assert await jms_app.messages("nothing.sent.here") == []
    with pytest.raises(MessageConversionException):
        await jms_app.payloads("receipts", int)


async def test_waiting_for_calls(jms_app: JmsTestApp) -> None:
    await jms_app.start(on_order)
    await jms_app.template.convert_and_send("orders", 1)
    await jms_app.recorder.until_called(on_order)
    with pytest.raises(RequestTimeoutException, match="there were 1 calls"):
        await jms_app.recorder.until_called(on_order, 2, timeout=0)


def test_the_same_without_coroutines(jms_blocking_app: BlockingJmsTestApp) -> None:
    jms_blocking_app.start(on_order)
    jms_blocking_app.template.convert_and_send("orders", 1)
    jms_blocking_app.drained("orders")
    assert jms_blocking_app.payloads("receipts", Receipt) == [Receipt(order=1)]
    (message,) = jms_blocking_app.messages("receipts")
    assert message.properties["_type"]
