"""Messages as text and as JSON. Names of headers are those of JMS."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator
from typing import Final

import typer

from pyjms.cli.terminal import json_line, safe_text
from pyjms.enums import DeliveryMode
from pyjms.errors import JMSException, MessageEOFException
from pyjms.jms.bodies import BytesMessage, MapMessage, ObjectMessage, StreamMessage, TextMessage
from pyjms.jms.message import Message

__all__ = ["as_json", "headers_of", "print_message"]

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
}
_TYPES: Final[dict[type[Message], str]] = {
    TextMessage: "text",
    BytesMessage: "bytes",
    MapMessage: "map",
    StreamMessage: "stream",
    ObjectMessage: "object",
}


def headers_of(message: Message) -> dict[str, object]:
    """Return the headers that are set, by their names in JMS."""
    found = {name: read(message) for name, read in _HEADERS.items()}
    return {name: value for name, value in found.items() if value is not None}


def as_json(message: Message) -> dict[str, object]:
    """Return headers, `properties`, `type`, and `body`, or `body_base64` for bytes and objects.

    If something cannot be decoded, `error` describes it.
    """
    item = headers_of(message)
    try:
        item["properties"] = {
            name: _plain(message.properties.get_object(name)) for name in message.properties
        }
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


def print_message(message: Message, *, as_json_line: bool, headers: bool) -> None:
    """Print a message and flush.

    A body of bytes is written unchanged, without a newline, unless the output is a terminal.
    """
    if as_json_line:
        json_line(as_json(message))
    else:
        if headers:
            _print_headers(message)
        _print_body(message)
    sys.stdout.flush()


def _print_headers(message: Message) -> None:
    for name, value in headers_of(message).items():
        typer.echo(f"{name}: {safe_text(value)}")
    for name in message.properties:
        typer.echo(f"{safe_text(name)} = {safe_text(message.properties.get_object(name))}")
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
