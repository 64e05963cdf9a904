"""Non-persistent messages that memory has no room for, on the disk until they are wanted."""

from broker.store.temp.spool import Spool, SpooledMessage
from broker.store.temp.store import TempStore

__all__ = ["Spool", "SpooledMessage", "TempStore"]
