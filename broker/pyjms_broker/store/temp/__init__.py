"""Non-persistent messages that do not fit in memory, spooled to disk until they are needed."""

from pyjms_broker.store.temp.spool import Spool, SpooledMessage
from pyjms_broker.store.temp.store import TempStore

__all__ = ["Spool", "SpooledMessage", "TempStore"]
