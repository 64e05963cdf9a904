"""The Python of docs/listeners.md runs as it stands."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from dependency_injector import providers

from pyjms.testing.app import JmsTestApp

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "listeners.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
(SHOP,) = [block for block in BLOCKS if block.startswith("# shop.py")]
PROGRAMS = [block for block in BLOCKS if block is not SHOP]


@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_an_example_runs(number: int) -> None:
    exec(compile(PROGRAMS[number], f"listeners-{number}.py", "exec"), {"__name__": "__main__"})


def test_there_are_examples() -> None:
    assert len(PROGRAMS) == 5


@pytest.fixture
def shop() -> Iterator[types.ModuleType]:
    module = types.ModuleType("shop")
    sys.modules["shop"] = module
    exec(compile(SHOP, "shop.py", "exec"), vars(module))
    yield module
    del sys.modules["shop"]


async def test_the_service_is_injected(
    jms_app: JmsTestApp, shop: types.ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    await jms_app.start(shop, container=shop.Services)
    await jms_app.template.convert_and_send("invoices", {"id": 1})
    await jms_app.drained("invoices", raise_errors=True)
    assert capsys.readouterr().out == "saved {'id': 1}\n"


async def test_the_service_can_be_overridden(jms_app: JmsTestApp, shop: types.ModuleType) -> None:
    fake = Mock()
    services = shop.Services()
    services.database.override(providers.Object(fake))
    await jms_app.start(shop, container=services)
    await jms_app.template.convert_and_send("invoices", {"id": 1})
    await jms_app.drained("invoices", raise_errors=True)
    fake.save.assert_called_once_with({"id": 1})
