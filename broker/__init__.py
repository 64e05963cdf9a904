"""The bundled broker: ActiveMQ's behaviour on ActiveMQ's wire format. `BrokerService` embeds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.service import BrokerService

__all__ = ["BrokerService"]


def __getattr__(name: str) -> object:
    if name == "BrokerService":
        from broker.service import BrokerService  # noqa: PLC0415 - the broker loads when asked for

        return BrokerService
    raise AttributeError(f"module 'broker' has no attribute {name!r}")
