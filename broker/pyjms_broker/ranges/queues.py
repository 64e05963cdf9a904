"""The broker's queues for range reads."""

from __future__ import annotations

from typing import Final

from pyjms.jms.destination import Queue

__all__ = ["PROGRESS_RECORDS", "RANGES"]

RANGES: Final = Queue("PyJMS.Ranges")
"""The queue for the requests."""
PROGRESS_RECORDS: Final = Queue("PyJMS.Ranges.Marks")
"""The queue of the progress records."""
