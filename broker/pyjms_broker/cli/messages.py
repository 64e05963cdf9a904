"""The commands `pyjms broker producer`, `consumer` and `browse`, with ActiveMQ's options.

Source: ActiveMQ ProducerThread, ConsumerThread. (activemq-edges CL5, CL8)
"""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias, cast

import typer

from pyjms.cli import options
from pyjms.cli.terminal import one_line_errors, progress, safe_text
from pyjms.enums import AcknowledgeMode
from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import Message
from pyjms_broker.cli.management.queues import Selectors, as_selector

if TYPE_CHECKING:
    from pyjms.client.connection import ActiveMQConnection
    from pyjms.client.factory import ConnectionFactory

_MODES: Final = {
    "AUTO": "AUTO",
    "CLIENT": "CLIENT",
    "DUPS_OK": "DUPS_OK",
    "INDIVIDUAL": "INDIVIDUAL",
    "AUTO_ACKNOWLEDGE": "AUTO",
    "CLIENT_ACKNOWLEDGE": "CLIENT",
    "DUPS_OK_ACKNOWLEDGE": "DUPS_OK",
    "INDIVIDUAL_ACKNOWLEDGE": "INDIVIDUAL",
    "SESSION_TRANSACTED": "TRANSACTED",
}


BrokerUrl: TypeAlias = Annotated[str | None, options.url_option("--brokerUrl")]
Password: TypeAlias = Annotated[str | None, options.password_option("--password")]
DestinationOption: TypeAlias = Annotated[
    str, typer.Option(help="queue://NAME, topic://NAME, or a queue NAME.")
]
Count: TypeAlias = Annotated[
    int,
    typer.Option("--messageCount", "--message-count", min=1, help="Number of messages per thread."),
]
Sleep: TypeAlias = Annotated[
    int, typer.Option(min=0, metavar="MS", help="Pause between two messages, in milliseconds.")
]
Parallel: TypeAlias = Annotated[
    int,
    typer.Option(
        "--parallelThreads",
        "--parallel-threads",
        min=1,
        help="Number of parallel sessions.",
    ),
]


def producer(
    url: BrokerUrl = None,
    user: options.User = None,
    password: Password = None,
    password_file: options.PasswordFile = None,
    destination: DestinationOption = "queue://TEST",
    persistent: Annotated[
        str, typer.Option("--persistent", metavar="true|false", help="Send persistent messages.")
    ] = "true",
    count: Count = 1000,
    sleep: Sleep = 0,
    batch: Annotated[
        int,
        typer.Option(
            "--transactionBatchSize",
            "--transaction-batch-size",
            min=0,
            help="Messages per transaction; 0: no transactions.",
        ),
    ] = 0,
    parallel: Parallel = 1,
    ttl: Annotated[
        int,
        typer.Option(
            "--msgTTL", "--msg-ttl", min=0, metavar="MS", help="Time to live, in milliseconds."
        ),
    ] = 0,
    size: Annotated[
        int,
        typer.Option(
            "--messageSize", "--message-size", min=0, help="Send bytes messages of this size."
        ),
    ] = 0,
    text_size: Annotated[
        int,
        typer.Option(
            "--textMessageSize",
            "--text-message-size",
            min=0,
            help="Send text messages of this length.",
        ),
    ] = 0,
    message: Annotated[str | None, typer.Option(help="The text of each message.")] = None,
    payload: Annotated[
        Path | None,
        typer.Option(
            "--payloadUrl",
            "--payload-url",
            metavar="FILE",
            help="A UTF-8 file with the text of each message.",
        ),
    ] = None,
    group: Annotated[
        str | None,
        typer.Option("--msgGroupID", "--msg-group-id", help="The message group (JMSXGroupID)."),
    ] = None,
) -> None:
    """Send test messages to a broker, and print the elapsed time."""
    import anyio

    with one_line_errors("broker producer"):
        text = _text(message, payload, text_size)
        is_persistent = _boolean("--persistent", persistent)
        factory = options.factory_for(url, user, password_file, password)
        to = options.read_destination(destination)
        typer.echo(f"Producing messages to {to}")
        typer.echo(f"Using {'' if is_persistent else 'non-'}persistent messages")
        typer.echo(f"Running {parallel} parallel threads")
        with progress("sending", count * parallel) as advance:

            async def one(connection: ActiveMQConnection, _name: str) -> int:
                return await _produce(
                    connection,
                    to,
                    partial(_message, text, size, group),
                    advance,
                    count=count,
                    persistent=is_persistent,
                    pause=sleep / 1000,
                    batch=batch,
                    time_to_live=ttl / 1000 or None,
                )

            anyio.run(_in_parallel, factory, parallel, "producer", "Produced", one)


def consumer(
    url: BrokerUrl = None,
    user: options.User = None,
    password: Password = None,
    password_file: options.PasswordFile = None,
    destination: DestinationOption = "queue://TEST",
    count: Count = 1000,
    sleep: Sleep = 0,
    ack_mode: Annotated[
        str,
        typer.Option("--ackMode", "--ack-mode", help=f"The acknowledge mode: {', '.join(_MODES)}."),
    ] = "AUTO",
    batch: Annotated[
        int,
        typer.Option(
            "--batchSize", "--batch-size", min=1, help="Messages acknowledged or committed at once."
        ),
    ] = 10,
    transacted: Annotated[
        str, typer.Option("--transacted", metavar="true|false", help="Receive in transactions.")
    ] = "false",
    durable: Annotated[
        str,
        typer.Option(
            "--durable",
            metavar="true|false",
            help="Use a durable subscription of a topic; requires --clientId.",
        ),
    ] = "false",
    client_id: Annotated[
        str | None, typer.Option("--clientId", "--client-id", help="The connection's client id.")
    ] = None,
    parallel: Parallel = 1,
    verbose: Annotated[bool, typer.Option(help="Print the id of each message.")] = False,
) -> None:
    """Receive messages from a broker until the count is reached, and print the elapsed time."""
    import anyio

    from pyjms.enums import AcknowledgeMode

    with one_line_errors("broker consumer"):
        if ack_mode not in _MODES:
            raise ConfigurationException(
                f"--ackMode: there is no mode {ack_mode!r}", hint=f"modes are {', '.join(_MODES)}"
            )
        found = options.read_destination(destination)
        is_durable = _boolean("--durable", durable)
        is_transacted = _boolean("--transacted", transacted)
        if is_durable and (client_id is None or not found.is_topic):
            raise ConfigurationException(
                "--durable true needs a topic and --clientId",
                hint="a durable subscription of a topic belongs to a client id",
            )
        factory = options.factory_for(url, user, password_file, password)
        if client_id is not None:
            factory.options.client_id = client_id
        typer.echo(f"Consuming {found}")
        typer.echo(f"Running {parallel} parallel threads")
        mode = AcknowledgeMode["TRANSACTED" if is_transacted else _MODES[ack_mode]]
        with progress("receiving", count * parallel) as advance:

            async def one(connection: ActiveMQConnection, name: str) -> int:
                return await _consume(
                    connection,
                    found,
                    name if is_durable else None,
                    advance,
                    count=count,
                    pause=sleep / 1000,
                    mode=mode,
                    batch=batch,
                    report=name if verbose else None,
                )

            anyio.run(_in_parallel, factory, parallel, "consumer", "Consumed", one)


def _boolean(option: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ConfigurationException(f"{option}: {text!r} is neither true nor false")
    return text == "true"


def _text(message: str | None, payload: Path | None, size: int) -> str | None:
    if payload is not None:
        try:
            return payload.read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise ConfigurationException(f"--payloadUrl: {payload}: {error}") from None
    return message if message is not None or not size else "a" * size


_RECEIVE_TIMEOUT = 3.0
"""Receive timeout in seconds, after which a consumer waits again."""


def _message(text: str | None, size: int, group: str | None, number: int) -> Message:
    """Return message `number`, counted from 0."""
    from pyjms.jms.message import BytesMessage, TextMessage

    message: Message
    if text is None and size:
        message = BytesMessage(bytes(size))
    else:
        message = TextMessage(f"test message: {number}" if text is None else text)
    message.group_id = group
    return message


async def _produce(
    connection: ActiveMQConnection,
    destination: Destination,
    message_of: Callable[[int], Message],
    on_messages: Callable[[int], None],
    *,
    count: int,
    persistent: bool,
    pause: float,
    batch: int,
    time_to_live: float | None,
) -> int:
    """Send the messages of one producer, and return their number."""
    from pyjms.enums import DeliveryMode
    from pyjms.runtime import clock as _clock

    session = await connection.create_session(transacted=batch > 0)
    producer = await session.create_producer(destination)
    mode = DeliveryMode.PERSISTENT if persistent else DeliveryMode.NON_PERSISTENT
    for number in range(count):
        await producer.send(message_of(number), delivery_mode=mode, time_to_live=time_to_live)
        if batch and (number + 1) % batch == 0:
            await session.commit()
        on_messages(1)
        if pause:
            await _clock.sleep(pause)
    if batch:
        await session.commit()
    return count


async def _consume(
    connection: ActiveMQConnection,
    destination: Destination,
    durable: str | None,
    on_messages: Callable[[int], None],
    *,
    count: int,
    pause: float,
    mode: AcknowledgeMode,
    batch: int,
    report: str | None,
) -> int:
    """Receive the messages of one consumer, without a timeout, and return their number.

    `durable` is the name of its durable subscription, `report` its name in a line per message.
    """
    from pyjms.enums import AcknowledgeMode
    from pyjms.runtime import clock as _clock

    session = await connection.create_session(mode is AcknowledgeMode.TRANSACTED, mode)
    if durable is None:
        consumer = await session.create_consumer(destination)
    else:
        assert isinstance(destination, Topic), "checked by the command"
        consumer = await session.create_durable_subscriber(destination, durable)
    await connection.start()
    received = 0
    while received < count:
        message = await consumer.receive(_RECEIVE_TIMEOUT)
        if message is None:
            continue
        received += 1
        if report is not None:
            typer.echo(f"{report} Received {message.message_id}")
        if received % batch == 0 or received == count:
            if mode is AcknowledgeMode.TRANSACTED:
                await session.commit()
            elif mode is AcknowledgeMode.CLIENT:
                await message.acknowledge()
        on_messages(1)
        if pause:
            await _clock.sleep(pause)
    await consumer.close()  # its prefetched messages return to the other consumers
    return received


async def _in_parallel(
    factory: ConnectionFactory,
    parallel: int,
    kind: str,
    done: str,
    one: Callable[[ActiveMQConnection, str], Awaitable[int]],
) -> None:
    """Run all producers or consumers of a command, and print the time that each took."""
    import anyio

    from pyjms.runtime import clock as _clock

    failures: list[Exception] = []

    async def run_one(name: str) -> None:
        started = _clock.now()
        try:
            count = await one(connection, name)
        except Exception as error:  # the first is raised alone, not in an ExceptionGroup
            failures.append(error)
            group.cancel_scope.cancel()
            return
        seconds = max(_clock.now() - started, 1e-6)
        typer.echo(f"{name} {done}: {count} messages")
        typer.echo(
            f"{name} Elapsed time in second : {seconds:.3f} s, {count / seconds:.0f} messages/s"
        )

    connection = await factory.create_connection()
    async with connection, anyio.create_task_group() as group:
        for number in range(1, parallel + 1):
            group.start_soon(run_one, f"{kind}-{number}")
    if failures:
        raise failures[0]


_PREFIXES: Final = {
    "header": "JMS_HEADER_FIELD",
    "custom": "JMS_CUSTOM_FIELD",
    "body": "JMS_BODY_FIELD",
}


class Part(StrEnum):
    """A part of a message."""

    HEADER = "header"
    CUSTOM = "custom"
    BODY = "body"


def browse(
    queue: Annotated[str, typer.Argument(metavar="QUEUE", help="The queue: NAME or queue://NAME.")],
    url: Annotated[str | None, options.url_option("--amqurl")] = None,
    msgsel: Selectors = None,
    parts: Annotated[
        list[Part] | None,
        typer.Option("-V", help="Print only these parts, as in -Vheader -Vbody. Default: all."),
    ] = None,
    view: Annotated[
        list[str] | None,
        typer.Option(
            "--view", metavar="A,B", help="Print only these fields, as in JMSMessageID,colour."
        ),
    ] = None,
    user: options.User = None,
    password: Password = None,
    password_file: options.PasswordFile = None,
) -> None:
    """Print the messages of a queue as `activemq browse` does; `pyjms browse` has more formats.

    Each field is a line, `JMS_HEADER_FIELD:JMSPriority = 4`; an empty line ends each message.
    Stream bodies are printed as lists, object bodies in base64.
    """
    import anyio

    from pyjms.cli.messages import browse_all

    shown = set(parts or Part)
    names = {name for text in view or () for name in text.split(",")}

    def handle(message: Message) -> None:
        for line in _lines(message, shown, names):
            typer.echo(line)
        typer.echo("")

    with one_line_errors("broker browse"):
        factory = options.factory_for(url, user, password_file, password)
        anyio.run(browse_all, factory, _queue(queue), as_selector(msgsel or []), None, handle)


def _queue(text: str) -> Queue:
    found = options.read_destination(text)
    if not isinstance(found, Queue):
        raise ConfigurationException(f"{found} cannot be browsed", hint="topics keep no messages")
    return found


def _lines(message: Message, parts: Collection[str], names: Collection[str]) -> Iterator[str]:
    for part, read in _FIELDS.items():
        if part in parts:
            for name, value in read(message):
                if not names or name in names:
                    yield f"{_PREFIXES[part]}:{safe_text(name)} = {safe_text(_java_text(value))}"


def _headers(message: Message) -> Iterator[tuple[str, object]]:
    from pyjms.cli.messages import headers_of

    for name, value in headers_of(message).items():
        if name == "JMSDeliveryMode":
            yield name, str(value).lower()
        elif name in ("JMSDestination", "JMSReplyTo"):
            yield name, str(value).partition("://")[2]
        else:
            yield name, value


def _properties(message: Message) -> Iterator[tuple[str, object]]:
    for name in message.properties:
        yield name, message.properties.get_object(name)


def _body(message: Message) -> Iterator[tuple[str, object]]:
    from pyjms.cli.messages import as_json
    from pyjms.jms.message import BytesMessage, MapMessage, TextMessage

    shown = as_json(message)
    if "error" in shown:
        yield "error", shown["error"]
    elif isinstance(message, TextMessage):
        yield "JMSText", shown["body"]
    elif isinstance(message, BytesMessage):
        content = base64.b64decode(str(shown["body_base64"]))
        yield "JMSBytes:1", content.decode("utf-8", "replace")
    elif isinstance(message, MapMessage):
        yield from dict(cast("Mapping[str, object]", shown["body"])).items()
    elif shown["type"] in ("stream", "object"):
        yield f"JMS{str(shown['type']).title()}Message", shown.get("body", shown.get("body_base64"))


def _java_text(value: object) -> object:
    return str(value).lower() if isinstance(value, bool) else value


_FIELDS: Final[Mapping[Part, Callable[[Message], Iterator[tuple[str, object]]]]] = {
    Part.HEADER: _headers,
    Part.CUSTOM: _properties,
    Part.BODY: _body,
}
