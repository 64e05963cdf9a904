"""Bodies of messages as text, by message type.

Bodies are untrusted input: only text, numbers and bytes are deserialized, and at most `LIMIT`
characters or bytes are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pyjms.errors import JMSException
from pyjms.wire.limits import MAX_PROPERTY_VALUES
from pyjms.wire.openwire.commands import (
    ActiveMQBlobMessage,
    ActiveMQBytesMessage,
    ActiveMQMapMessage,
    ActiveMQMessage,
    ActiveMQObjectMessage,
    ActiveMQStreamMessage,
    ActiveMQTextMessage,
)
from pyjms.wire.openwire.primitives import decode_map, decode_text
from pyjms_broker.management.messages import content_of

__all__ = ["LIMIT", "Body", "read_body", "type_name"]

LIMIT: Final = 64 * 1024
_ENTRIES: Final = 500
_ROW: Final = 16


@dataclass(frozen=True, slots=True)
class Body:
    """A body for display.

    Args:
        kind: the JMS message type.
        size: the size of the inflated body in bytes.
        text: the body, possibly truncated.
        entries: name, type and value of a map's entries.
        note: the reason why there is no text, or not all of it.
    """

    kind: str
    size: int
    text: str | None = None
    entries: tuple[tuple[str, str, str], ...] = ()
    note: str = ""


def read_body(message: ActiveMQMessage) -> Body:
    """Return the body of a message; never raises, even for invalid bodies."""
    for kind, (name, read) in _KINDS.items():
        if isinstance(message, kind):
            try:
                return read(name, content_of(message), message)
            except (JMSException, ValueError) as error:
                size = len(message.content or b"")
                return Body(name, size, note=f"It cannot be read: {type(error).__name__}.")
    return Body("Message", len(message.content or b""), note="Messages of this kind have no body.")


def _limited(size: int) -> str:
    return f"The first {LIMIT:,} of {size:,} are shown." if size > LIMIT else ""


def _text(kind: str, content: bytes, _: ActiveMQMessage) -> Body:
    text = decode_text(content) if content else None
    if not text:
        return Body(kind, len(content), note="It has no body." if text is None else "It is empty.")
    return Body(kind, len(content), text[:LIMIT], note=_limited(len(text)))


def _bytes(kind: str, content: bytes, _: ActiveMQMessage) -> Body:
    if not content:
        return Body(kind, 0, note="It has no body.")
    return Body(kind, len(content), _hex(content[:LIMIT]), note=_limited(len(content)))


def _hex(content: bytes) -> str:
    lines = []
    for start in range(0, len(content), _ROW):
        row = content[start : start + _ROW]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        lines.append(f"{start:06x}  {row.hex(' '):<{_ROW * 3 - 1}}  {shown}")
    return "\n".join(lines)


def _map(kind: str, content: bytes, _: ActiveMQMessage) -> Body:
    values = decode_map(content, MAX_PROPERTY_VALUES) if content else {}
    entries = tuple(
        (name, type_name(value), str(value)[:LIMIT])
        for name, value in list(values.items())[:_ENTRIES]
    )
    note = f"The first {_ENTRIES} of {len(values)} entries." if len(values) > _ENTRIES else ""
    return Body(
        kind, len(content), entries=entries, note=note or ("" if entries else "It is empty.")
    )


def _opaque(kind: str, content: bytes, _: ActiveMQMessage) -> Body:
    return Body(
        kind,
        len(content),
        _hex(content[:LIMIT]),
        note=f"It is shown as bytes: nothing is deserialised here. {_limited(len(content))}",
    )


def _blob(kind: str, content: bytes, message: ActiveMQMessage) -> Body:
    assert isinstance(message, ActiveMQBlobMessage)
    entries = (
        ("URL", "string", message.remote_blob_url or ""),
        ("MIME type", "string", message.mime_type or ""),
    )
    return Body(
        kind, len(content), entries=entries, note="The content is stored outside of the broker."
    )


_Read = Callable[[str, bytes, ActiveMQMessage], Body]
_KINDS: Final[dict[type[ActiveMQMessage], tuple[str, _Read]]] = {
    ActiveMQTextMessage: ("TextMessage", _text),
    ActiveMQBytesMessage: ("BytesMessage", _bytes),
    ActiveMQMapMessage: ("MapMessage", _map),
    ActiveMQStreamMessage: ("StreamMessage", _opaque),
    ActiveMQObjectMessage: ("ObjectMessage", _opaque),
    ActiveMQBlobMessage: ("BlobMessage", _blob),
}


_TYPES: Final = {"str": "string", "bool": "boolean", "float": "double", "bytes": "bytes"}


def type_name(value: object) -> str:
    """Return the JMS name of the type of a property or map entry."""
    name = type(value).__name__
    return _TYPES.get(name, name.lower())
