"""Scheduled messages: jobs in the broker's scheduler. Imported on first use."""

from typing import TYPE_CHECKING

from pyjms._forwarding import homes_of, names_of

if TYPE_CHECKING:
    from pyjms.core.scheduling.scheduler import JmsScheduler

__all__ = ["JmsScheduler"]

__getattr__, __dir__ = names_of(
    globals(), homes_of({"pyjms.core.scheduling.scheduler": " ".join(__all__)})
)
