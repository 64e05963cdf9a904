"""A message with a giant number of properties does not delay or stop other clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pyjms.jms.destination import Queue
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire.primitives import encode_map
from tests.kit.brokers.openwire_attacker import Connect

Q = Queue("q")


@pytest.mark.parametrize("selector", ["a = 1", None])
async def test_a_message_of_too_many_properties_does_not_stop_a_queue(
    peer: Connect,
    serves: Callable[[], Any],
    selector: str | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    consumer, attacker = await peer("consumer"), await peer("attacker")
    await consumer.connect()
    await attacker.connect()
    await consumer.consume(Q, selector=selector)
    giant = attacker.message(Q)
    giant.marshalled_properties = encode_map({"x": [None] * (MAX_PROPERTY_VALUES + 1)})
    await attacker.tell(giant)
    good = attacker.message(Q, b"good")
    good.marshalled_properties = encode_map({"a": 1})
    await attacker.tell(good)
    while True:
        heard = [c.message.content for c in consumer.heard if getattr(c, "message", None)]
        if b"good" in heard:
            break
        await consumer.read()
    await serves()
    warnings = [record for record in caplog.records if "counts as no match" in record.message]
    assert len(warnings) == (selector is not None)
    assert not any(record.exc_info for record in warnings)
