"""What is asked and answered: JSON texts, and chunks of messages as bytes.

A chunk is a BytesMessage: for each message its number (8 bytes), the size of its frame (4 bytes)
and the loose OpenWire frame, a type byte and the body. Its properties: `next`, the number behind
the chunk, `last`, whether the range is done, and `epoch`.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from broker.api.message import StoredMessage
from pyjms._ids import IdGenerator
from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.openwire.commands import (
    ActiveMQBytesMessage,
    ActiveMQMessage,
    ActiveMQTextMessage,
    MessageId,
    ProducerId,
)
from pyjms.wire.openwire.primitives import decode_text, encode_map, encode_text

__all__ = ["Answers", "RangesError", "Request", "framed", "read_request"]

_LONGEST_REQUEST: Final = 64 * 1024
_NUMBER: Final = struct.Struct(">q")
_TEXT, _INT, _SECONDS = (str,), (int,), (int, float)

_FIELDS: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "lease": {"queue": _TEXT, "owner": _TEXT},
    "stat": {"token": _TEXT},
    "hold": {"token": _TEXT, "to": _INT},
    "look": {"queue": _TEXT},
    "range": {"from": _INT, "to": _INT},
    "trim": {"token": _TEXT, "to": _INT},
    "release": {"token": _TEXT},
}
"""The operations, and what each needs."""
_OPTIONAL: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "lease": {"selector": _TEXT, "token": _TEXT, "wait": _SECONDS},
    "stat": {"gt": _INT, "wait": _SECONDS},
    "range": {"token": _TEXT, "queue": _TEXT, "selector": _TEXT},
}


class RangesError(JMSException):
    """A request that is refused. The codes are part of the protocol:

    leased, replaced, in_flight, unknown_token, trimmed, ahead, bad_request, failed.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class Request(NamedTuple):
    """A request: what to do, and the rest of it."""

    operation: str
    fields: Mapping[str, Any]


def read_request(message: ActiveMQMessage) -> Request:
    """Read a request.

    Raises:
        RangesError: it is none.
    """
    content = message.content
    if not isinstance(message, ActiveMQTextMessage) or content is None:
        raise _bad("a request is a text")
    if len(content) > _LONGEST_REQUEST:
        raise _bad("it is too long")
    try:
        fields = json.loads(decode_text(bytes(content)) or "")
    except (JMSException, ValueError, RecursionError) as error:
        raise _bad("it is no JSON") from error
    operation = fields.get("op") if isinstance(fields, dict) else None
    needed = _FIELDS.get(operation) if isinstance(operation, str) else None
    if needed is None or not isinstance(operation, str):
        raise _bad(f"op is none of {', '.join(_FIELDS)}")
    for name, kinds in needed.items():
        _check(name, fields.get(name), kinds)
    for name, kinds in _OPTIONAL.get(operation, {}).items():
        if fields.get(name) is not None:
            _check(name, fields[name], kinds)
    return Request(operation, fields)


def _check(name: str, value: object, kinds: tuple[type, ...]) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise _bad(f"{name} is missing or of a wrong type")


def _bad(text: str) -> RangesError:
    return RangesError("bad_request", f"The request cannot be read: {text}")


def framed(stored: StoredMessage) -> bytes:
    """Return a message as a chunk has it."""
    return _NUMBER.pack(stored.position.arrival) + encode_message(stored.message)


class Answers:
    """Makes the messages that answer, each with an id of its own."""

    def __init__(self) -> None:
        self._producer_id = ProducerId(IdGenerator().generate())
        self._sequence = itertools.count(1)

    def text(
        self, values: Mapping[str, object], destination: Destination, correlation_id: str | None
    ) -> ActiveMQTextMessage:
        """Return an answer that is JSON."""
        message = ActiveMQTextMessage(content=encode_text(json.dumps(values)))
        self._stamp(message, destination, correlation_id)
        return message

    def chunk(
        self,
        body: bytes,
        properties: Mapping[str, object],
        destination: Destination,
        correlation_id: str | None,
    ) -> ActiveMQBytesMessage:
        """Return an answer that is a part of a range."""
        message = ActiveMQBytesMessage(
            content=body, marshalled_properties=encode_map(dict(properties))
        )
        self._stamp(message, destination, correlation_id)
        return message

    def _stamp(
        self, message: ActiveMQMessage, destination: Destination, correlation_id: str | None
    ) -> None:
        message.producer_id = self._producer_id
        message.message_id = MessageId(None, self._producer_id, next(self._sequence))
        message.destination = destination
        message.correlation_id = correlation_id
        message.priority = 4
