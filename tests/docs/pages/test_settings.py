"""The programs of docs/settings.md, run as they stand."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

from pyjms import JmsApplication
from pyjms.errors import ConfigurationException
from pyjms.testing.app import JmsTestApp

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "settings.md").read_text("utf-8")
FILES = dict(re.findall(r"```\w+\n# (\w+\.\w+)\n(.*?)```", DOCUMENT, re.DOTALL))


@pytest.fixture(autouse=True)
def files_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("shop", "test_shop"):
        monkeypatch.delitem(sys.modules, name, raising=False)


async def test_own_settings_reach_services_and_handlers(
    jms_app: JmsTestApp, capsys: pytest.CaptureFixture[str]
) -> None:
    shop = importlib.import_module("shop")
    await jms_app.start(shop, config="application.yaml", container=shop.Services)
    await jms_app.template.convert_and_send("orders.EU", 7.0)
    await jms_app.drained("orders.EU", raise_errors=True)
    assert capsys.readouterr().out == "EU 7.0\n"


async def test_the_test_of_the_page(jms_app: JmsTestApp) -> None:
    await importlib.import_module("test_shop").test_large_amounts_are_refused(jms_app)


def test_the_check_names_the_source_of_a_wrong_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYJMS_APP__SHOP__LIMIT", "much")
    shop = importlib.import_module("shop")
    application = JmsApplication(shop, container=shop.Services)
    with pytest.raises(ConfigurationException) as caught:
        application.check()
    assert str(caught.value).startswith(
        "environment variable PYJMS_APP__SHOP__LIMIT: app.shop.limit: Input should be a valid number"
    )


def test_the_program_without_an_application(capsys: pytest.CaptureFixture[str]) -> None:
    (code,) = re.findall(r"```python\n(from .*?)```", DOCUMENT, re.DOTALL)
    exec(compile(code, "program.py", "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "1000.0 orders.EU\n"
