"""Sending messages for `pyjms send`: bodies and properties from the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from pyjms.client.factory import ConnectionFactory
from pyjms.enums import DeliveryMode
from pyjms.errors import ConfigurationException, JMSException
from pyjms.jms.bodies import BytesMessage, TextMessage
from pyjms.jms.conversions import NULLS, PROPERTY_READS, convert
from pyjms.jms.destination import Destination
from pyjms.jms.message import Message

__all__ = ["Outgoing", "bodies_of", "read_property", "send_all"]

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
    """Return the name and value of `name=value` (a string) or `name:type=value`.

    Raises:
        ConfigurationException: it has another form, or the value is not of the type.
    """
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
    """Iterate over the bodies to send; without `body` and `file`, those of the standard input.

    Raises:
        ConfigurationException: the file cannot be read, or is text to send but not UTF-8.
    """
    if body is not None:
        found: Iterable[bytes] = (body.encode("utf-8", "surrogateescape"),)
    else:
        found = _contents(file or _STANDARD_INPUT, lines=lines)
    for content in found:
        value = content if as_bytes else _decoded(content, file)
        for _ in range(count):
            yield value


def _contents(file: Path, *, lines: bool) -> Iterator[bytes]:
    if file == _STANDARD_INPUT:
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


def _decoded(content: bytes, file: Path | None) -> str:
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
    """Send a message for each body; return the ids of at most the last 100. Cancellable.

    Raises:
        ConfigurationException: a body cannot be read.
        JMSException: the broker cannot be reached, or rejected a message.
    """
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
