"""The command `pyjms broker browse`, with ActiveMQ's options and output. (activemq-edges CL5)"""

from __future__ import annotations

import base64
from collections.abc import Callable, Collection, Iterator, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, cast

import typer

from pyjms.cli.credentials import PasswordFile, User, factory_for, url_option
from pyjms_broker.cli.load.commands import Password
from pyjms_broker.cli.management.selectors import Selectors, as_selector

if TYPE_CHECKING:
    from pyjms.jms.destination import Queue
    from pyjms.jms.message import Message

__all__ = ["browse"]

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
    url: Annotated[str | None, url_option("--amqurl")] = None,
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
    user: User = None,
    password: Password = None,
    password_file: PasswordFile = None,
) -> None:
    """Print the messages of a queue as `activemq browse` does; `pyjms browse` has more formats.

    Each field is a line, `JMS_HEADER_FIELD:JMSPriority = 4`; an empty line ends each message.
    Stream bodies are printed as lists, object bodies in base64.
    """
    import anyio

    from pyjms.cli.messages.receiving import browse_all
    from pyjms_broker.cli.terminal import one_line_errors

    shown = set(parts or Part)
    names = {name for text in view or () for name in text.split(",")}

    def handle(message: Message) -> None:
        for line in _lines(message, shown, names):
            typer.echo(line)
        typer.echo("")

    with one_line_errors("browse"):
        factory = factory_for(url, user, password_file, password)
        anyio.run(browse_all, factory, _queue(queue), as_selector(msgsel or []), None, handle)


def _queue(text: str) -> Queue:
    from pyjms.cli.destinations import read_destination
    from pyjms.errors import ConfigurationException
    from pyjms.jms.destination import Queue

    found = read_destination(text)
    if not isinstance(found, Queue):
        raise ConfigurationException(f"{found} cannot be browsed", hint="topics keep no messages")
    return found


def _lines(message: Message, parts: Collection[str], names: Collection[str]) -> Iterator[str]:
    from pyjms_broker.cli.terminal import safe_text

    for part, read in _FIELDS.items():
        if part in parts:
            for name, value in read(message):
                if not names or name in names:
                    yield f"{_PREFIXES[part]}:{safe_text(name)} = {safe_text(_java_text(value))}"


def _headers(message: Message) -> Iterator[tuple[str, object]]:
    from pyjms.cli.messages.rendering import headers_of

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
    from pyjms.cli.messages.rendering import as_json
    from pyjms.jms.bodies import BytesMessage, MapMessage, TextMessage

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
