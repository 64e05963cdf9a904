"""The interface of a consumer that reads a queue by sequence numbers.

`pyjms_broker.ranges` implements it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyjms_broker.api.message import MessageReference

__all__ = ["QueueReader"]


class QueueReader(Protocol):
    """Asked by a queue about its messages, while it is leased and afterwards. No call waits."""

    is_leased: bool
    """Whether everything that comes is stored, shown when it is, and removed by nobody else."""

    def arrived(self, reference: MessageReference) -> None:
        """Hear of a message that the queue counts from now on, in order of the numbers."""

    def keeps(self, reference: MessageReference) -> bool:
        """Whether the message must not expire: it was read, and may be read again."""

    def may_purge(self) -> bool:
        """Whether all may be removed; if so it is counted: what was read cannot be read again."""
