"""The coordinator's log of decisions about transactions across several stores.

(activemq-persistence K26)

A prepare record says that a transaction is prepared in all stores and will be committed; a commit
record says that it is committed in all stores. ActiveMQ's `txStore` has the same records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from anyio import to_thread

from pyjms.errors import ResourceAllocationException
from pyjms.wire.kahadb.codec import encode_command
from pyjms.wire.kahadb.commands import KahaCommitCommand, KahaPrepareCommand
from pyjms.wire.kahadb.frames import from_transaction_info, to_transaction_info
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.openwire.commands import TransactionId, XATransactionId
from pyjms_broker.api.completion import Completion
from pyjms_broker.store.journal.disk import Disk
from pyjms_broker.store.journal.journal import Journal, StateListener
from pyjms_broker.store.journal.settings import JournalSettings

__all__ = ["LOCAL_FORMAT_ID", "DecisionLog", "as_xa"]

LOCAL_FORMAT_ID: Final = 61616
"""The XA format id under which stores know local transactions (ActiveMQ's localXaFormatId)."""


def as_xa(xid: TransactionId) -> XATransactionId:
    """Return the XA id of `xid` in the stores, since only XA transactions can be prepared."""
    if isinstance(xid, XATransactionId):
        return xid
    connection = getattr(xid, "connection_id", None)
    name = "" if connection is None or connection.value is None else connection.value
    number = getattr(xid, "value", 0)
    return XATransactionId(LOCAL_FORMAT_ID, name.encode(), str(number).encode())


class DecisionLog:
    """The decisions that are not carried out in all stores yet. Use it on the loop."""

    def __init__(
        self, directory: Path, settings: JournalSettings, disk: Disk, on_state: StateListener
    ) -> None:
        self.journal = Journal(directory, settings, disk, on_state)
        self.decided: dict[XATransactionId, Location] = {}
        """Locations of the decisions, by transactions that a store may still have prepared."""

    async def open(self) -> None:
        """Open the log and read the decisions.

        Raises:
            ResourceAllocationException: it cannot be read.
        """
        await self.journal.open()
        try:
            await to_thread.run_sync(self._read)
        except OSError as e:
            raise ResourceAllocationException(
                f"Cannot read the decisions in {self.journal.directory}: {e}"
            ) from e

    def _read(self) -> None:
        for record in self.journal.records_from(None):
            command = record.command()
            if isinstance(command, KahaPrepareCommand):
                self.decided[_xid(command)] = record.location
            elif isinstance(command, KahaCommitCommand):
                self.decided.pop(_xid(command), None)

    def decide(self, xid: XATransactionId) -> Completion:
        """Log the decision to commit `xid`; completed when it is durable."""
        waiter = Completion()
        payload = encode_command(KahaPrepareCommand(to_transaction_info(xid)))
        self.decided[xid] = self.journal.append(payload, waiter, sync=True)
        return waiter

    def mark_completed(self, xid: XATransactionId) -> None:
        """Record, lazily, that `xid` is committed in all stores."""
        if self.decided.pop(xid, None) is not None:
            payload = encode_command(KahaCommitCommand(to_transaction_info(xid)))
            self.journal.append(payload, lazy=True)

    async def clean_up(self) -> None:
        """Delete the segments before the first decision that is not carried out.

        The stores must have synced their commits.

        Raises:
            JMSException: the journal has failed.
        """
        first = min(self.decided.values(), default=self.journal.written).file_id
        for file_id in self.journal.segments():
            if file_id < min(first, self.journal.written.file_id):
                await self.journal.delete(file_id)


def _xid(command: KahaPrepareCommand | KahaCommitCommand) -> XATransactionId:
    return as_xa(from_transaction_info(command.transaction_info))
