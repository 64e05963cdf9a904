"""The typer application that is mounted as `pyjms broker` (entry-point group `pyjms.cli`).

Each command imports its modules when it runs, so that the help is fast.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated

import typer

from pyjms.runtime.logging import LogFormat
from pyjms_broker.cli import config as config_commands
from pyjms_broker.cli import jobs, journal, transfer
from pyjms_broker.cli.config import create, decrypt, encrypt, passwd
from pyjms_broker.cli.doctor import doctor
from pyjms_broker.cli.management import brokers, clients
from pyjms_broker.cli.management import queues as changes
from pyjms_broker.cli.management.queues import retry
from pyjms_broker.cli.management.status import history, status
from pyjms_broker.cli.messages import browse, consumer, producer

app = typer.Typer(name="broker", help="The bundled message broker.", no_args_is_help=True)
app.add_typer(journal.app)
app.add_typer(jobs.app)
app.add_typer(config_commands.app)
for group in (changes.queue, clients.connections, clients.consumers, clients.subscriptions):
    app.add_typer(group)
app.command("export")(transfer.export_messages)
app.command("import")(transfer.import_messages)
app.command("passwd")(passwd)
app.command("create")(create)
app.command("encrypt")(encrypt)
app.command("decrypt")(decrypt)
app.command("list")(brokers.list_)
app.command(cls=brokers.QueryCommand)(brokers.query)
for command in (
    doctor,
    status,
    brokers.why,
    brokers.trace,
    history,
    brokers.stop,
    brokers.restart,
    brokers.bstat,
    brokers.dstat,
    brokers.top,
    changes.purge,
    changes.move,
    changes.dead_letters,
    retry,
    browse,
    producer,
    consumer,
):
    app.command()(command)


@app.callback()
def broker() -> None:
    """The bundled message broker."""


@app.command()
def start(
    uri: Annotated[
        str | None,
        typer.Argument(
            help="ActiveMQ's broker URI instead of a configuration: broker:(tcp://host:port)?..., "
            "properties:FILE or xbean:activemq.xml."
        ),
    ] = None,
    config: Annotated[Path | None, typer.Option(help="The configuration, broker.yaml.")] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Data directory; as in ActiveMQ, the journal is in its subdirectory kahadb. "
            "Cannot be combined with persistent: false."
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
    web: Annotated[
        str | None,
        typer.Option(
            metavar="[HOST:]PORT",
            help="Address of the web server with console, metrics and management; host 127.0.0.1, "
            "port 0: any free port.",
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="The broker's name.")] = None,
    define: config_commands.Define = None,
    properties: config_commands.Properties = None,
    ignore_unsupported: Annotated[
        bool,
        typer.Option(
            "--ignore-unsupported", help="Start even if xbean:FILE contains unsupported elements."
        ),
    ] = False,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            help="Lines of text, or a JSON object a line with its fields. Default: logging.format, "
            "text."
        ),
    ] = None,
    log_level: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[LOGGER=]LEVEL",
            help="debug, info, warning or error, of all loggers or of one, as in "
            "pyjms_broker.audit=warning; may be repeated.",
        ),
    ] = None,
) -> None:
    """Run a broker until SIGTERM or SIGINT.

    Prints one line per connector once it accepts connections. Without --openwire and without
    connectors in the configuration, it listens on 127.0.0.1:61616; with `connectors: []`, or a URI
    without any, on no port. --openwire replaces the connectors of the configuration. --web 8161
    shows queues, messages and connections at http://127.0.0.1:8161.
    """
    gc.disable()  # until the broker runs: a fifth of the start would be searches among modules
    try:
        from pyjms_broker.cli.start import Source, run

        source = Source(uri, config, define, properties, ignore_unsupported)
        code = run(
            source,
            data=data,
            ephemeral=ephemeral,
            openwire=openwire,
            name=name,
            web=web,
            log_format=log_format,
            log_level=log_level or (),
        )
    finally:
        gc.enable()
    raise typer.Exit(code)
