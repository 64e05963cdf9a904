"""Sending messages for `pyjms send`: bodies and properties from the command line."""

from __future__ import annotations

import base64
import json
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import IO, Final

import anyio
import typer

from pyjms.cli.terminal import json_line, safe_text
from pyjms.client.factory import ConnectionFactory
from pyjms.client.session import ActiveMQSession
from pyjms.enums import AcknowledgeMode, DeliveryMode
from pyjms.errors import ConfigurationException, JMSException, MessageEOFException
from pyjms.jms.api import MessageConsumer
from pyjms.jms.conversions import NULLS, PROPERTY_READS, convert
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.failure_reason import FAILURE_CAUSE, ORIGINAL_DESTINATION, reason_of
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.runtime.event_loop import spawn
from pyjms.runtime.signals import while_watching

_STANDARD_INPUT: Final = Path("-")


@dataclass(slots=True)
class Outgoing:
    """The options of a send, and the headers and properties of its messages."""

    destination: Destination
    persistent: bool = True
    priority: int | None = None
    time_to_live: float | None = None
    """Seconds."""
    delay: float | None = None
    """Seconds."""
    correlation_id: str | None = None
    reply_to: Destination | None = None
    type: str | None = None
    group: str | None = None
    properties: dict[str, object] = field(default_factory=dict)

    def message(self, body: str | bytes) -> Message:
        """Return a message with this body."""
        message: Message = TextMessage(body) if isinstance(body, str) else BytesMessage(body)
        message.correlation_id = self.correlation_id
        message.reply_to = self.reply_to
        message.type = self.type
        message.group_id = self.group
        for name, value in self.properties.items():
            message.properties[name] = value
        return message


def read_property(text: str) -> tuple[str, object]:
    """Return the name and value of `name=value` (a string) or `name:type=value`."""
    name, equals, value = text.partition("=")
    name, colon, kind = name.partition(":")
    types = [each for each in PROPERTY_READS if each not in ("String", "char")]
    if not equals or not name:
        raise ConfigurationException(f"-p {text}: a property is written name=value")
    if not colon or kind == "string":
        return name, value
    if kind not in types:
        raise ConfigurationException(
            f"-p {text}: there is no type {kind!r}", hint=f"types are string, {', '.join(types)}"
        )
    try:
        if kind == "boolean" and value not in ("true", "false"):
            raise ValueError
        return name, convert(value, kind, PROPERTY_READS, NULLS)
    except (ValueError, JMSException):
        raise ConfigurationException(f"-p {text}: {value!r} is not of type {kind}") from None


def bodies_of(
    body: str | None, file: Path | None, *, lines: bool, as_bytes: bool, count: int
) -> Iterator[str | bytes]:
    """Iterate over the bodies to send; without `body` and `file`, those of the standard input."""
    if body is not None:
        found: Iterable[bytes] = (body.encode("utf-8", "surrogateescape"),)
    else:
        found = _contents(file or _STANDARD_INPUT, lines=lines)
    for content in found:
        value = content if as_bytes else _decode(content, file)
        for _ in range(count):
            yield value


def _contents(file: Path, *, lines: bool) -> Iterator[bytes]:
    if file == _STANDARD_INPUT:
        if sys.stdin.isatty():
            typer.echo("Write the body; Ctrl-D at the beginning of a line ends it.", err=True)
        yield from _parts(sys.stdin.buffer, lines=lines)
        return
    try:
        with file.open("rb") as opened:
            yield from _parts(opened, lines=lines)
    except OSError as error:
        raise ConfigurationException(f"--file: {file} cannot be read: {error}") from error


def _parts(opened: IO[bytes], *, lines: bool) -> Iterator[bytes]:
    if lines:
        for line in opened:
            yield line.rstrip(b"\r\n")
    else:
        yield opened.read()


def _decode(content: bytes, file: Path | None) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationException(
            f"{file or 'The body'} is not UTF-8: {error}", hint="send it with --bytes"
        ) from None


async def send_all(
    factory: ConnectionFactory,
    outgoing: Outgoing,
    bodies: Iterable[str | bytes],
    on_messages: Callable[[int], None],
) -> list[str]:
    """Send a message for each body; return the ids of at most the last 100. Cancellable."""
    ids: list[str] = []
    async with await factory.create_connection() as connection:
        session = await connection.create_session()
        producer = await session.create_producer(outgoing.destination)
        mode = DeliveryMode.PERSISTENT if outgoing.persistent else DeliveryMode.NON_PERSISTENT
        for body in bodies:
            message = outgoing.message(body)
            await producer.send(
                message,
                delivery_mode=mode,
                priority=outgoing.priority,
                time_to_live=outgoing.time_to_live,
                delivery_delay=outgoing.delay,
            )
            ids.append(str(message.message_id))
            del ids[:-100]
            on_messages(1)
    return ids


class Acknowledgement(StrEnum):
    """The acknowledgement modes of `pyjms receive`."""

    CLIENT = "client"
    AUTO = "auto"
    DUPS_OK = "dups-ok"
    TRANSACTED = "transacted"
    NONE = "none"


_MODES: Final = {
    Acknowledgement.CLIENT: AcknowledgeMode.INDIVIDUAL,
    Acknowledgement.AUTO: AcknowledgeMode.AUTO,
    Acknowledgement.DUPS_OK: AcknowledgeMode.DUPS_OK,
    Acknowledgement.TRANSACTED: AcknowledgeMode.TRANSACTED,
    Acknowledgement.NONE: AcknowledgeMode.CLIENT,
}


@dataclass(slots=True)
class Incoming:
    """The source and options of a receive."""

    destination: Destination
    selector: str | None = None
    count: int | None = 1
    """The maximum number of messages; None: receive until no message arrives."""
    timeout: float | None = None
    """Seconds to wait for each message; None: no limit."""
    acknowledgement: Acknowledgement = Acknowledgement.CLIENT
    subscription: str | None = None
    """The name of a durable subscription; then the destination is a topic."""


async def receive_all(
    factory: ConnectionFactory, incoming: Incoming, handle: Callable[[Message], None]
) -> int:
    """Receive messages, and acknowledge each after `handle` has returned; return their number.

    A transaction is committed after the last message, and rolled back if `handle` fails or the
    call is cancelled.
    """
    received = 0
    acknowledgement = incoming.acknowledgement
    async with await factory.create_connection() as connection:
        transacted = acknowledgement is Acknowledgement.TRANSACTED
        session = await connection.create_session(
            transacted=transacted, acknowledge_mode=_MODES[acknowledgement]
        )
        consumer = await _consumer(session, incoming)
        await connection.start()
        while incoming.count is None or received < incoming.count:
            message = await consumer.receive(incoming.timeout)
            if message is None:
                break
            handle(message)
            received += 1
            if acknowledgement is Acknowledgement.CLIENT:
                await message.acknowledge()
        if transacted:
            await session.commit()
    return received


async def receive_until_interrupted(
    factory: ConnectionFactory, incoming: Incoming, handle: Callable[[Message], None]
) -> bool:
    """Receive as `receive_all`, until SIGINT; return whether SIGINT ended it. Main thread only.

    The signal is handled even if the process has inherited that it is ignored, as background
    commands of shells do.
    """
    watching = anyio.Event()
    with anyio.CancelScope() as scope:
        watcher = spawn(_cancel_on_interrupt, scope, watching, name="pyjms receive, signals")
        async with while_watching(watching, watcher):
            await receive_all(factory, incoming, handle)
    return scope.cancelled_caught


async def _cancel_on_interrupt(scope: anyio.CancelScope, watching: anyio.Event) -> None:
    try:
        with anyio.open_signal_receiver(signal.SIGINT) as received:
            watching.set()
            async for _ in received:
                scope.cancel()
    except NotImplementedError:
        watching.set()  # Windows: SIGINT raises KeyboardInterrupt


async def _consumer(session: ActiveMQSession, incoming: Incoming) -> MessageConsumer:
    destination = incoming.destination
    if incoming.subscription is None:
        return await session.create_consumer(destination, incoming.selector)
    assert isinstance(destination, Topic), "checked by the command"
    return await session.create_durable_subscriber(
        destination, incoming.subscription, incoming.selector
    )


async def browse_all(
    factory: ConnectionFactory,
    queue: Queue,
    selector: str | None,
    limit: int | None,
    handle: Callable[[Message], None],
) -> int:
    """Call `handle` with each message of a queue, at most `limit`; return their number."""
    seen = 0
    async with await factory.create_connection() as connection:
        await connection.start()
        session = await connection.create_session()
        browser = await session.create_browser(queue, selector)
        async for message in browser:
            handle(message)
            seen += 1
            if seen == limit:
                break
        await browser.close()
    return seen


_HEADERS: Final[dict[str, Callable[[Message], object]]] = {
    "JMSMessageID": lambda m: m.message_id,
    "JMSDestination": lambda m: _text(m.destination),
    "JMSTimestamp": lambda m: m.timestamp,
    "JMSDeliveryMode": lambda m: (
        "PERSISTENT" if m.delivery_mode == DeliveryMode.PERSISTENT else "NON-PERSISTENT"
    ),
    "JMSPriority": lambda m: m.priority,
    "JMSExpiration": lambda m: m.expiration,
    "JMSRedelivered": lambda m: m.redelivered,
    "JMSCorrelationID": lambda m: m.correlation_id,
    "JMSReplyTo": lambda m: _text(m.reply_to),
    "JMSType": lambda m: m.type,
    "OriginalDestination": lambda m: _text(m.original_destination),
}
_TYPES: Final[dict[type[Message], str]] = {
    TextMessage: "text",
    BytesMessage: "bytes",
    MapMessage: "map",
    StreamMessage: "stream",
    ObjectMessage: "object",
}


_SEPARATOR: Final = f"{'-' * 40}\n"


def headers_of(message: Message) -> dict[str, object]:
    """Return the headers that are set, by their names in JMS."""
    found = {name: read(message) for name, read in _HEADERS.items()}
    return {name: value for name, value in found.items() if value is not None}


def _reason(message: Message) -> str | None:
    """Return why a message is a dead letter; None: it is none."""
    if FAILURE_CAUSE not in message.properties:
        return None
    original = _text(message.original_destination) or message.properties.get(ORIGINAL_DESTINATION)
    return reason_of(message.properties, None if original is None else str(original))


def as_json(message: Message) -> dict[str, object]:
    """Return headers, `properties`, `type`, and `body`, or `body_base64` for bytes and objects.

    If something cannot be decoded, `error` describes it.
    """
    item = headers_of(message)
    try:
        item["properties"] = {
            name: _plain(message.properties.get_object(name)) for name in message.properties
        }
        if reason := _reason(message):
            item["reason"] = reason
        item["type"] = type_of(message)
        body = _body_of(message)
    except JMSException as error:
        return item | {"error": str(error)}
    if isinstance(body, bytes):
        item["body_base64"] = base64.b64encode(body).decode("ascii")
    else:
        item["body"] = _plain(body)
    return item


def type_of(message: Message) -> str:
    """Return the kind of body: text, bytes, map, stream, object, or message without a body."""
    return next((name for kind, name in _TYPES.items() if isinstance(message, kind)), "message")


class MessagePrinter:
    """Prints messages to the standard output: as JSON, with headers, or the body alone.

    A body of bytes is written unchanged, without a newline, unless the output is a terminal. Above
    each message with headers but the first there is a line.
    """

    def __init__(self, *, as_json_lines: bool, headers: bool) -> None:
        self._as_json_lines = as_json_lines
        self._headers = headers
        self._between = ""

    def print(self, message: Message) -> None:
        """Print a message and flush."""
        if self._as_json_lines:
            json_line(as_json(message))
        else:
            if self._headers:
                sys.stdout.write(self._between)
                self._between = _SEPARATOR
                _print_headers(message)
            _print_body(message)
        sys.stdout.flush()


def _print_headers(message: Message) -> None:
    for name, value in headers_of(message).items():
        typer.echo(f"{name}: {safe_text(value)}")
    if reason := _reason(message):
        typer.echo(f"reason: {safe_text(reason)}")
    for name in message.properties:
        value = message.properties.get_object(name)
        shown = f"'{value}'" if isinstance(value, str) else value
        typer.echo(f"{safe_text(name)} = {safe_text(shown)}")
    typer.echo("")


def _print_body(message: Message) -> None:
    body = _body_of(message)
    is_terminal = sys.stdout.isatty()
    if isinstance(body, bytes):
        if is_terminal:
            typer.echo(f"<{len(body)} bytes: {body[:64].hex(' ')}{' ...' if body[64:] else ''}>")
        else:
            sys.stdout.flush()
            sys.stdout.buffer.write(body)
    elif isinstance(body, str):
        # remove a message's control characters except newlines and tabs, to protect the terminal
        typer.echo("\n".join(map(_line, body.split("\n"))) if is_terminal else body)
    elif body is not None:
        typer.echo(json.dumps(_plain(body)))


def _line(text: str) -> str:
    return "\t".join(map(safe_text, text.split("\t")))


def _body_of(message: Message) -> object:
    if isinstance(message, TextMessage):
        return message.text
    if isinstance(message, BytesMessage):
        return bytes(message.get_body(bytes) or b"")
    if isinstance(message, ObjectMessage):
        return bytes(message.data or b"")
    if isinstance(message, MapMessage):
        return {name: message[name] for name in message}
    if isinstance(message, StreamMessage):
        return list(_values(message))
    return None


def _values(message: StreamMessage) -> Iterator[object]:
    while True:
        try:
            yield message.read_object()
        except MessageEOFException:
            return


def _plain(value: object) -> object:
    """Return a value of a JSON type."""
    if isinstance(value, bytes | bytearray):
        return {"base64": base64.b64encode(value).decode("ascii")}
    if isinstance(value, dict):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value


def _text(value: object) -> str | None:
    return None if value is None else str(value)
