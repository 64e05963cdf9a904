"""`pyjms broker purge` and `move`: remove or move messages of queues of a running broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from pyjms.cli.messages.options import Selector
from pyjms_broker.cli.management.client import Attributes, ManagementClient
from pyjms_broker.cli.management.options import Yes, management_command
from pyjms_broker.cli.management.selectors import Selectors, as_selector

if TYPE_CHECKING:
    from collections.abc import Mapping


__all__ = ["DryRun", "Limit", "confirm", "move", "purge"]

Limit: TypeAlias = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="At most this number of messages.")
]
DryRun: TypeAlias = Annotated[
    bool, typer.Option("--dry-run", help="Only print what would be done.")
]


@management_command("purge")
def purge(
    client: ManagementClient,
    queues: Annotated[
        list[str],
        typer.Argument(metavar="QUEUE...", help="Queue names; * matches any characters."),
    ],
    msgsel: Selectors = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Also reset the statistics of the queues.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Remove the messages of queues, after a confirmation. Messages in flight to consumers stay."""
    from pyjms_broker.cli.management.names import find_destinations

    selector = as_selector(msgsel or [])
    found = find_destinations(client, queues, "Queue", "QueueSize", "InFlightCount")
    which = "all messages" if selector is None else f"the messages that match {selector}"
    confirm(f"Remove {which} of", found, yes=yes)
    for name, values in found.items():
        _purge(client, name, str(values["Name"]), selector)
        if reset:
            client.execute(name, "resetStatistics")


def _purge(client: ManagementClient, name: str, queue: str, selector: str | None) -> None:
    from pyjms_broker.cli.terminal import plural, safe_text

    shown = safe_text(queue)
    if selector is not None:
        typer.echo(f"INFO: Purging messages in queue: {shown} with message selector {selector}")
        removed = client.execute(name, "removeMatchingMessages(java.lang.String)", selector)
        typer.echo(f"Removed: {removed} messages for message selector {selector}")
        return
    typer.echo(f"INFO: Purging all messages in queue: {shown}")
    client.execute(name, "purge")
    left = client.read(name, "QueueSize").get("QueueSize")
    if isinstance(left, int) and left > 0:
        typer.echo(
            f"{plural(left, 'message')} of {shown} remained: they are in flight to consumers, or "
            "arrived since",
            err=True,
        )


@management_command("move")
def move(
    client: ManagementClient,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue with the messages.")],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="queue://NAME, topic://NAME, or a queue NAME.")
    ],
    selector: Selector = None,
    limit: Limit = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the messages instead.")] = False,
    yes: Yes = False,
) -> None:
    """Move messages of a queue to another destination, after a confirmation.

    Messages in flight to consumers stay. A message leaves its queue once its copy is stored.
    """
    from pyjms.cli.destinations import read_destination
    from pyjms_broker.cli.management.names import find_destinations
    from pyjms_broker.cli.terminal import plural, safe_text

    destination = read_destination(target)
    found = find_destinations(client, [queue], "Queue", "QueueSize", "InFlightCount")
    verb, done = ("Copy", "copied") if copy else ("Move", "moved")
    confirm(f"{verb} messages to {destination} from", found, yes=yes)
    operation = "copyMatchingMessagesTo" if copy else "moveMatchingMessagesTo"
    maximum = [] if limit is None else [limit]
    types = "java.lang.String,java.lang.String" + ("" if limit is None else ",int")
    for name, values in found.items():
        count = client.execute(
            name, f"{operation}({types})", selector or "", str(destination), *maximum
        )
        assert isinstance(count, int), "the operation returns their number"
        typer.echo(
            f"{plural(count, 'message')} {done} from {safe_text(values['Name'])} to {destination}"
        )


def confirm(what: str, queues: Mapping[str, Attributes], *, yes: bool) -> None:
    """Show queues with their sizes and ask for confirmation; exit if the answer is no.

    Raises:
        ConfigurationException: the standard input is not a terminal.
    """
    import sys

    from pyjms.errors import ConfigurationException
    from pyjms_broker.cli.terminal import ExitCode, plural, safe_text

    if yes:
        return
    if not sys.stdin.isatty():
        raise ConfigurationException(
            "This needs a confirmation, but standard input is not a terminal", hint="add --yes"
        )
    total = 0
    for values in queues.values():
        size, taken = (_number(values.get(each)) for each in ("QueueSize", "InFlightCount"))
        total += size
        at_consumers = f", {taken} of them in flight to consumers" if taken else ""
        typer.echo(
            f"  {safe_text(values['Name'])}: {plural(size, 'message')}{at_consumers}", err=True
        )
    count = plural(len(queues), "queue")
    if not typer.confirm(f"{what} {count} with {plural(total, 'message')}?", err=True):
        typer.echo("nothing was changed", err=True)
        raise typer.Exit(ExitCode.FAILED)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
