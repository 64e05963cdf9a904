"""The commands `pyjms send`, `receive` and `browse`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from pyjms.cli.options import (
    Body,
    BodyFile,
    Delay,
    DestinationArgument,
    DryRun,
    Headers,
    Json,
    MessageTimeout,
    PasswordFile,
    Properties,
    Selector,
    TimeToLive,
    UrlOption,
    User,
    Yes,
    factory_for,
    flag,
    limit_option,
    read_destination,
)
from pyjms.cli.terminal import (
    ExitCode,
    ask,
    browsed_number,
    has_to_tell,
    one_line_errors,
    plural,
    progress,
)
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import DEFAULT_DEAD_LETTER_QUEUE, Destination, Queue
from pyjms.runtime.distribution import optional

if TYPE_CHECKING:
    from pyjms.cli.messages import Acknowledgement
    from pyjms.jms.message import Message
    from pyjms.template.redrive import Redriven


def send(
    destination: DestinationArgument,
    body: Body = None,
    url: UrlOption = None,
    user: User = None,
    password_file: PasswordFile = None,
    file: BodyFile = None,
    lines: Annotated[bool, flag("--lines", "Send each line of the input as a message.")] = False,
    as_bytes: Annotated[
        bool, flag("--bytes", "Send bytes messages instead of text messages.")
    ] = False,
    properties: Properties = None,
    persistent: Annotated[
        bool, typer.Option("--persistent/--non-persistent", help="The delivery mode.")
    ] = True,
    priority: Annotated[
        int | None, typer.Option(min=0, max=9, help="The priority, from 0 to 9. Default: 4.")
    ] = None,
    ttl: TimeToLive = None,
    delay: Delay = None,
    correlation_id: Annotated[
        str | None, typer.Option(help="The correlation id (JMSCorrelationID).")
    ] = None,
    reply_to: Annotated[
        str | None, typer.Option(help="The destination for replies (JMSReplyTo).")
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="The message type (JMSType).")] = None,
    group: Annotated[str | None, typer.Option(help="The message group (JMSXGroupID).")] = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="Number of times to send each body.")
    ] = 1,
) -> None:
    """Send messages to any broker that speaks OpenWire.

    Prints the number of messages, or the id of a single message.
    """
    import anyio

    from pyjms.cli.messages import Outgoing, bodies_of, read_property, send_all

    with one_line_errors("send"):
        if body is not None and (file is not None or lines):
            raise ConfigurationException(
                f"BODY contradicts {'--file' if file is not None else '--lines'}",
                hint="leave one of them out",
            )
        outgoing = Outgoing(
            read_destination(destination),
            persistent=persistent,
            priority=priority,
            time_to_live=ttl,
            delay=delay,
            correlation_id=correlation_id,
            reply_to=None if reply_to is None else read_destination(reply_to),
            type=type_,
            group=group,
            properties=dict(map(read_property, properties or [])),
        )
        factory = factory_for(url, user, password_file)
        bodies = bodies_of(body, file, lines=lines, as_bytes=as_bytes, count=count)
        total = None if lines else count
        with progress("sending", total) as advance:
            sent = 0

            def on_messages(more: int) -> None:
                nonlocal sent
                sent += more
                advance(more)

            try:
                ids = anyio.run(send_all, factory, outgoing, bodies, on_messages)
            finally:
                if sys.exc_info()[0] is not None and sent:
                    typer.echo(f"{plural(sent, 'message')} sent before the failure", err=True)
        what = f"message {ids[0]}" if sent == 1 else plural(sent, "message")
        typer.echo(f"{what} sent to {outgoing.destination}")


def receive(
    destination: DestinationArgument,
    url: UrlOption = None,
    user: User = None,
    password_file: PasswordFile = None,
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, help="Number of messages to receive.")
    ] = 1,
    all_: Annotated[
        bool, flag("--all", "Receive until no message arrives within --timeout.")
    ] = False,
    follow: Annotated[bool, flag("--follow", "Receive until Ctrl-C, without a timeout.")] = False,
    timeout: MessageTimeout = 10.0,
    selector: Selector = None,
    ack: Annotated[
        str,
        typer.Option(
            help="When to acknowledge. client: each message after it is printed; auto, dups-ok: "
            "before; transacted: all messages at the end; none: never, the messages stay on the "
            "broker."
        ),
    ] = "client",
    durable: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Use this durable subscription; requires --client-id."),
    ] = None,
    client_id: Annotated[str | None, typer.Option(help="The connection's client id.")] = None,
    json: Json = False,
    headers: Headers = False,
) -> None:
    """Receive messages from any broker that speaks OpenWire, and print their bodies.

    The exit code is 3 if fewer than --count messages arrive.
    """
    import anyio

    from pyjms.cli.messages import Incoming, MessagePrinter, receive_until_interrupted

    with one_line_errors("receive"):
        if all_ and follow:
            raise _contradiction("--all", "--follow")
        incoming = Incoming(
            _read_subscription(destination, durable, client_id),
            selector,
            count=None if all_ or follow else count,
            timeout=None if follow else timeout,
            acknowledgement=_acknowledgement(ack),
            subscription=durable,
        )
        factory = factory_for(url, user, password_file)
        if client_id is not None:
            factory.options.client_id = client_id
        if incoming.count is not None:  # leave to other consumers what is not printed here
            for kind in ("queue_prefetch", "topic_prefetch", "durable_topic_prefetch"):
                default = getattr(factory.prefetch_policy, kind)
                setattr(factory.prefetch_policy, kind, min(default, incoming.count))
        received = 0
        printer = MessagePrinter(as_json_lines=json, headers=headers)

        def handle(message: Message) -> None:
            nonlocal received
            printer.print(message)
            received += 1

        try:
            interrupted = anyio.run(receive_until_interrupted, factory, incoming, handle)
        except KeyboardInterrupt:
            interrupted = True
        if interrupted:
            typer.echo(f"{plural(received, 'message')} received", err=True)
            if follow:
                return
            raise KeyboardInterrupt
        if incoming.count is not None and received < incoming.count:
            typer.echo(
                f"{plural(received, 'message')} of {count} received within the timeout", err=True
            )
            raise typer.Exit(ExitCode.FEWER)


def browse(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue: NAME or queue://NAME.")],
    url: UrlOption = None,
    user: User = None,
    password_file: PasswordFile = None,
    selector: Selector = None,
    limit: Annotated[int | None, limit_option("Print")] = None,
    json: Json = False,
    headers: Headers = False,
) -> None:
    """Print the messages of a queue without removing them, on any broker that speaks OpenWire.

    The broker may return only the first messages of a long queue (maxBrowsePageSize, 400).
    """
    import anyio

    from pyjms.cli.messages import MessagePrinter, browse_all

    with one_line_errors("browse"):
        found = read_destination(queue)
        if not isinstance(found, Queue):
            raise ConfigurationException(
                f"{found} cannot be browsed", hint="topics keep no messages: use receive --follow"
            )
        factory = factory_for(url, user, password_file)
        printer = MessagePrinter(as_json_lines=json, headers=headers)
        if not anyio.run(browse_all, factory, found, selector, limit, printer.print):
            typer.echo("there are no messages", err=True)


def _read_subscription(text: str, durable: str | None, client_id: str | None) -> Destination:
    found = read_destination(text)
    if durable is not None and not found.is_topic:
        raise ConfigurationException(
            f"--durable: {found} is not a topic", hint=f"name it topic://{found.physical_name}"
        )
    if durable is not None and client_id is None:
        raise ConfigurationException(
            "--durable without --client-id", hint="a subscription belongs to a client id"
        )
    return found


def _acknowledgement(text: str) -> Acknowledgement:
    from pyjms.cli.messages import Acknowledgement

    try:
        return Acknowledgement(text)
    except ValueError:
        raise ConfigurationException(
            f"--ack: there is no mode {text!r}", hint=f"modes are {', '.join(Acknowledgement)}"
        ) from None


def _contradiction(one: str, other: str) -> Exception:
    return ConfigurationException(f"{one} contradicts {other}", hint="leave one of them out")


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
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Send dead letters back to where they came from, after a confirmation, on any broker.

    The question, and --dry-run, count what the broker lets clients browse. Each message is moved in
    a transaction of its own. Prints the number of messages sent to each destination. The exit code
    is 1 if messages were left because their original destination is not known.
    """
    import anyio

    from pyjms.template.redrive import plan_redrive
    from pyjms.template.redrive import redrive as redrive_all
    from pyjms.template.template import JmsTemplate

    with one_line_errors("redrive"):
        target = None if to is None else read_destination(to)
        template = JmsTemplate(factory_for(url, user, password_file))

        def run(function: Callable[..., Awaitable[Redriven]], **options: float) -> Redriven:
            call = partial(function, destination=target, selector=selector, limit=limit, **options)
            return anyio.run(call, template, queue)

        if has_to_tell(yes=yes, dry_run=dry_run):
            planned = run(plan_redrive)
            details = [f"{count} to {name}" for name, count in planned.by_destination.items()]
            if planned.left:
                details.append(f"{len(planned.left)} stay: their original destination is not known")
            number = browsed_number(planned.count)
            ask(f"Send {number} of {queue} back", details, dry_run=dry_run)
        done = run(redrive_all, timeout=timeout)
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
    import anyio

    from pyjms.runtime.event_loop import end_tasks, spawn
    from pyjms.template.template import JmsTemplate

    with one_line_errors("outbox"):
        made = optional("pyjms.outbox.relay", "pyjms outbox", "sql").OutboxRelay(
            database, outbox=outbox
        )
        template = JmsTemplate(factory_for(url, user, password_file))

        async def run() -> None:
            from pyjms.runtime.signals import stop_on_signals

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
