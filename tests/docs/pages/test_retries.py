"""The listener and the redrive of docs/retries.md, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyjms import ConnectionFactory, Queue
from pyjms.template import Redriven
from pyjms.testing.app import JmsTestApp
from tests.kit.clients.messages import text_of
from tests.kit.clients.queues import messages_in, texts_in

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "retries.md"
BLOCKS = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


def run(number: int) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": f"retries_{number}"}
    exec(compile(BLOCKS[number], f"retries-{number}.py", "exec"), names)
    return names


async def test_the_listener_skips_rejects_and_retries(jms_app: JmsTestApp) -> None:
    names = run(0)
    await jms_app.start(names["on_order"])
    for kind in ("test", "unknown", "early", "good"):
        number = "five" if kind == "good" else "5"
        await jms_app.template.convert_and_send("orders", {"kind": kind, "number": number})
    await jms_app.drained("orders", timeout=30.0)
    dead = await messages_in(jms_app.template, "orders.failed")
    assert [m.properties["pyjms_failure_type"] for m in dead] == [
        "pyjms.errors.Reject",
        "pyjms.errors.Retry",
        "ValueError",
    ]
    assert await texts_in(jms_app.template, "ActiveMQ.DLQ") == []


def test_the_redrive_runs() -> None:
    names = run(1)
    assert names["done"] == Redriven()
    names["template"].connection_factory.destroy()


def test_dead_letters_are_moved_back() -> None:
    with ConnectionFactory("vm://demo?broker.persistent=false").create_connection() as connection:
        connection.start()
        session = connection.create_session()
        session.create_producer(Queue("ActiveMQ.DLQ")).send(session.create_text_message("dead"))
        run(2)
        consumer = session.create_consumer(Queue("orders.new"))
        assert text_of(consumer.receive(timeout=5.0)) == "dead"
