"""The reference pages, made from the code: settings, commands, public names of Python."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

import typer

import pyjms.aio
from pyjms import (
    client,
    connection,
    errors,
    jms,
    listener,
    management,
    support,
    template,
    transactions,
)
from pyjms.cli.main import app, mount_commands
from pyjms.settings.loading import settings_schema
from pyjms_broker.settings import broker_schema

__all__ = ["pages"]

Schema = Mapping[str, Any]

_DURATION: Final = "duration"
_GROUPS: Final[Mapping[str, str]] = {
    "listener": "Listeners",
    "runtime": "Listeners",
    "app": "Applications",
    "settings": "Applications",
    "template": "Sending and receiving",
    "support": "Sending and receiving",
    "connection": "Connections",
    "client": "Connections",
    "jms": "JMS",
    "enums": "JMS",
    "management": "Statistics",
    "errors": "Errors",
}
_DESCRIBED: Final = (
    *(pyjms.aio, client, connection, errors, jms, listener, management, support, template),
    transactions,
)
"""The coroutines of `pyjms.aio`, and the packages with the names that fewer programs need."""
_OTHERS: Final[Mapping[str, tuple[str, ...]]] = {
    "Tests": ("pyjms.testing.app.JmsTestApp", "pyjms.testing.app.Recorder"),
    "Broker": ("pyjms_broker.service.BrokerService",),
}

_COROUTINES_HERE: Final = (
    "Names of `pyjms`. What connects, sends, receives or runs is described here as it is in "
    "`pyjms.aio`, with coroutines; in `pyjms` the same methods block."
)


def pages() -> dict[str, str]:
    """Return the text of each page, by its name below `reference/`."""
    return {
        "application.md": _application(),
        "broker.md": _broker(),
        "commands.md": _commands(),
        **{f"api/{name}.md": text for name, text in _api().items()},
    }


def _application() -> str:
    return _settings_page(
        "application.yaml",
        "Settings of an application. Each key is also an environment variable: `PYJMS_`, and its "
        "path with `__` between the parts: `PYJMS_JMS__CLIENT_ID`. Durations are texts such as "
        "`500ms`, `5s`, `2m`. Profiles (`PYJMS_PROFILES=prod`) add `application-prod.yaml` on top. "
        "`pyjms config show --sources` prints what applies, and where it comes from.",
        settings_schema(),
    )


def _broker() -> str:
    return _settings_page(
        "broker.yaml",
        "Settings of the bundled broker. Each key is also an environment variable: "
        "`PYJMS_BROKER__`, and its path with `__` between the parts.",
        broker_schema(),
    )


def _settings_page(title: str, introduction: str, schema: Schema) -> str:
    lines = [f"# {title}", "", introduction, ""]
    seen: dict[str, str] = {}
    lines += _section("", schema, schema, seen)
    return "\n".join(lines)


def _section(path: str, section: Schema, root: Schema, seen: dict[str, str]) -> Iterator[str]:
    """Write one section: a table of its keys, then the sections below it.

    A model that occurs in several places is written once; the others refer to it.
    """
    below: list[tuple[str, str]] = []
    if path:
        yield from (f"## `{path}`", "", str(section.get("description", "")), "")
    yield from ("| key | value | default | |", "|---|---|---|---|")
    for key, entry in section.get("properties", {}).items():
        sections = list(_sections_of(entry, root))
        shown = " or ".join(_links(f"{path}.{key}" if path else key, sections, seen, below))
        values = " or ".join(filter(None, [_values(entry, root), shown]))
        default = _default(entry, has_section=bool(sections))
        yield f"| `{key}` | {values} | {default} | {_cell(entry, sections, root)} |"
    yield ""
    for name, reference in below:
        yield from _section(name, root["$defs"][reference], root, seen)


def _links(
    path: str,
    sections: list[tuple[str, str]],
    seen: dict[str, str],
    below: list[tuple[str, str]],
) -> Iterator[str]:
    for suffix, reference in sections:
        name = path + suffix if len(sections) == 1 else f"{path}{suffix} ({reference})"
        if reference not in seen:
            seen[reference] = name
            below.append((name, reference))
        yield f"[`{seen[reference]}`](#{_anchor(seen[reference])})"


def _anchor(name: str) -> str:
    kept = "".join(c for c in name.lower() if c.isalnum() or c in "_- ")
    return kept.strip().replace(" ", "-")


def _sections_of(entry: Schema, root: Schema) -> Iterator[tuple[str, str]]:
    """Return the models that a value may be, each with what is added to the path."""
    if "$ref" in entry:
        name = entry["$ref"].rsplit("/", 1)[1]
        if "properties" in root["$defs"][name]:
            yield "", name
        else:
            yield from _sections_of(root["$defs"][name], root)
    for branch in (*entry.get("anyOf", ()), *entry.get("oneOf", ())):
        yield from _sections_of(branch, root)
    if isinstance(entry.get("additionalProperties"), Mapping):
        yield from (
            (f".<name>{end}", name)
            for end, name in _sections_of(entry["additionalProperties"], root)
        )
    if isinstance(entry.get("items"), Mapping):
        yield from ((f"[]{end}", name) for end, name in _sections_of(entry["items"], root))


def _values(entry: Schema, root: Schema) -> str:
    """Return the plain values that a key takes, in words."""
    if "$ref" in entry:
        target = root["$defs"][entry["$ref"].rsplit("/", 1)[1]]
        return "" if "properties" in target else _values(target, root)
    if "enum" in entry:
        return ", ".join(f"`{value}`" for value in entry["enum"])
    if "const" in entry:
        return f"`{entry['const']}`"
    branches = (*entry.get("anyOf", ()), *entry.get("oneOf", ()))
    if branches:
        words = [_values(branch, root) for branch in branches if branch.get("type") != "null"]
        if any(word == _DURATION for word in words):
            return _DURATION
        return " or ".join(dict.fromkeys(filter(None, words)))
    return _plain(entry, root)


def _plain(entry: Schema, root: Schema) -> str:
    kind = entry.get("type")
    if kind == "string" and "ms|s|m|h" in entry.get("pattern", ""):
        return _DURATION
    if kind == "array":
        inner = _values(entry.get("items", {}), root)
        return f"list of {inner}" if inner else ""
    if kind == "object":
        inner = entry.get("additionalProperties")
        if isinstance(inner, Mapping):
            words = _values(inner, root)
            return f"names with {words}" if words else ""
        return "keys of your own" if inner is not False and "properties" not in entry else ""
    words = {"string": "text", "boolean": "true, false", "integer": "integer", "number": "number"}
    return words.get(str(kind), "") + _bounds(entry)


def _bounds(entry: Schema) -> str:
    least, most = entry.get("minimum"), entry.get("maximum")
    if least is not None and most is not None:
        return f", {least} to {most}"
    if least is not None:
        return f", {least} or more"
    return "" if most is None else f", {most} or less"


def _default(entry: Schema, *, has_section: bool) -> str:
    default = entry.get("default")
    if (
        default is None
        or (has_section and isinstance(default, Mapping | list))
        or default in ({}, [])
    ):
        return ""
    if isinstance(default, float) and _values(entry, {"$defs": {}}) == _DURATION:
        return f"`{default:g}s`"
    return f"`{json.dumps(default) if isinstance(default, bool | list | dict) else default}`"


def _cell(entry: Schema, sections: list[tuple[str, str]], root: Schema) -> str:
    text = str(entry.get("description", ""))
    if not text and sections:
        text = str(root["$defs"][sections[0][1]].get("description", ""))
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def _commands() -> str:
    mount_commands(app)
    lines = ["# Commands", "", "What `--help` says of each command, on one page.", ""]
    lines += _command("pyjms", typer.main.get_command(app))
    return "\n".join(lines)


def _command(name: str, command: Any) -> Iterator[str]:
    """Write a command, or those of a group. (The classes are typer's own, and private.)"""
    for child, subcommand in sorted(getattr(command, "commands", {}).items()):
        if not subcommand.hidden:
            yield from _command(f"{name} {child}", subcommand)
    if hasattr(command, "commands"):
        return
    context = command.make_context(name, [], resilient_parsing=True)
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f"## {name}", "", f"`{name} {usage}`", "", _text(command.help), "")
    rows = [_parameter(each) for each in command.params if not _is_hidden(each)]
    if rows:
        yield from ("| | |", "|---|---|", *rows, "")


def _is_hidden(parameter: Any) -> bool:
    return bool(getattr(parameter, "hidden", False))


def _parameter(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar or parameter.name.upper()}`"
    return f"| {names} | {_text(getattr(parameter, 'help', None))} |"


def _text(text: str | None) -> str:
    return " ".join((text or "").replace("|", "\\|").replace("<", "&lt;").split())


def _api() -> dict[str, str]:
    """Return a page for each group of public names, by its file name.

    A name that blocks in `pyjms` is described by the coroutine class of `pyjms.aio`.
    """
    groups: dict[str, list[str]] = {group: [] for group in (*_GROUPS.values(), *_OTHERS)}
    described = {
        f"{each.__module__}.{name}"
        for module in _DESCRIBED
        for name in module.__all__
        if getattr(each := getattr(module, name), "__module__", "").startswith("pyjms.")
    }
    for path in described:
        groups[_GROUPS[path.split(".")[1]]].append(path)
    for group, names in _OTHERS.items():
        groups[group] += names
    return {_slug(group): _api_page(group, names) for group, names in groups.items()}


def _slug(group: str) -> str:
    return group.lower().replace(" ", "-")


def _api_page(group: str, names: list[str]) -> str:
    lines = [f"# {group}", ""]
    if group not in _OTHERS:
        lines += [_COROUTINES_HERE, ""]
    for path in sorted(names, key=lambda p: p.rsplit(".", 1)[1].lower()):
        lines += [f"::: {path}", ""]
    return "\n".join(lines)
