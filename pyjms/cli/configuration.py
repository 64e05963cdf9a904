"""`pyjms config`: the settings that apply, where they come from, and their schema."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from pyjms.errors import ConfigurationException

if TYPE_CHECKING:
    from pyjms.settings import PyjmsSettings


config_app: Final = typer.Typer(
    help="Show and convert the settings of an application.", no_args_is_help=True
)

ConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="The YAML file. Default: PYJMS_CONFIG, ./application.yaml, ./config/application.yaml.",
    ),
]


def _choose_profiles(names: str | None) -> str | None:
    """Set the profiles of this process and of processes that it starts."""
    from pyjms.configuration.layers import PROFILES_VARIABLE

    if names is not None:
        os.environ[PROFILES_VARIABLE] = names
    return names


ProfilesOption = Annotated[
    str | None,
    typer.Option(
        "--profiles",
        metavar="NAME[,NAME...]",
        callback=_choose_profiles,
        help="Profiles whose files, application-NAME.yaml, override the YAML file. Default: "
        "PYJMS_PROFILES.",
    ),
]


@config_app.command("show")
def show(
    config: ConfigOption = None,
    profiles: ProfilesOption = None,
    sources: Annotated[
        bool,
        typer.Option(
            "--sources",
            help="Print one key per line, with the file and line, or variable, that sets it.",
        ),
    ] = False,
    changed: Annotated[
        bool, typer.Option("--changed", help="Omit what is not set anywhere.")
    ] = False,
) -> None:
    """Print the effective settings as YAML; passwords are masked."""
    del profiles  # the option's callback has chosen them
    import yaml

    from pyjms.settings import load_settings

    settings = load_settings(config)
    shown = _plain_values(settings)
    if changed:
        shown = _without_defaults(settings, shown, ())
    if not sources:
        typer.echo(yaml.safe_dump(shown, sort_keys=False) if shown else "", nl=False)
        return
    for path, value in _leaves(shown, ()):
        typer.echo(f"{'.'.join(path)}: {_inline(value)}  # {settings.source(path) or 'default'}")


@config_app.command("schema")
def schema(
    output: Annotated[Path | None, typer.Option("--output", help="Write to this file.")] = None,
) -> None:
    """Print the JSON Schema of application.yaml, for editors."""
    from pyjms.settings.loading import settings_schema

    text = json.dumps(settings_schema(), indent=2)
    if output is None:
        typer.echo(text)
    else:
        output.write_text(text + "\n", encoding="utf-8")


@config_app.command("example")
def example() -> None:
    """Print an application.yaml with every key, its default and its explanation."""
    from pyjms.settings.loading import example_text

    typer.echo(example_text(), nl=False)


@config_app.command("convert")
def convert(
    source: Annotated[
        Path, typer.Argument(help="Spring Boot's application.yml or application.properties.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File to write; those of profiles are beside it. Default: standard output.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that exist already.")
    ] = False,
) -> None:
    """Convert Spring Boot's settings into application.yaml.

    Keys without a meaning here are reported on standard error, with file, line and reason.

    Exit code 0: everything was converted; 1: something was not; 2: the file cannot be converted.
    """
    from pyjms.cli.terminal import ExitCode, one_line_errors
    from pyjms.settings.spring import convert_spring_file

    with one_line_errors("config convert"):
        conversion = convert_spring_file(source)
        if output is not None:
            written = _write_files(conversion.files(output.stem), output.parent, force)
    if output is None:
        for name, text in conversion.files().items():
            typer.echo(f"# {name}\n{text}", nl=False)
    for finding in conversion.findings:
        typer.echo(finding, err=True)
    if output is not None:
        left = len(conversion.findings)
        number = f"{left} key{'' if left == 1 else 's'} not converted"
        typer.echo(f"wrote {', '.join(map(str, written))}; {number}", err=True)
    if conversion.findings:
        raise typer.Exit(ExitCode.FAILED)


def _write_files(texts: Mapping[str, str], folder: Path, force: bool) -> list[Path]:
    """Write files that only their owner may read, as they may hold passwords; return the paths."""
    paths = {folder / name: text for name, text in texts.items()}
    for path in paths:
        if path.exists() and not force:
            raise ConfigurationException(
                f"{path} exists already", hint="choose another name, or replace it with --force"
            )
    for path, text in paths.items():
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
    return list(paths)


def _plain_values(settings: PyjmsSettings) -> dict[str, Any]:
    """Return the settings as plain values, without the passwords in URLs."""
    from pyjms.transport.uri import TransportURI

    shown = settings.model_dump(mode="json", by_alias=True)
    for broker in (shown["activemq"], *shown["brokers"].values()):
        if broker["broker_url"] is not None:
            broker["broker_url"] = str(TransportURI.parse(broker["broker_url"]))
    return shown


def _leaves(value: object, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], object]]:
    """Return each key and its value, by the path to it; an empty section is a value."""
    if not isinstance(value, Mapping) or not value:
        yield path, value
        return
    for key, inner in value.items():
        yield from _leaves(inner, (*path, str(key)))


def _without_defaults(
    settings: PyjmsSettings, values: Mapping[str, Any], path: tuple[str, ...]
) -> dict[str, Any]:
    """Return the values that a file or a variable sets, and the sections that have them."""
    found: dict[str, Any] = {}
    for key, value in values.items():
        below = (*path, str(key))
        if not isinstance(value, Mapping) or not value:
            if settings.source(below):
                found[key] = value
        elif inner := _without_defaults(settings, value, below):
            found[key] = inner
    return found


def _inline(value: object) -> str:
    """Return a value as YAML on one line."""
    import yaml

    text = yaml.safe_dump(value, default_flow_style=True, width=10**6)
    return text.removesuffix("\n").removesuffix("\n...").strip()
