"""Commands between brokers, and of discovery agents."""

from __future__ import annotations

from typing import ClassVar

from pyjms.wire.openwire.commands import kinds
from pyjms.wire.openwire.commands.base import BaseCommand, DataStructure, Field
from pyjms.wire.openwire.commands.ids import BrokerId
from pyjms.wire.openwire.commands.resources import ConsumerInfo

__all__ = [
    "BrokerSubscriptionInfo",
    "DiscoveryEvent",
]


class DiscoveryEvent(DataStructure):
    """A broker found by a discovery agent."""

    # generated: DiscoveryEvent
    # fmt: off
    __slots__ = ("broker_name", "service_name")
    TYPE: ClassVar[int] = 40
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        Field("service_name", kinds.STRING, 1), Field("broker_name", kinds.STRING, 1),
    )

    def __init__(
        self, service_name: str | None = None, broker_name: str | None = None,
    ) -> None:
        self.service_name = service_name
        self.broker_name = broker_name
    # fmt: on
    # end generated


class BrokerSubscriptionInfo(BaseCommand):
    """The durable subscriptions of a broker, for its bridges."""

    # generated: BrokerSubscriptionInfo
    # fmt: off
    __slots__ = ("broker_id", "broker_name", "subscription_infos")
    TYPE: ClassVar[int] = 92
    LAYOUT: ClassVar[tuple[Field, ...]] = (
        *BaseCommand.LAYOUT, Field("broker_id", kinds.NESTED, 12, "BrokerId"),
        Field("broker_name", kinds.STRING, 12),
        Field("subscription_infos", kinds.ARRAY, 12, "ConsumerInfo"),
    )

    def __init__(
        self, broker_id: BrokerId | None = None, broker_name: str | None = None,
        subscription_infos: list[ConsumerInfo | None] | None = None, command_id: int = 0,
        response_required: bool = False,
    ) -> None:
        self.command_id = command_id
        self.response_required = response_required
        self.broker_id = broker_id
        self.broker_name = broker_name
        self.subscription_infos = subscription_infos
    # fmt: on
    # end generated
