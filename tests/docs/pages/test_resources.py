"""The program of docs/resources.md, run as it stands."""

from __future__ import annotations

import importlib
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from pyjms.testing.app import JmsTestApp

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "resources.md"


async def test_each_order_has_its_session(
    jms_app: JmsTestApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "order_sessions.py").write_text(block, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("order_sessions")
    await jms_app.start(module, container=module.Services)
    for name in ("a", "b"):
        await jms_app.template.convert_and_send("orders", name)
    await jms_app.drained("orders", raise_errors=True)
    await jms_app.stop()
    with closing(sqlite3.connect("orders.db")) as database:
        assert database.execute("SELECT name FROM orders").fetchall() == [("a",), ("b",)]
