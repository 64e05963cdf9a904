"""The section `prefetch` of a broker in application.yaml."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pyjms.client.options import PrefetchPolicy
from pyjms.settings.section import Section

__all__ = ["PrefetchSettings", "PrefetchSize"]

PrefetchSize = Annotated[int, Field(ge=0, le=32767)]


class PrefetchSettings(Section):
    """Messages sent ahead, by kind of consumer. ActiveMQ: ActiveMQPrefetchPolicy."""

    queue: PrefetchSize | None = None
    """To each consumer of a queue; not set: 1000."""
    queue_browser: PrefetchSize | None = None
    """To each browser; not set: 500."""
    topic: PrefetchSize | None = None
    """To each consumer of a topic; not set: 32767."""
    durable_topic: PrefetchSize | None = None
    """To each durable subscriber; not set: 100."""
    optimize_durable_topic: PrefetchSize | None = None
    """To each durable subscriber of an auto session; not set: 1000."""
    maximum_pending_message_limit: int | None = Field(default=None, ge=0)
    """Messages that the broker keeps for a slow consumer of a topic, beyond those; 0: its own
    limit."""

    def apply(self, policy: PrefetchPolicy) -> None:
        """Set what is set here; the rest stays as it is."""
        for name, value in self.model_dump(exclude_none=True).items():
            attribute = name if name.startswith("maximum") else f"{name}_prefetch"
            setattr(policy, attribute, value)
