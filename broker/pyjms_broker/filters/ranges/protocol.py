"""The requests and replies of range reads: JSON, and chunks of messages as bytes.

A chunk is a BytesMessage that contains for each message its number (8 bytes), the size of its frame
(4 bytes) and the loose OpenWire frame, a type byte and the body. Its properties are `next`, the
number after the chunk; `last`, whether the range is complete; and `epoch`.
"""

from __future__ import annotations

import itertools
import json
import struct
from collections.abc import Mapping
from typing import Any, Final

from pyjms.errors import JMSException
from pyjms.jms.destination import Destination
from pyjms.runtime.ids import IdGenerator
from pyjms.wire.kahadb.frames import encode_message
from pyjms.wire.openwire import commands
from pyjms.wire.openwire.primitives import decode_text, encode_map, encode_text
from pyjms_broker.api.message import StoredMessage

_MAX_REQUEST_SIZE: Final = 64 * 1024
_MAX_DIGITS: Final = 20
_NUMBER: Final = struct.Struct(">q")
_TEXT, _INT, _SECONDS = (str,), (int,), (int, float)

_FIELDS: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "lease": {"queue": _TEXT, "owner": _TEXT},
    "stat": {"token": _TEXT},
    "hold": {"token": _TEXT, "to": _INT},
    "look": {"queue": _TEXT},
    "find": {"pattern": _TEXT},
    "range": {"from": _INT, "to": _INT},
    "trim": {"token": _TEXT, "to": _INT},
    "release": {"token": _TEXT},
}
"""The operations, each with its required fields."""
_OPTIONAL: Final[Mapping[str, Mapping[str, tuple[type, ...]]]] = {
    "lease": {"selector": _TEXT, "token": _TEXT, "wait": _SECONDS},
    "stat": {"gt": _INT, "wait": _SECONDS, "at": _INT, "more": (list,)},
    "range": {"token": _TEXT, "queue": _TEXT, "selector": _TEXT},
}


class RangesError(JMSException):
    """A refused request. The codes are part of the protocol.

    They are leased, replaced, in_flight, unknown_token, trimmed, ahead, bad_request, failed.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


def read_request(message: commands.ActiveMQMessage) -> dict[str, Any]:
    """Return the fields of a request; `op` is its operation."""
    content = message.content
    if not isinstance(message, commands.ActiveMQTextMessage) or content is None:
        raise _bad_request("it is not a TextMessage")
    if len(content) > _MAX_REQUEST_SIZE:
        raise _bad_request(f"it is longer than {_MAX_REQUEST_SIZE} bytes")
    try:
        fields = json.loads(
            decode_text(bytes(content)) or "", parse_constant=_refuse, parse_int=_read_integer
        )
    except (JMSException, ValueError, RecursionError) as error:
        raise _bad_request("it is not JSON with numbers of at most 64 bits") from error
    if not isinstance(fields, dict):
        fields = {}
    operation = fields.get("op")
    needed = _FIELDS.get(operation) if isinstance(operation, str) else None
    if needed is None:
        raise _bad_request(f"op must be one of {', '.join(_FIELDS)}")
    for name, kinds in needed.items():
        _check(name, fields.get(name), kinds)
    for name, kinds in _OPTIONAL.get(fields["op"], {}).items():
        if fields.get(name) is not None:
            _check(name, fields[name], kinds)
    for each in fields.get("more") or ():
        if not isinstance(each, list) or [type(item) for item in each] != [str, int]:
            raise _bad_request("more is not a list of pairs of a token and a number")
    return fields


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _read_integer(digits: str) -> int:
    """Parse an integer of at most 64 bits, which is the limit of stores."""
    if len(digits) > _MAX_DIGITS or not -(2**63) <= (number := int(digits)) < 2**63:
        raise ValueError("a number has more than 64 bits")
    return number


def _check(name: str, value: object, kinds: tuple[type, ...]) -> None:
    if not isinstance(value, kinds) or isinstance(value, bool):
        raise _bad_request(f"{name} is missing or has the wrong type")


def _bad_request(text: str) -> RangesError:
    return RangesError("bad_request", f"The request cannot be read: {text}")


def frame_message(stored: StoredMessage) -> bytes:
    """Return a message's bytes in a chunk."""
    return _NUMBER.pack(stored.position.arrival) + encode_message(stored.message)


class ReplyFactory:
    """Creates reply messages with unique message ids."""

    def __init__(self) -> None:
        self._producer_id = commands.ProducerId(IdGenerator().generate())
        self._sequence = itertools.count(1)

    def message(
        self,
        values: Mapping[str, object],
        destination: Destination,
        correlation_id: str | None = None,
        body: bytes | None = None,
    ) -> commands.ActiveMQMessage:
        """Return a JSON reply or, with a body, a part of a range with its properties."""
        message: commands.ActiveMQMessage
        if body is None:
            message = commands.ActiveMQTextMessage(content=encode_text(json.dumps(values)))
        else:
            properties = encode_map(dict(values))
            message = commands.ActiveMQBytesMessage(content=body, marshalled_properties=properties)
        message.producer_id = self._producer_id
        message.message_id = commands.MessageId(None, self._producer_id, next(self._sequence))
        message.destination = destination
        message.correlation_id = correlation_id
        message.priority = 4
        return message
