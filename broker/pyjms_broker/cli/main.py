"""The typer application that entry point group `pyjms.cli` mounts as `pyjms broker`.

A command's own imports are made when it runs, so that the help is quick.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pyjms_broker.cli import jobs, journal, transfer

__all__ = ["app", "start"]

app = typer.Typer(name="broker", help="The bundled message broker.", no_args_is_help=True)
app.add_typer(journal.app)
app.add_typer(jobs.app)
app.command("export")(transfer.export_messages)
app.command("import")(transfer.import_messages)


@app.callback()
def broker() -> None:
    """The bundled message broker."""


@app.command()
def start(
    config: Annotated[Path | None, typer.Option(help="The configuration, broker.yaml.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Data directory, as ActiveMQ's: the journal is in its subdirectory kahadb. "
            "Not with persistent: false."
        ),
    ] = None,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Keep messages in memory only.")
    ] = False,
    openwire: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Address for OpenWire clients; port 0: any free port."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The broker's name.")] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Prints one line per connector once it accepts connections. Without --openwire and without
    connectors in the configuration, it listens on 127.0.0.1:61616. --openwire replaces the
    connectors of the configuration.
    """
    from pyjms_broker.cli.start import run

    raise typer.Exit(
        run(
            config=config,
            data=data,
            ephemeral=ephemeral,
            openwire=openwire,
            name=name,
        )
    )
