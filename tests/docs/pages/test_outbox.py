"""The application of docs/outbox.md, run as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from pyjms.testing.app import JmsTestApp

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "outbox.md"


async def test_an_order_is_stored_and_billed(
    jms_app: JmsTestApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "outbox_of_orders"}
    exec(compile(block, "outbox.py", "exec"), names)
    names["application"].check()
    await jms_app.start(names["on_order"], names["on_bill"], names["relay"])
    await jms_app.template.convert_and_send("orders.new", {"id": "7", "item": "tea"})
    await jms_app.recorder.until(lambda calls: len(calls) == 2, 30.0)
    assert names["BILLED"] == [7]
    with names["Sessions"]() as db:
        assert db.execute(select(names["ORDERS"])).all() == [(7, "tea")]
