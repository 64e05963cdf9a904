"""Commands of other distributions: the entry points `pyjms.cli` and `pyjms.cli.<group>`.

An entry point is a function (one command, its docstring is the help) or a `typer.Typer` (a group of
commands). Group `pyjms.cli` adds it to `pyjms` itself, `pyjms.cli.broker` below `pyjms broker`, and
so on for every group of commands. A command that cannot be loaded is still listed, and
calling it reports the reason; the other commands are not affected.

`only_named` limits what typer builds to the command that is run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from copy import copy
from importlib.metadata import EntryPoint, EntryPoints, entry_points
from typing import Any, Final, cast

import typer
from typer.models import CommandInfo, TyperInfo

from pyjms._logger import get_logger
from pyjms.errors import ConfigurationException

__all__ = ["GROUP", "mount_commands", "only_named"]

logger: Final = get_logger(__name__)

GROUP: Final = "pyjms.cli"


def mount_commands(app: typer.Typer, installed: EntryPoints | None = None) -> None:
    """Add the commands of `installed` distributions (default: all) to `app` and its groups.

    A name that `app` or another distribution already has is skipped, with a warning in the log.
    """
    found = cast(EntryPoints, entry_points()) if installed is None else installed
    _mount(app, GROUP, found)


def only_named(app: typer.Typer, words: Sequence[str]) -> typer.Typer:
    """Return `app` with only the command that `words`, the command line, name; groups likewise.

    typer builds every command of every group before it runs one, which takes longer than most
    commands. Help lists the groups without their commands. Where the words name no command, as
    for completion, all remain.
    """
    if list(words) == ["--help"]:
        listed = [
            _with(each, each.typer_instance and _only(each.typer_instance, [], []))
            for each in app.registered_groups
        ]
        return _only(app, app.registered_commands, listed)
    name = words[0] if words else ""
    commands = [each for each in app.registered_commands if _name_of(each) == name]
    groups = [
        _with(each, each.typer_instance and only_named(each.typer_instance, words[1:]))
        for each in app.registered_groups
        if each.name == name
    ]
    return _only(app, commands, groups) if commands or groups else app


def _only(app: typer.Typer, commands: list[CommandInfo], groups: list[TyperInfo]) -> typer.Typer:
    named = copy(app)
    named.registered_commands, named.registered_groups = commands, groups
    return named


def _with(group: TyperInfo, app: typer.Typer | None) -> TyperInfo:
    changed = copy(group)
    changed.typer_instance = app
    return changed


def _mount(app: typer.Typer, group: str, installed: EntryPoints) -> None:
    owners = dict.fromkeys(_names_of(app), "pyjms")
    for entry in sorted(installed.select(group=group)):
        owner = _distribution(entry)
        if entry.name in owners:
            if owners[entry.name] != owner:
                logger.warning(
                    "Command %r of %s is ignored: %s has a command of that name",
                    entry.name,
                    owner,
                    owners[entry.name],
                )
            continue
        owners[entry.name] = owner
        _add(app, entry)
    for info in app.registered_groups:
        if info.name and info.typer_instance is not None:
            _mount(info.typer_instance, f"{group}.{info.name}", installed)


def _add(app: typer.Typer, entry: EntryPoint) -> None:
    try:
        command = entry.load()
    except Exception as error:  # a third-party module may raise any exception
        _add_broken(app, entry, f"{type(error).__name__}: {error}")
        return
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=entry.name)
    elif inspect.isroutine(command):
        app.command(entry.name)(command)
    else:
        kind = type(command).__name__
        _add_broken(app, entry, f"{entry.value} is a {kind}, not a function or a typer.Typer")


def _add_broken(app: typer.Typer, entry: EntryPoint, reason: str) -> None:
    """Add a command in place of one that cannot be loaded; it reports the reason."""
    problem = f"Command {entry.name!r} of {_distribution(entry)} cannot be loaded: {reason}"

    def fail() -> None:
        raise ConfigurationException(
            problem, hint="update or reinstall that distribution, or uninstall it"
        )

    app.command(
        entry.name,
        help=problem,
        short_help="(cannot be loaded)",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )(fail)


def _distribution(entry: EntryPoint) -> str:
    found = entry.dist
    return "an unknown distribution" if found is None else f"{found.name} {found.version}"


def _names_of(app: typer.Typer) -> list[str]:
    commands = [_name_of(info) for info in app.registered_commands]
    groups = [info.name for info in app.registered_groups if info.name]
    return [*commands, *groups]


def _name_of(command: CommandInfo) -> str:
    function: Callable[..., Any] | None = command.callback
    own = "" if function is None else function.__name__.lower().replace("_", "-")
    return command.name or own
