"""`pyjms broker retry`: send dead letters back to their original destinations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

import typer

from pyjms.cli.messages.options import Selector
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE
from pyjms_broker.cli.management.changes import DryRun, Limit, confirm
from pyjms_broker.cli.management.client import Attributes, ManagementClient
from pyjms_broker.cli.management.options import Json, Yes, management_command

__all__ = ["retry"]


@management_command("retry")
def retry(
    client: ManagementClient,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUEUE...", help="Dead-letter queues. Default: all of the broker."),
    ] = None,
    selector: Selector = None,
    limit: Limit = None,
    dry_run: DryRun = False,
    json: Json = False,
    yes: Yes = False,
) -> None:
    """Send dead letters back to their original destinations, after a confirmation.

    Messages without an original destination, and those in flight to a consumer, stay; the exit
    code is then 1. --dry-run lists the messages, each with the reason why it is a dead
    letter.
    """
    from pyjms_broker.cli.terminal import ExitCode, plural, progress, safe_text

    found = _dead_letter_queues(client, queues)
    if dry_run:
        _print_dead_letters(client, found, selector, limit, as_json=json)
        return
    confirm("Retry the dead letters of", found, yes=yes)
    outcome = _Outcome()
    with progress("retrying", limit) as advance:
        for name in found:
            _retry_all(client, name, selector, limit, outcome, advance)
    for problem in outcome.problems:
        typer.echo(f"stays: {safe_text(problem)}", err=True)
    typer.echo(f"{plural(outcome.sent, 'message')} sent back to their original destinations")
    if outcome.problems:
        raise typer.Exit(ExitCode.FAILED)


@dataclass(slots=True)
class _Outcome:
    """The result of a retry."""

    sent: int = 0
    problems: list[str] = field(default_factory=list)


def _dead_letter_queues(
    client: ManagementClient, queues: list[str] | None
) -> dict[str, Attributes]:
    from pyjms.errors import JMSException
    from pyjms_broker.cli.management.names import find_destinations, pattern

    attributes = ("QueueSize", "InFlightCount", "DLQ")
    if queues:
        return find_destinations(client, queues, "Queue", *attributes)
    every = client.read_all(
        pattern(destinationType="Queue", destinationName="*"), "Name", *attributes
    )
    found = {name: values for name, values in every.items() if _has_dead_letters(values)}
    if not found:
        raise JMSException(
            f"{client.url} has no dead-letter queue", hint="name the queue as an argument"
        )
    return found


def _has_dead_letters(values: Attributes) -> bool:
    """Whether it has received dead letters since the start, or has a dead-letter queue's name."""
    return bool(values.get("DLQ")) or str(values["Name"]).startswith(DEFAULT_DEAD_LETTER_QUEUE)


def _dead_letters(
    client: ManagementClient, name: str, selector: str | None
) -> Iterator[Mapping[str, object]]:
    """Iterate over the messages of a queue, which the broker returns page by page.

    The next page has new messages only if those of the previous one have been removed.
    """
    seen: set[str] = set()
    while True:
        page = client.execute(name, "browse(java.lang.String)", selector or "")
        new = [
            each
            for each in (page if isinstance(page, list) else [])
            if isinstance(each, Mapping) and str(each["JMSMessageID"]) not in seen
        ]
        if not new:
            return
        seen.update(str(each["JMSMessageID"]) for each in new)
        yield from new


def _retry_all(
    client: ManagementClient,
    name: str,
    selector: str | None,
    limit: int | None,
    outcome: _Outcome,
    on_messages: Callable[[int], None],
) -> None:
    from pyjms.errors import ConnectionFailedException, JMSException

    for message in _dead_letters(client, name, selector):
        if limit is not None and outcome.sent >= limit:
            return
        message_id = str(message["JMSMessageID"])
        if not message.get("OriginalDestination"):
            outcome.problems.append(f"{message_id}: it has no original destination (use move)")
            continue
        try:
            moved = client.execute(name, "retryMessage", message_id)
        except ConnectionFailedException:
            raise
        except JMSException as error:
            outcome.problems.append(f"{message_id}: {error}")
            continue
        if moved:
            outcome.sent += 1
            on_messages(1)
        else:
            outcome.problems.append(f"{message_id}: it is in flight to a consumer")


def _print_dead_letters(
    client: ManagementClient,
    queues: Mapping[str, Attributes],
    selector: str | None,
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    from itertools import chain, islice

    from pyjms_broker.cli.terminal import json_line, plural, table

    messages = chain.from_iterable(_dead_letters(client, name, selector) for name in queues)
    rows = [
        (message["JMSMessageID"], message.get("OriginalDestination") or "-", _cause(message))
        for message in islice(messages, limit)
    ]
    heads = ("message", "original destination", "cause")
    if as_json:
        for row in rows:
            json_line(dict(zip(("JMSMessageID", "OriginalDestination", "cause"), row, strict=True)))
        return
    table(heads, rows)
    typer.echo(f"{plural(len(rows), 'message')} would be sent back", err=True)


def _cause(message: Mapping[str, object]) -> str:
    from pyjms.jms.properties import FAILURE_CAUSE

    texts = message.get("StringProperties")
    return str(texts.get(FAILURE_CAUSE, "-")) if isinstance(texts, Mapping) else "-"
