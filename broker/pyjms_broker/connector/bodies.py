"""The bodies of text and bytes messages as the bytes that clients of other protocols get."""

from __future__ import annotations

from typing import Final

from pyjms.wire.limits import LARGE_FRAME, inflate, inflate_sized
from pyjms.wire.openwire.commands import ActiveMQBytesMessage, ActiveMQMessage, ActiveMQTextMessage
from pyjms.wire.openwire.primitives import decode_text

_INFLATED: Final = 4 * 1024 * 1024
_INFLATED_RATIO: Final = 32
"""A compressed body is inflated to at most `_INFLATED` bytes or `_INFLATED_RATIO` times its size,
because its inflated size is not accounted before it is queued for a client."""


class _LatestBody:
    """The most recently converted long body, which the subscribers of a topic share."""

    def __init__(self) -> None:
        self._latest: tuple[bytes | None, bytes] = (None, b"")

    def of(self, message: ActiveMQMessage) -> bytes:
        """Return the body of a message, converting it unless it was the last one.

        Raises:
            JMSException: it cannot be read.
        """
        content, body = self._latest
        if message.content is None or message.content is not content:
            body = _content(message)
            if len(body) > LARGE_FRAME:
                self._latest = (message.content, body)
        return body

    def forget(self) -> None:
        """Drop the body, because all subscribers have the message."""
        self._latest = (None, b"")


LATEST_BODY: Final = _LatestBody()


def expand(message: ActiveMQMessage) -> bytes:
    """Return the body as it is encoded, without compression.

    Raises:
        JMSException: it is damaged, or too large.
    """
    content = message.content
    if not content or not message.compressed:
        return content or b""
    limit = max(_INFLATED, _INFLATED_RATIO * len(content))
    is_sized = message.TYPE == ActiveMQBytesMessage.TYPE
    return inflate_sized(content, limit) if is_sized else inflate(content, limit)


def _content(message: ActiveMQMessage) -> bytes:
    """Return the body; only text and bytes messages have one. (activemq-edges ST6)"""
    if message.TYPE == ActiveMQBytesMessage.TYPE:
        return expand(message)
    if message.TYPE == ActiveMQTextMessage.TYPE and message.content:
        return (decode_text(expand(message)) or "").encode("utf-8", "replace")
    return b""
