"""The interface of a range reader, which reads a queue by arrival numbers without consuming.

It is implemented by `pyjms_broker.ranges`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["QueueReader"]


class QueueReader(Protocol):
    """Is notified by a queue of its messages, during a lease and afterwards. No call blocks."""

    is_leased: bool
    """Whether a lease is active, during which every message is stored, becomes visible only
    once it is stored, and is removed only by the reader."""

    def arrived(self, reference: MessageReference) -> None:
        """Record a message that has become visible, in the order of the arrival numbers."""

    def keeps(self, reference: MessageReference) -> bool:
        """Return whether the message must not expire, because it may be read again."""

    def may_purge(self) -> bool:
        """Return whether all messages may be removed; then earlier ranges cannot be read again."""
