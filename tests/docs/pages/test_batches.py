"""The batch listener of docs/batches.md, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyjms import TextMessage
from pyjms.testing.app import JmsTestApp

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "batches.md"


async def test_the_listener_stores_batches_and_rejects_messages(jms_app: JmsTestApp) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    names: dict[str, Any] = {"__name__": "stored_orders"}
    exec(compile(block, "batches.py", "exec"), names)
    await jms_app.start(names["store"])
    for number, total in enumerate([5.0, -1.0, 7.5]):
        order = names["Order"](number=number, total=total)
        await jms_app.template.convert_and_send("orders", order)
    await jms_app.drained("orders", raise_errors=True)
    assert [number for batch in names["STORED"] for number in batch] == [0, 2]
    (dead,) = await jms_app.dead_letters()
    assert isinstance(dead, TextMessage)
    assert dead.properties["pyjms_failure_text"] == "the total is negative"
