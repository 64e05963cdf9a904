"""The listeners of docs/idempotency.md, run as they stand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from pyjms.testing.app import JmsTestApp

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "idempotency.md"


async def test_duplicates_have_no_effects(
    jms_app: JmsTestApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "idempotent_listeners"}
    exec(compile(block, "idempotency.py", "exec"), names)
    await jms_app.start(names["on_mail"], names["on_letter"], names["on_payment"])

    def mark(message: Any) -> Any:
        message.properties["mail_id"] = 7
        message.type = "letter"
        return message

    for _ in range(2):
        await jms_app.template.convert_and_send("mails", "mail", post_processor=mark)
        letter = {"number": "1", "text": "letter"}
        await jms_app.template.convert_and_send("letters", letter, post_processor=mark)
    await jms_app.template.convert_and_send("payments", {"id": 1, "amount": 2.5})
    for name in ("mails", "letters", "payments"):
        await jms_app.drained(name)
    assert sorted(names["MAILS"]) == ["letter", "mail"]
    with names["Sessions"]() as db:
        assert db.execute(select(names["PAYMENTS"])).all() == [(1, 2.5)]
