"""`pyjms broker config`: convert ActiveMQ's XML configuration to broker.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Define", "Properties", "app", "given_properties"]

app = typer.Typer(
    name="config", help="Convert the configuration of a broker.", no_args_is_help=True
)
Define = Annotated[
    list[str] | None,
    typer.Option(
        "-D",
        "--define",
        metavar="NAME=VALUE",
        help="Value of the placeholder ${NAME} in ActiveMQ's files.",
    ),
]
Properties = Annotated[
    list[Path] | None,
    typer.Option("--properties", help="Properties file with values of ${NAME}; -D overrides it."),
]


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="ActiveMQ's configuration, activemq.xml.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
    define: Define = None,
    properties: Properties = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file if it exists already.")
    ] = False,
) -> None:
    """Convert ActiveMQ's activemq.xml into broker.yaml.

    Settings without a counterpart are reported on standard error, with file, line, element, reason
    and remedy, and as comments in the result.

    Exit code 0: everything was converted; 1: something was not; 2: the file cannot be converted.
    """
    from pyjms_broker.cli.terminal import ExitCode, one_line_errors, plural
    from pyjms_broker.conversion import convert_activemq_xml

    with one_line_errors("config convert"):
        conversion = convert_activemq_xml(source, given_properties(define, properties))
        text = conversion.yaml()
        conversion.settings()
        if output is not None:
            _write(output, text, force)
    if output is None:
        typer.echo(text, nl=False)
    for finding in conversion.findings:
        typer.echo(str(finding), err=True)
    lost = len(conversion.unsupported)
    if lost:
        typer.echo(f"{plural(lost, 'setting')} could not be converted", err=True)
        raise typer.Exit(ExitCode.FAILED)


def given_properties(define: list[str] | None, files: list[Path] | None) -> dict[str, str]:
    """Return the values of `--properties` and `-D`.

    Raises:
        ConfigurationException: a file cannot be read, or a definition is not NAME=VALUE.
    """
    from pyjms.errors import ConfigurationException
    from pyjms_broker.security.properties_file import read_properties

    given: dict[str, str] = {}
    for file in files or ():
        given.update(read_properties(file))
    for definition in define or ():
        name, mark, value = definition.partition("=")
        if not name or not mark:
            raise ConfigurationException(
                f"-D {name} is not NAME=VALUE", hint="write -D activemq.data=/var/lib/activemq"
            )
        given[name] = value
    return given


def _write(path: Path, text: str, force: bool) -> None:
    from pyjms.errors import ConfigurationException
    from pyjms_broker.cli.private_output import write_private

    try:
        write_private(path, text, replace=force)
    except FileExistsError:
        raise ConfigurationException(
            f"{path} exists already", hint="choose another name, or replace it with --force"
        ) from None
