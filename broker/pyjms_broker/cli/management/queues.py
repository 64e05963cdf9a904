"""`pyjms broker queue`, `purge`, `move` and `retry`: change queues of a running broker.

Selectors are those of ActiveMQ's `--msgsel`: with wildcards, separated by commas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Annotated, Final, TypeAlias

import typer

from pyjms.cli import terminal
from pyjms.cli.options import DryRun, Selector, Yes, read_destination
from pyjms.errors import ConnectionFailedException, JMSException
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE
from pyjms.jms.failure_reason import reason_of
from pyjms_broker.cli.management import client as jolokia
from pyjms_broker.management.object_name import ObjectName

Selectors: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--msgsel",
        "--selector",
        "-s",
        metavar="SELECTOR",
        help="Only messages that match, as in \"colour='r*',JMSPriority>3\".",
    ),
]

_PART: Final = re.compile(r"""'[^']*'|"[^"]*"|[(),]|[^'"(),]+|['"]""")
_WILDCARD: Final = re.compile(r"([^=<>]*)=\s*('.*[*?].*')", re.DOTALL)


def as_selector(texts: Iterable[str]) -> str | None:
    """Return `texts` combined into one selector; None if there are none.

    A comma means AND. `*` and `?` in a quoted value that follows `=` are wildcards.
    Source: ActiveMQ AmqMessagesUtil, PurgeCommand.convertToSQL92.
    """
    conditions = [
        condition.strip() for text in texts for condition in _split(text) if condition.strip()
    ]
    return " AND ".join(f"({_with_like(each)})" for each in conditions) or None


def _split(text: str) -> Iterator[str]:
    """Split at commas that are neither quoted nor in parentheses."""
    depth = 0
    condition = ""
    for part in _PART.findall(text):
        depth += (part == "(") - (part == ")")
        if part == "," and depth == 0:
            yield condition
            condition = ""
        else:
            condition += part
    yield condition


def _with_like(condition: str) -> str:
    found = _WILDCARD.fullmatch(condition)
    if found is None:
        return condition
    return f"{found[1].rstrip()} LIKE {found[2].replace('?', '_').replace('*', '%')}"


Limit: TypeAlias = Annotated[
    int | None, typer.Option("--limit", "-n", min=1, help="At most this number of messages.")
]


@jolokia.management_command("purge")
def purge(
    client: jolokia.JolokiaClient,
    queues: Annotated[
        list[str],
        typer.Argument(metavar="QUEUE...", help="Queue names; * matches any characters."),
    ],
    msgsel: Selectors = None,
    reset: Annotated[
        bool, typer.Option("--reset", help="Also reset the statistics of the queues.")
    ] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove the messages of queues, after a confirmation. Messages in flight to consumers stay."""
    selector = as_selector(msgsel or [])
    found = jolokia.find_destinations(client, queues, "Queue", "QueueSize", "InFlightCount")
    which = "all messages" if selector is None else f"the messages that match {selector}"
    if terminal.has_to_tell(yes=yes, dry_run=dry_run):
        _ask(client, f"Remove {which} of", found, selector, dry_run=dry_run)
    for name, values in found.items():
        _purge(client, name, str(values["Name"]), selector)
        if reset:
            client.execute(name, "resetStatistics")


def _purge(client: jolokia.JolokiaClient, name: str, queue: str, selector: str | None) -> None:
    shown = terminal.safe_text(queue)
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
            f"{terminal.plural(left, 'message')} of {shown} remained: they are in flight to"
            " consumers, or arrived since",
            err=True,
        )


@jolokia.management_command("move")
def move(
    client: jolokia.JolokiaClient,
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue with the messages.")],
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="queue://NAME, topic://NAME, or a queue NAME.")
    ],
    selector: Selector = None,
    limit: Limit = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the messages instead.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Move messages of a queue to another destination, after a confirmation.

    Messages in flight to consumers stay. A message leaves its queue once its copy is stored.
    """
    destination = read_destination(target)
    found = jolokia.find_destinations(client, [queue], "Queue", "QueueSize", "InFlightCount")
    verb, done = ("Copy", "copied") if copy else ("Move", "moved")
    if terminal.has_to_tell(yes=yes, dry_run=dry_run):
        most = "" if limit is None else f"at most {limit} "
        _ask(
            client,
            f"{verb} {most}messages to {destination} from",
            found,
            selector,
            dry_run=dry_run,
        )
    operation = "copyMatchingMessagesTo" if copy else "moveMatchingMessagesTo"
    maximum = [] if limit is None else [limit]
    types = "java.lang.String,java.lang.String" + ("" if limit is None else ",int")
    for name, values in found.items():
        count = client.execute(
            name, f"{operation}({types})", selector or "", str(destination), *maximum
        )
        assert isinstance(count, int), "the operation returns their number"
        moved, source = terminal.plural(count, "message"), terminal.safe_text(values["Name"])
        typer.echo(f"{moved} {done} from {source} to {destination}")


def _ask(
    client: jolokia.JolokiaClient,
    what: str,
    queues: Mapping[str, jolokia.Attributes],
    selector: str | None = None,
    *,
    dry_run: bool,
) -> None:
    """Show queues with their messages that match, and ask."""
    total = 0
    details = []
    for name, values in queues.items():
        size, taken = jolokia.number(values, "QueueSize"), jolokia.number(values, "InFlightCount")
        text = terminal.plural(size, "message")
        if selector is not None:
            page = client.execute(name, "browse(java.lang.String)", selector)
            size = len(page) if isinstance(page, list) else 0
            text = f"{terminal.browsed_number(size)} that match, of {text}"
        total += size
        at_consumers = f", {taken} of them in flight to consumers" if taken else ""
        details.append(f"{terminal.safe_text(values['Name'])}: {text}{at_consumers}")
    count = terminal.plural(len(queues), "queue")
    numbers = (
        terminal.plural(total, "message") if selector is None else terminal.browsed_number(total)
    )
    terminal.ask(f"{what} {count} with {numbers}", details, dry_run=dry_run)


queue = typer.Typer(
    name="queue", help="Create, delete, pause and resume queues.", no_args_is_help=True
)
_Queues: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="QUEUE...", help="Queue names; * matches any characters.")
]


@queue.command("create")
@jolokia.management_command("queue create")
def create_queues(
    client: jolokia.JolokiaClient,
    names: Annotated[list[str], typer.Argument(metavar="QUEUE...", help="Names of new queues.")],
) -> None:
    """Create queues; those that exist stay as they are."""
    for broker in jolokia.brokers(client, "BrokerName"):
        for name in names:
            client.execute(broker, "addQueue", name)
            typer.echo(f"Queue {terminal.safe_text(name)} exists")


@queue.command("delete")
@jolokia.management_command("queue delete")
def delete_queues(
    client: jolokia.JolokiaClient, queues: _Queues, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Delete queues with their messages, after a confirmation.

    The broker refuses to delete a queue that has consumers.
    """
    found = jolokia.find_destinations(client, queues, "Queue", "QueueSize", "InFlightCount")
    if terminal.has_to_tell(yes=yes, dry_run=dry_run):
        _ask(client, "Delete", found, dry_run=dry_run)
    for name, values in found.items():
        broker = jolokia.pattern(brokerName=ObjectName(name).keys["brokerName"])
        client.execute(broker, "removeQueue", values["Name"])
        typer.echo(f"Queue {terminal.safe_text(values['Name'])} deleted")


def _set_delivery(verb: str, state: str, explanation: str) -> None:
    """Add a command that calls the operation `verb` of queues."""

    @queue.command(verb, help=explanation)
    @jolokia.management_command(f"queue {verb}")
    def run(client: jolokia.JolokiaClient, queues: _Queues) -> None:
        for name, values in jolokia.find_destinations(client, queues, "Queue").items():
            client.execute(name, verb)
            typer.echo(f"Queue {terminal.safe_text(values['Name'])} {state}")


_set_delivery(
    "pause",
    "is paused",
    "Stop the delivery of queues to consumers; they accept messages meanwhile.",
)
_set_delivery("resume", "delivers messages", "Continue the delivery of paused queues.")


@jolokia.management_command("retry")
def retry(
    client: jolokia.JolokiaClient,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUEUE...", help="Dead-letter queues. Default: all of the broker."),
    ] = None,
    selector: Selector = None,
    limit: Limit = None,
    reason: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT", help="Only messages with this reason, as `dead-letters` prints it."
        ),
    ] = None,
    rate: Annotated[
        float,
        typer.Option(
            min=0, metavar="N", help="At most this number of messages a second; 0: no maximum."
        ),
    ] = 0.0,
    dry_run: DryRun = False,
    json: jolokia.Json = False,
    yes: Yes = False,
) -> None:
    """Send dead letters back to their original destinations, after a confirmation.

    Messages without an original destination, and those in flight to a consumer, stay; the exit
    code is then 1. --dry-run lists the messages, each with the reason why it is a dead
    letter.
    """
    found = _dead_letter_queues(client, queues)
    if not found:
        typer.echo("there are no dead letters", err=True)
        return
    if dry_run:
        _print_dead_letters(client, found, selector, reason, limit, as_json=json)
        return
    if terminal.has_to_tell(yes=yes, dry_run=False):
        _ask(client, "Retry the dead letters of", found, selector, dry_run=False)
    outcome = _Outcome()
    with terminal.progress("retrying", limit) as advance:
        for name in found:
            messages = _dead_letters(client, name, selector, reason)
            _retry_all(client, name, messages, limit, rate, outcome, advance)
    for problem in outcome.problems:
        typer.echo(f"stays: {terminal.safe_text(problem)}", err=True)
    typer.echo(
        f"{terminal.plural(outcome.sent, 'message')} sent back to their original destinations"
    )
    if outcome.problems:
        raise typer.Exit(terminal.ExitCode.FAILED)


@dataclass(slots=True)
class _Outcome:
    """The result of a retry."""

    sent: int = 0
    problems: list[str] = field(default_factory=list)


def _dead_letter_queues(
    client: jolokia.JolokiaClient, queues: list[str] | None
) -> dict[str, jolokia.Attributes]:
    attributes = ("QueueSize", "InFlightCount", "DLQ")
    if queues:
        return jolokia.find_destinations(client, queues, "Queue", *attributes)
    every = client.read_all(
        jolokia.pattern(destinationType="Queue", destinationName="*"), "Name", *attributes
    )
    return {name: values for name, values in every.items() if _has_dead_letters(values)}


def _has_dead_letters(values: jolokia.Attributes) -> bool:
    """Whether it has received dead letters since the start, or has a dead-letter queue's name."""
    return bool(values.get("DLQ")) or str(values["Name"]).startswith(DEFAULT_DEAD_LETTER_QUEUE)


def _dead_letters(
    client: jolokia.JolokiaClient, name: str, selector: str | None, reason: str | None
) -> Iterator[Mapping[str, object]]:
    """Iterate over the messages of a queue with a reason, which the broker returns page by page.

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
        yield from (each for each in new if reason is None or _reason(each) == reason)


def _retry_all(
    client: jolokia.JolokiaClient,
    name: str,
    messages: Iterator[Mapping[str, object]],
    limit: int | None,
    rate: float,
    outcome: _Outcome,
    on_messages: Callable[[int], None],
) -> None:
    for message in messages:
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
            if rate:
                _pause(1 / rate)
        else:
            outcome.problems.append(f"{message_id}: it is in flight to a consumer")


def _pause(seconds: float) -> None:
    import anyio

    from pyjms.runtime import clock as _clock

    anyio.run(_clock.sleep, seconds)


def _print_dead_letters(
    client: jolokia.JolokiaClient,
    queues: Mapping[str, jolokia.Attributes],
    selector: str | None,
    reason: str | None,
    limit: int | None,
    *,
    as_json: bool,
) -> None:
    messages = chain.from_iterable(_dead_letters(client, name, selector, reason) for name in queues)
    rows = [
        (
            message["JMSMessageID"],
            message.get("OriginalDestination") or "-",
            _reason(message),
            _cause(message),
        )
        for message in islice(messages, limit)
    ]
    keys = ("JMSMessageID", "OriginalDestination", "reason", "cause")
    if as_json:
        for row in rows:
            terminal.json_line(dict(zip(keys, row, strict=True)))
        return
    terminal.table(("message", "original destination", "reason"), [row[:3] for row in rows])
    typer.echo(f"{terminal.plural(len(rows), 'message')} would be sent back", err=True)


def _reason(message: Mapping[str, object]) -> str:
    texts, original = message.get("StringProperties"), message.get("OriginalDestination")
    properties = texts if isinstance(texts, Mapping) else {}
    return reason_of(properties, str(original) if original else None)


@jolokia.management_command("dead-letters")
def dead_letters(
    client: jolokia.JolokiaClient,
    queues: Annotated[
        list[str] | None,
        typer.Argument(metavar="QUEUE...", help="Dead-letter queues. Default: all of the broker."),
    ] = None,
    json: jolokia.Json = False,
) -> None:
    """Print the reasons of dead letters, with the number of messages and an example of each.

    `retry --reason` sends those of one reason back, `pyjms replay` runs a handler with the example.
    """
    rows = []
    for name, values in _dead_letter_queues(client, queues).items():
        groups = client.execute(name, "deadLetterGroups")
        for each in groups if isinstance(groups, list) else []:
            if json:
                terminal.json_line({"queue": values["Name"], **each})
            rows.append((each["size"], each["reason"], values["Name"], each["example"]))
    if json:
        return
    terminal.table(("messages", "reason", "queue", "example"), rows)
    if not rows:
        typer.echo("there are no dead letters", err=True)


def _cause(message: Mapping[str, object]) -> str:
    from pyjms.jms.failure_reason import FAILURE_CAUSE

    texts = message.get("StringProperties")
    return str(texts.get(FAILURE_CAUSE, "-")) if isinstance(texts, Mapping) else "-"
