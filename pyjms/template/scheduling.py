"""Scheduled messages: jobs in the broker's scheduler. Imported on first use."""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import homes_of, names_of

if TYPE_CHECKING:
    from pyjms.template.scheduler import JmsScheduler

__all__ = ["JmsScheduler"]

__getattr__, __dir__ = names_of(
    globals(), homes_of({"pyjms.template.scheduler": " ".join(__all__)})
)
