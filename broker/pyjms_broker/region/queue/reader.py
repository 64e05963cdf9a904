"""The interface of a range reader: it reads a queue by arrival numbers, without consuming.

`pyjms_broker.ranges` implements it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["QueueReader"]


class QueueReader(Protocol):
    """Called by a queue about its messages, while it is leased and afterwards. No call blocks."""

    is_leased: bool
    """Whether a lease is active: every message is stored, becomes visible only then, and is
    removed by the reader alone."""

    def arrived(self, reference: MessageReference) -> None:
        """Record a message that has become visible, in the order of the arrival numbers."""

    def keeps(self, reference: MessageReference) -> bool:
        """Whether the message must not expire, because it was read and may be read again."""

    def may_purge(self) -> bool:
        """Whether all messages may be removed; if so, earlier ranges cannot be read again."""
