"""The commands `pyjms outbox ...`."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import typer

from pyjms.cli.credentials import PasswordFile, UrlOption, User, factory_for

__all__ = ["outbox_app"]

outbox_app: Final = typer.Typer(
    no_args_is_help=True,
    help="Send messages that were written in database transactions (extra sql).",
)

DatabaseOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--database",
        envvar="PYJMS_OUTBOX_DATABASE",
        metavar="URL",
        help="SQLAlchemy URL of the database, such as postgresql+psycopg://shop@db/shop.",
    ),
]


@outbox_app.command("create-tables")
def create_tables(database: DatabaseOption) -> None:
    """Create the outbox and inbox tables that do not exist yet."""
    from pyjms._distribution import optional
    from pyjms.cli.terminal import one_line_errors

    with one_line_errors("outbox"):
        sqlalchemy = optional("sqlalchemy", "pyjms outbox", "sql")
        tables = optional("pyjms.outbox.tables", "pyjms outbox", "sql")
        engine = sqlalchemy.create_engine(database)
        tables.metadata.create_all(engine)
        typer.echo(", ".join(sorted(tables.metadata.tables)))


@outbox_app.command()
def relay(
    database: DatabaseOption,
    url: UrlOption = None,
    user: User = None,
    password_file: PasswordFile = None,
    outbox: Annotated[str, typer.Option(help="The name of the outbox.")] = "default",
    once: Annotated[
        bool,
        typer.Option("--once", help="Send the messages that are in the outbox now, then exit."),
    ] = False,
) -> None:
    """Send the messages of an outbox to a broker, until SIGINT or SIGTERM.

    Several of these processes may run; one of them is active at a time.
    """
    import logging

    import anyio

    from pyjms._distribution import optional
    from pyjms._wakeup import end_tasks, spawn
    from pyjms.cli.terminal import one_line_errors, plural
    from pyjms.core.template import JmsTemplate

    with one_line_errors("outbox"):
        made = optional("pyjms.outbox.relay", "pyjms outbox", "sql").OutboxRelay(
            database, outbox=outbox
        )
        template = JmsTemplate(factory_for(url, user, password_file))

        async def run() -> None:
            from pyjms._signals import stop_on_signals

            logging.basicConfig(format="%(message)s", level=logging.WARNING)
            if once:
                await made.send_waiting(template)
                return
            stopping = anyio.Event()
            async with stop_on_signals(stopping, logging.getLogger("pyjms.outbox"), "the outbox"):
                task = spawn(made.run, template, name="pyjms outbox")
                await stopping.wait()
                await end_tasks(task)

        anyio.run(run)
        typer.echo(f"{plural(made.sent, 'message')} sent")
