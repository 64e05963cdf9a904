"""Quality of service: delivery mode, priority and time to live. (Spring: QosSettings)"""

from __future__ import annotations

from dataclasses import dataclass

from pyjms.enums import DeliveryMode
from pyjms.jms.message import DEFAULT_PRIORITY
from pyjms.runtime.clock import check_seconds


@dataclass(frozen=True, slots=True)
class QosSettings:
    """The quality of service of sends. Spring: QosSettings.

    Attributes:
        delivery_mode: PERSISTENT or NON_PERSISTENT.
        priority: 0 to 9.
        time_to_live: seconds until a message expires; 0: never.
    """

    delivery_mode: DeliveryMode = DeliveryMode.PERSISTENT
    priority: int = DEFAULT_PRIORITY
    time_to_live: float = 0.0

    def __post_init__(self) -> None:
        check_seconds("time_to_live", self.time_to_live)
