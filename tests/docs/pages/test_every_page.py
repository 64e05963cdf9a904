"""Code, settings and commands of all pages: what has no test of its own is tried here."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
import typer
import yaml

from pyjms import JmsTemplate, PyjmsSettings, load_settings
from pyjms.cli.main import app, mount_commands
from pyjms_broker.settings import BrokerSettings, load_broker_settings
from tests.kit.processes.children import ROOT

DOCS: Final = ROOT / "docs"
PAGES: Final = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
NO_PROGRAMS: Final = ("decisions.md", "specification/spark-pipeline.md")
"""Pages with Python that is not meant to run."""

RUN_HERE: Final = (
    *("connections.md", "failover.md", "index.md", "jms2.md", "management.md", "messaging.md"),
    *("migration.md", "plugins.md", "scheduling.md", "tls.md"),
)
OTHER_FILES: Final = frozenset({"apiVersion", "scrape_configs", "startupProbe", "spring"})
"""Keys at the top of YAML that is for other programs."""

VARIABLES: Final = dict.fromkeys(
    (
        "KEY_PASSWORD",
        "MQ_PASSWORD",
        "BRIDGE_PASSWORD",
        "SYSTEM_PASSWORD",
        "SHOP_PASSWORD",
        "CONTROL_TOKEN",
    ),
    "a password of 16 or more",
)


def blocks(page: Path, *languages: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [code for language, code in found if language in languages]


def test_the_python_of_each_page_is_run_by_a_test() -> None:
    tests = {
        path: path.read_text(encoding="utf-8") for path in Path(__file__).parents[1].rglob("*.py")
    }
    del tests[Path(__file__)]
    here = "".join(tests.values()) + (ROOT / "tests/kit/recipes.py").read_text(encoding="utf-8")
    here += (ROOT / "tests/kit/processes/user_programs.py").read_text(encoding="utf-8")
    with_python = {str(page.relative_to(DOCS)) for page in PAGES[1:] if blocks(page, "python")}
    untested = {
        name
        for name in with_python - set(RUN_HERE) - set(NO_PROGRAMS)
        if f'"{name}"' not in here and not name.startswith("coming-from/")
    }
    assert untested == set()
    assert set(RUN_HERE) <= with_python


PROGRAMS: Final = [
    pytest.param(code, id=f"{name}-{number}")
    for name in RUN_HERE
    for number, code in enumerate(blocks(DOCS / name, "python"))
]


@pytest.mark.parametrize("code", PROGRAMS)
def test_a_program_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "activemq.xml").write_text('<beans><broker brokerName="a"/></beans>')
    names: dict[str, Any] = {"__name__": "__main__"}
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compiled = compile(code, "example.py", "exec", flags, dont_inherit=True)
    result = eval(compiled, names)
    if inspect.iscoroutine(result):
        anyio.run(lambda: result)
    for each in names.values():  # as the end of a process does
        if isinstance(each, JmsTemplate) and hasattr(each.connection_factory, "destroy"):
            each.connection_factory.destroy()


def settings_of_pages() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        if page.parent.name == "coming-from" or page.stem.startswith("extending"):
            continue  # in tabs, or of installed recipes: they have tests of their own
        for number, text in enumerate(blocks(page, "yaml")):
            if not OTHER_FILES & yaml.safe_load(text).keys():
                yield f"{page.stem}-{number}", text


SETTINGS: Final = dict(settings_of_pages())


@pytest.mark.parametrize("name", SETTINGS)
def test_the_settings_are_valid(name: str, tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text(SETTINGS[name], encoding="utf-8")
    keys = yaml.safe_load(SETTINGS[name]).keys()
    if keys <= PyjmsSettings.model_fields.keys() and "# broker.yaml" not in SETTINGS[name]:
        load_settings(file, environ=VARIABLES)
    else:
        assert keys <= BrokerSettings.model_fields.keys()
        load_broker_settings(file, environ=VARIABLES)


@cache
def commands() -> dict[tuple[str, ...], set[str]]:
    """Return the options of each command, by the words of its name."""
    mount_commands(app)
    found: dict[tuple[str, ...], set[str]] = {}

    def walk(name: tuple[str, ...], command: Any) -> None:
        found[name] = {
            option for each in command.params for option in (*each.opts, *each.secondary_opts)
        }
        for child, below in getattr(command, "commands", {}).items():
            walk((*name, child), below)

    walk(("pyjms",), typer.main.get_command(app))
    return found


def command_lines(page: Path) -> Iterator[str]:
    """Yield what the page says to type, in blocks and in the text."""
    text = page.read_text(encoding="utf-8")
    for block in blocks(page, "sh", "bash", "text"):
        yield from (
            line.partition("| ")[2] or line for line in block.splitlines() if "| pyjms" in line
        )
        yield from (line for line in block.splitlines() if line.startswith("pyjms "))
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (" ".join(code.split()) for code in re.findall(r"`(pyjms [a-z][^`]*)`", prose))


def problem_of(line: str) -> str | None:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.split()
    length = max(n for n in range(1, len(words) + 1) if n == 1 or tuple(words[:n]) in commands())
    name, rest = tuple(words[:length]), words[length:]
    group = any(other[:length] == name for other in commands() if len(other) > length)
    if group and rest and re.fullmatch(r"[a-z][a-z-]*", rest[0]):
        return f"{line!r}: there is no command {rest[0]!r}"
    given = {word.partition("=")[0] for word in rest if re.fullmatch(r"--[a-z][\w-]*(=.*)?", word)}
    unknown = given - commands()[name] - {"--help", "--install-completion"}
    return f"{line!r}: {name} has no {unknown}" if unknown and not group else None


def test_the_commands_exist() -> None:
    lines = [
        (page.name, line)
        for page in PAGES
        if not page.stem.startswith("extending")
        for line in command_lines(page)
    ]
    assert len(lines) > 100
    assert [(page, found) for page, line in lines if (found := problem_of(line))] == []
