"""Sending through an outbox: rows in the application's own transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from sqlalchemy import Connection
from sqlalchemy.orm import Session

from pyjms.errors import JMSException, MessageConversionException
from pyjms.jms.api import Session as JmsSession
from pyjms.jms.destination import Destination, named_kind, parse_destination
from pyjms.jms.message import (
    BytesMessage,
    MapMessage,
    Message,
    ObjectMessage,
    StreamMessage,
    TextMessage,
)
from pyjms.outbox.tables import DEFAULT_OUTBOX, OUTBOX
from pyjms.runtime import clock as _clock
from pyjms.support.converter import DefaultMessageConverter, MessageConverter

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncSession


_PLAIN: Final = (str, int, float, bool, type(None))


def send(
    database: Session | Connection,
    destination: str | Destination,
    payload: object,
    *,
    properties: Mapping[str, str | float | bool | None] | None = None,
    correlation_id: str | None = None,
    type: str | None = None,  # noqa: A002 - JMSType
    reply_to: str | Destination | None = None,
    group_id: str | None = None,
    priority: int = 4,
    time_to_live: float = 0.0,
    converter: MessageConverter | None = None,
    outbox: str = DEFAULT_OUTBOX,
) -> str:
    """Write a message in the transaction of `database`; a relay sends it after the commit.

    Returns the id that the message will have in its property `pyjms_outbox_id`. Blocks for the
    insert only; nothing is sent if the transaction is rolled back. Messages are persistent.

    Args:
        database: the session or connection in whose transaction the row is inserted.
        destination: a queue or topic; a name alone means a queue.
        payload: a payload, as for `JmsTemplate.convert_and_send`, that becomes text or bytes.
        properties: the properties of the message.
        correlation_id: JMSCorrelationID.
        type: JMSType.
        reply_to: JMSReplyTo.
        group_id: JMSXGroupID; one consumer gets all messages of a group, in order.
        priority: from 0 to 9.
        time_to_live: seconds from now after which the message expires; 0: never.
        converter: converts the payload to a message; None: the default of an application, which
            converts dicts to JSON.
        outbox: the name of the outbox, if there are several relays for several brokers.

    Raises:
        MessageConversionException: the payload or a property cannot be stored in a row.
        InvalidDestinationException: the destination is not valid.
        TypeError: a header is not a str.
        ValueError: the priority or the time to live is out of its range.
    """
    if not 0 <= priority <= 9:
        raise ValueError(f"'priority' must be from 0 to 9: {priority}")
    _clock.check_seconds("time_to_live", time_to_live)
    message = (converter or DefaultMessageConverter(dict_format="json")).to_message(
        payload, cast(JmsSession, _Messages())
    )
    values = {**message.property_values(), **(properties or {})}
    _check_properties(values)
    kind, body = _body(message)
    now = _clock.time_ms() / 1000
    texts = {"correlation_id": correlation_id, "type": type, "group_id": group_id}
    for name, text in texts.items():
        if not isinstance(text, str | None):
            raise TypeError(f"{name!r} must be a text: {text!r}")
    headers = {
        "correlation_id": correlation_id,
        "type": type,
        "reply_to": None if reply_to is None else _text(reply_to),
        "group_id": group_id,
        "priority": priority,
        "expires_at": now + time_to_live if time_to_live else None,
    }
    row = {
        "outbox": outbox,
        "message_id": str(uuid.uuid4()),
        "destination": _text(destination),
        "kind": kind,
        "body": body,
        "properties": values,
        "headers": {name: value for name, value in headers.items() if value is not None},
        "created_at": now,
    }
    database.execute(OUTBOX.insert().values(row))
    return str(row["message_id"])


async def send_async(
    database: AsyncSession, destination: str | Destination, payload: object, **options: Any
) -> str:
    """Like `send`, in the transaction of an AsyncSession."""
    return await database.run_sync(lambda session: send(session, destination, payload, **options))


def _check_properties(values: Mapping[str, object]) -> None:
    """Reject properties that the relay could not send: it would retry that row forever."""
    message = Message()
    for name, value in values.items():
        if not isinstance(value, _PLAIN):
            raise MessageConversionException(
                f"The property {name!r} of an outbox's message is a {value.__class__.__name__}",
                hint="use texts, numbers and booleans",
            )
        try:
            message.properties[name] = value
        except (JMSException, ValueError) as error:
            raise MessageConversionException(
                f"The property {name!r} of an outbox's message cannot be {value!r}: {error}",
                hint="use a value that a message property can have",
            ) from error


class _Messages:
    """Creates messages for a converter, without a session."""

    create_message = Message
    create_text_message = TextMessage
    create_bytes_message = BytesMessage
    create_map_message = MapMessage
    create_stream_message = StreamMessage
    create_object_message = ObjectMessage


def _body(message: Message) -> tuple[str, bytes]:
    if isinstance(message, TextMessage):
        return "text", (message.text or "").encode()
    if isinstance(message, BytesMessage):
        return "bytes", message.get_body(bytes) or b""
    raise MessageConversionException(
        f"An outbox stores text and bytes, not a {message.__class__.__name__}",
        hint="send a str, bytes, or an object that can be converted to JSON",
    )


def _text(destination: str | Destination) -> str:
    if isinstance(destination, str):
        named_kind(destination)
        destination = parse_destination(destination)
    return destination.qualified_name
