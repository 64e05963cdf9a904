"""The JMS client of STOMP scripts: it sends and receives messages of all kinds."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from pyjms.client.connection import ActiveMQConnection
from pyjms.jms import types
from pyjms.jms.api import Session
from pyjms.jms.destination import Destination, Queue, Topic
from pyjms.jms.message import Message

LIMIT = 15.0


class JmsPeer:
    """One JMS connection; each step uses a new session."""

    def __init__(self, connection: ActiveMQConnection) -> None:
        self._connection = connection

    async def do(self, command: str, text: str) -> str | None:
        """Run a step; return the output of a receiving step."""
        destination, _, rest = text.partition(", ")
        arguments = ast.literal_eval(f"({rest},)") if rest else ()
        async with await self._connection.create_session() as session:
            if command == "SEND":
                await self._send(session, destination_of(destination), *arguments)
                return None
            consumer = await session.create_consumer(destination_of(destination))
            message = await consumer.receive(LIMIT)
            assert message is not None, text
            if command == "REPLY":
                producer = await session.create_producer(message.reply_to)
                reply = session.create_text_message(*arguments)
                reply.correlation_id = message.correlation_id
                await producer.send(reply)
                return None
            return shown(message)

    async def _send(
        self,
        session: Session,
        destination: Destination,
        kind: str,
        body: Any = None,
        properties: dict[str, Any] | None = None,
        headers: dict[str, Any] | None = None,
    ) -> None:
        message = _MESSAGES[kind](session, body)
        for name, value in (properties or {}).items():
            message.properties[name] = _typed(value)
        for name, value in (headers or {}).items():
            setattr(message, name, value)
        producer = await session.create_producer(destination)
        await producer.send(message, priority=6)


def _typed(value: Any) -> Any:
    """Return a value of a Python literal, whose type `('Short', 5)` names."""
    if isinstance(value, tuple):
        return getattr(types, value[0])(value[1])
    return value


def _map(session: Session, body: dict[str, Any]) -> Message:
    message = session.create_map_message()
    for name, value in body.items():
        message[name] = _typed(value)
    return message


def _stream(session: Session, body: list[Any]) -> Message:
    message = session.create_stream_message()
    for value in body:
        message.write_object(_typed(value))
    return message


_MESSAGES: dict[str, Callable[[Session, Any], Message]] = {
    "text": lambda session, body: session.create_text_message(body),
    "bytes": lambda session, body: session.create_bytes_message(body),
    "object": lambda session, body: session.create_object_message(bytes.fromhex(body)),
    "plain": lambda session, _: session.create_message(),
    "map": _map,
    "stream": _stream,
}


def destination_of(name: str) -> Destination:
    """Return the destination of a name with ActiveMQ's prefix."""
    kind, _, rest = name.partition("://")
    return {"queue": Queue, "topic": Topic}[kind](rest)


def shown(message: Message) -> str:
    """Return a received message in one line."""
    properties = {
        name: value
        for name, value in sorted(message.properties.items())
        if not name.startswith("JMSXDelivery")
    }
    body: Any = message.get_body(message.BODY_TYPES[0]) if message.BODY_TYPES else None
    if isinstance(body, dict):
        body = dict(sorted(body.items()))
    fields = {
        name: getattr(message, name)
        for name in ("correlation_id", "type", "priority", "delivery_mode")
        if getattr(message, name) is not None
    }
    return f"{type(message).__name__} {body!r}; {fields}; {properties}"
