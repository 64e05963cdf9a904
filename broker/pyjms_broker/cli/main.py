"""The commands of `pyjms broker` (entry-point group `pyjms.cli`).

Each command imports its modules when it runs, so that the help is fast; and `start` does without
the modules of the others.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Annotated, Final

import typer

from pyjms.cli.main import CommandGroup
from pyjms.runtime.logging import LogFormat

_CLI: Final = "pyjms_broker.cli"
_MANAGEMENT: Final = f"{_CLI}.management"

app = CommandGroup(
    {
        "journal": f"{_CLI}.journal:app",
        "jobs": f"{_CLI}.jobs:app",
        "config": f"{_CLI}.config:app",
        "queue": f"{_MANAGEMENT}.queues:queue",
        "connections": f"{_MANAGEMENT}.clients:connections",
        "consumers": f"{_MANAGEMENT}.clients:consumers",
        "subscriptions": f"{_MANAGEMENT}.clients:subscriptions",
        "export": f"{_CLI}.transfer:export_messages",
        "import": f"{_CLI}.transfer:import_messages",
        "passwd": f"{_CLI}.config:passwd",
        "create": f"{_CLI}.config:create",
        "encrypt": f"{_CLI}.config:encrypt",
        "decrypt": f"{_CLI}.config:decrypt",
        "list": f"{_MANAGEMENT}.brokers:list_",
        "query": f"{_MANAGEMENT}.brokers:query_command",
        "doctor": f"{_CLI}.doctor:doctor",
        "status": f"{_MANAGEMENT}.status:status",
        "why": f"{_MANAGEMENT}.brokers:why",
        "trace": f"{_MANAGEMENT}.brokers:trace",
        "history": f"{_MANAGEMENT}.status:history",
        "stop": f"{_MANAGEMENT}.brokers:stop",
        "restart": f"{_MANAGEMENT}.brokers:restart",
        "bstat": f"{_MANAGEMENT}.brokers:bstat",
        "dstat": f"{_MANAGEMENT}.brokers:dstat",
        "top": f"{_MANAGEMENT}.brokers:top",
        "purge": f"{_MANAGEMENT}.queues:purge",
        "move": f"{_MANAGEMENT}.queues:move",
        "dead-letters": f"{_MANAGEMENT}.queues:dead_letters",
        "retry": f"{_MANAGEMENT}.queues:retry",
        "browse": f"{_CLI}.messages:browse",
        "producer": f"{_CLI}.messages:producer",
        "consumer": f"{_CLI}.messages:consumer",
    },
    name="broker",
    help="The bundled message broker.",
    no_args_is_help=True,
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
    define: Define = None,
    properties: Properties = None,
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
