"""The pyjms code of the pages "coming from" runs; that of the other libraries is Python."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

import pytest

from pyjms import ApplicationContainer, JmsApplication, PyjmsSettings, load_settings
from pyjms.annotation.jms_listener import listener_marks

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "coming-from"
PAGES = sorted(FOLDER.glob("*.md"))
TAB = re.compile(r'^=== "(.+?)"\n\n    ```(\w+)\n(.*?)^    ```$', re.MULTILINE | re.DOTALL)


def tabs(language: str, *, ours: bool) -> list[tuple[str, str]]:
    return [
        (f"{page.stem}-{number}", textwrap.dedent(code))
        for page in PAGES
        for number, (title, lang, code) in enumerate(TAB.findall(page.read_text(encoding="utf-8")))
        if lang == language and (title == "pyjms") is ours
    ]


OURS = dict(tabs("python", ours=True))
THEIRS = dict(tabs("python", ours=False))


def test_there_are_pages_and_tabs() -> None:
    assert len(PAGES) == 5
    assert len(OURS) >= 12
    assert len(THEIRS) >= 8


@pytest.fixture
def module(request: pytest.FixtureRequest) -> Iterator[types.ModuleType]:
    name = request.param.replace("-", "_")
    module = types.ModuleType(name)
    sys.modules[name] = module
    exec(compile(OURS[request.param], f"{name}.py", "exec"), vars(module))
    yield module
    del sys.modules[name]


@pytest.mark.parametrize("module", OURS, indirect=True)
def test_code_of_ours_runs_and_its_listeners_fit_together(module: types.ModuleType) -> None:
    if not any(listener_marks(value) for value in vars(module).values()):
        return
    services = vars(module).get("Services", ApplicationContainer)
    JmsApplication(module, settings=PyjmsSettings(), container=services).check()


@pytest.mark.parametrize(
    "module", [n for n, code in OURS.items() if "jms_app" in code], indirect=True
)
async def test_tests_of_ours_pass(module: types.ModuleType, jms_app: object) -> None:
    (test,) = [value for name, value in vars(module).items() if name.startswith("test_")]
    await test(jms_app)


@pytest.mark.parametrize("name", THEIRS)
def test_code_of_others_is_python(name: str) -> None:
    ast.parse(THEIRS[name])


@pytest.mark.parametrize(("name", "text"), tabs("yaml", ours=True))
def test_settings_of_ours_are_valid(name: str, text: str, tmp_path: Path) -> None:
    file = tmp_path / "application.yaml"
    file.write_text(text, encoding="utf-8")
    settings = load_settings(file, environ={"MQ_PASSWORD": "secret"})
    assert settings.activemq.broker_url == "tcp://mq:61616"
