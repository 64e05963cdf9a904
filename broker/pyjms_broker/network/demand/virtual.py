"""Remote consumers fed by virtual destinations, which also count as consumers of these.

The remote broker reports such a consumer twice, with the same id: as a consumer of its queue and,
with `use_virtual_dest_subs`, as a consumer of the virtual destination. The topic of the advisory
distinguishes the two. (ActiveMQ useVirtualDestSubs)
"""

from __future__ import annotations

from typing import Final

from pyjms.jms.destination import Destination
from pyjms.wire.openwire.commands import ConsumerId, ConsumerInfo
from pyjms_broker.advisory.topics import VIRTUAL_CONSUMER_PREFIX
from pyjms_broker.api.copying import copy_command

__all__ = ["for_virtual", "is_about_virtual_destinations", "virtual_id"]

_MARK: Final = "virtual:"


def is_about_virtual_destinations(topic: Destination | None) -> bool:
    """Return whether advisories on `topic` concern consumers fed by virtual destinations."""
    return topic is not None and topic.physical_name.startswith(VIRTUAL_CONSUMER_PREFIX)


def virtual_id(consumer_id: ConsumerId) -> ConsumerId:
    """Return the id of a consumer in its role as consumer of a virtual destination."""
    connection = f"{_MARK}{consumer_id.connection_id or ''}"
    return ConsumerId(connection, consumer_id.session_id, consumer_id.value)


def for_virtual(info: ConsumerInfo) -> ConsumerInfo:
    """Return the info of a consumer of a virtual destination, which is never durable."""
    copy = copy_command(info)
    copy.consumer_id = None if info.consumer_id is None else virtual_id(info.consumer_id)
    copy.subscription_name = None
    return copy
