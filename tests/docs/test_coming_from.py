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

import pyjms
from pyjms import ApplicationContainer, JmsApplication, PyjmsSettings, load_settings, outbox
from pyjms.listener.decorators import ListenerOptions, listener_marks
from pyjms.template.send_options import MessageOptions, SendOptions
from tests.kit.processes.children import environment
from tests.kit.processes.forked_python import run_python

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "coming-from"
PAGES = sorted(FOLDER.glob("*.md"))
TAB = re.compile(r'^=== "(.+?)"\n\n    ```(\w+)\n(.*?)^    ```$', re.MULTILINE | re.DOTALL)


BROKER = "tcp://localhost:61616"
IN_MEMORY = "vm://page?broker.persistent=false&broker.schedulerSupport=true"


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
    code = OURS[request.param].replace(BROKER, IN_MEMORY)
    exec(compile(code, f"{name}.py", "exec"), vars(module))
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


def names_in_the_tables() -> list[str]:
    """Return the code in the last column of each table "Corresponding names"."""
    return [
        code
        for page in PAGES
        for row in page.read_text(encoding="utf-8").split("## Corresponding names")[1].splitlines()
        if row.startswith("| ")
        for code in re.findall(r"`([^`]+)`", row.split("|")[2])
    ]


NAMES = sorted(set(names_in_the_tables()))
CLASS_OR_DECORATOR = re.compile(r"(?:@|raise )?([A-Z][a-z]+\w*|(?<=@)\w+)(?=$|\()")
KEYWORD = re.compile(r"(?:^|, )([a-z_]+)=")


def test_classes_and_decorators_in_the_tables_are_public_names() -> None:
    found = {match[1] for name in NAMES if (match := CLASS_OR_DECORATOR.match(name))}
    assert {"Retry", "RetryPolicy", "jms_scheduled", "idempotent", "OutboxRelay"} <= found
    assert {n for n in found if not hasattr(pyjms, n) and not hasattr(outbox, n)} == set()


def test_keywords_in_the_tables_are_those_of_a_listener_or_a_send() -> None:
    known = {
        *ListenerOptions.__annotations__,
        *MessageOptions.__annotations__,
        *SendOptions.__annotations__,
    }
    found = {keyword for name in NAMES for keyword in KEYWORD.findall(name)}
    assert {"batch_size", "delay"} <= found <= known


def test_commands_in_the_tables_exist() -> None:
    commands = {name for name in NAMES if re.fullmatch(r"pyjms( [a-z]+)+", name)}
    assert "pyjms redrive" in commands
    for command in commands:
        done = run_python("-m", *command.split(), "--help", env=environment())
        assert done.returncode == 0, command + done.stderr
