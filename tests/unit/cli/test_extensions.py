"""Commands of other distributions: mounted by entry point, and what happens to broken ones."""

from __future__ import annotations

import sys
import types
from importlib.metadata import EntryPoint, EntryPoints
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from pyjms.cli.main import CommandGroup, mount_commands, only_named
from pyjms.errors import ConfigurationException


def hello(name: str = "you") -> None:
    """Say hello."""
    typer.echo(f"hello {name}")


group = typer.Typer(help="A group.")


@group.command()
def one() -> None:
    """The first."""
    typer.echo("one")


@group.command()
def two() -> None:
    """The second."""
    typer.echo("two")


NUMBER = 42


def mounted(*entries: tuple[str, str, str]) -> typer.Typer:
    app = typer.Typer()
    nested = typer.Typer(help="Nested.")
    app.add_typer(nested, name="nested")

    @app.callback()
    def main() -> None: ...

    @app.command()
    def builtin_command() -> None:
        """Of pyjms itself."""
        typer.echo("builtin")

    @nested.callback()
    def inner() -> None: ...

    found = EntryPoints(EntryPoint(name, value, group) for name, value, group in entries)
    mount_commands(app, found)
    return app


def run(app: typer.Typer, *arguments: str) -> Any:
    return CliRunner().invoke(app, arguments)


@pytest.fixture(autouse=True)
def acme_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("acme_commands")
    vars(module).update(hello=hello, group=group, NUMBER=NUMBER)
    monkeypatch.setitem(sys.modules, "acme_commands", module)


def test_a_function_is_a_command_and_a_typer_a_group() -> None:
    app = mounted(
        ("hello", "acme_commands:hello", "pyjms.cli"), ("grp", "acme_commands:group", "pyjms.cli")
    )
    assert run(app, "hello", "--name", "me").output == "hello me\n"
    assert run(app, "grp", "two").output == "two\n"
    assert "Say hello." in run(app, "--help").output


def test_a_group_of_pyjms_takes_commands_too() -> None:
    app = mounted(
        ("hello", "acme_commands:hello", "pyjms.cli.nested"),
        ("grp", "acme_commands:group", "pyjms.cli"),
        ("three", "acme_commands:hello", "pyjms.cli.grp"),
    )
    assert run(app, "nested", "hello").output == "hello you\n"
    assert run(app, "grp", "three").output == "hello you\n"
    assert run(app, "hello").exit_code == 2


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("acme_nowhere:hello", "ModuleNotFoundError: No module named 'acme_nowhere'"),
        ("acme_commands:missing", "AttributeError: .*missing"),
        ("acme_commands:NUMBER", "acme_commands:NUMBER is a int, not a function or a typer.Typer"),
    ],
)
def test_a_broken_entry_point_says_why_and_leaves_the_others_alone(value: str, reason: str) -> None:
    app = mounted(("bad", value, "pyjms.cli"), ("hello", "acme_commands:hello", "pyjms.cli"))
    assert run(app, "hello").output == "hello you\n"
    assert "bad" in run(app, "--help").output
    result = run(app, "bad", "--any", "argument")
    assert isinstance(result.exception, ConfigurationException)
    with pytest.raises(
        ConfigurationException,
        match=f"Command 'bad' of an unknown distribution cannot be loaded: {reason}",
    ):
        raise result.exception


def test_the_commands_of_pyjms_are_never_replaced(caplog: pytest.LogCaptureFixture) -> None:
    app = mounted(
        ("builtin-command", "acme_commands:hello", "pyjms.cli"),
        ("nested", "acme_commands:hello", "pyjms.cli"),
    )
    assert run(app, "builtin-command").output == "builtin\n"
    assert len(caplog.messages) == 2
    assert "is ignored: pyjms has a command of that name" in caplog.text


@pytest.mark.parametrize(
    ("words", "commands", "groups"),
    [
        (["builtin-command", "--help"], ["builtin_command"], []),
        (["nested", "deep", "x"], [], ["nested"]),
        (["--help"], ["builtin_command", "hello"], ["nested", "more"]),
        (["nestd"], ["builtin_command", "hello"], ["nested", "more"]),
        ([], ["builtin_command", "hello"], ["nested", "more"]),
    ],
)
def test_only_the_command_that_the_words_name_is_built(
    words: list[str], commands: list[str], groups: list[str]
) -> None:
    app = mounted(
        ("hello", "acme_commands:hello", "pyjms.cli"),
        ("more", "acme_commands:group", "pyjms.cli"),
        ("deep", "acme_commands:hello", "pyjms.cli.nested"),
        ("deeper", "acme_commands:hello", "pyjms.cli.nested"),
    )
    named = only_named(app, words)
    assert [
        each.callback.__name__ for each in named.registered_commands if each.callback
    ] == commands
    assert [each.name for each in named.registered_groups] == groups
    inner = named.registered_groups[0].typer_instance if groups else None
    if words[1:2] == ["deep"]:
        assert inner is not None
        assert [each.name for each in inner.registered_commands] == ["deep"]
        assert run(named, "nested", "deep", "--name", "you").output == "hello you\n"
    if words == ["--help"]:  # which lists the groups without their commands
        assert inner is not None
        assert inner.registered_commands == []
        assert "Nested." in run(named, "--help").output
    assert len(app.registered_commands) == len(app.registered_groups) == 2


@pytest.mark.parametrize(
    ("words", "commands"),
    [
        (["group", "hello"], ["group"]),
        (["hello"], ["hello"]),
        (["--help"], ["group", "hello", "missing"]),
        ([], ["group", "hello", "missing"]),
    ],
)
def test_of_the_commands_in_other_modules_only_the_named_one_is_imported(
    words: list[str], commands: list[str]
) -> None:
    inner = CommandGroup({"hello": "acme_commands:hello", "two": "acme_nowhere:two"}, name="group")
    vars(sys.modules["acme_commands"]).update(inner=inner)
    app = CommandGroup(
        {
            "hello": "acme_commands:hello",
            "group": "acme_commands:inner",
            "missing": "acme_nowhere:x",
        }
    )
    named = only_named(app, words)
    found = [each.name for each in named.registered_commands]
    found += [str(each.name) for each in named.registered_groups]
    assert sorted(map(str, found)) == commands
    assert [each.name for each in inner.registered_commands] == (
        ["hello"] if words[:1] == ["group"] else [] if words else ["hello", "two"]
    )


def test_a_command_in_another_module_runs() -> None:
    app = CommandGroup({"hello": "acme_commands:hello", "more": "acme_commands:group"})
    assert run(only_named(app, ["more", "one"]), "more", "one").output == "one\n"
