"""The command `pyjms redrive`."""

from __future__ import annotations

from typing import Annotated

import typer

from pyjms.cli.credentials import PasswordFile, UrlOption, User, factory_for
from pyjms.cli.messages.options import MessageTimeout, Selector, limit_option
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE

__all__ = ["redrive"]


def redrive(
    queue: Annotated[
        str, typer.Argument(metavar="[QUEUE]", help="The dead-letter queue.")
    ] = DEFAULT_DEAD_LETTER_QUEUE,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="DESTINATION",
            help="Send all messages to this destination instead of their original ones.",
        ),
    ] = None,
    url: UrlOption = None,
    user: User = None,
    password_file: PasswordFile = None,
    selector: Selector = None,
    limit: Annotated[int | None, limit_option("Send")] = None,
    timeout: MessageTimeout = 1.0,
) -> None:
    """Send dead letters back to their original destinations, on any broker that speaks OpenWire.

    Each message is moved in a transaction of its own. Prints the number of messages sent to each
    destination. The exit code is 1 if messages were left because their original destination is not
    known.
    """
    import anyio

    from pyjms.cli.destinations import read_destination
    from pyjms.cli.terminal import one_line_errors, plural
    from pyjms.core.redrive import redrive as redrive_all
    from pyjms.core.template import JmsTemplate

    with one_line_errors("redrive"):
        target = None if to is None else read_destination(to)
        factory = factory_for(url, user, password_file)
        done = anyio.run(
            lambda: redrive_all(
                JmsTemplate(factory),
                queue,
                destination=target,
                selector=selector,
                limit=limit,
                timeout=timeout,
            )
        )
        for name, count in sorted(done.by_destination.items()):
            typer.echo(f"{plural(count, 'message')} sent to {name}")
        if not done.count:
            typer.echo("no message sent")
        if done.left:
            typer.echo(
                f"{plural(len(done.left), 'message')} left in {queue}: their original destination "
                "is not known (name one with --to)",
                err=True,
            )
            raise typer.Exit(1)
