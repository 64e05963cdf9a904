"""Advisory messages and their producer. (openwire-encoding 17)"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

from pyjms._ids import IdGenerator
from pyjms.jms.destination import Topic
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    BrokerId,
    Command,
    ConsumerId,
    MessageId,
    ProducerId,
)
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.exchange import ProducerExchange
from pyjms_broker.region.base_destination import ADVISORY_TYPE

__all__ = ["AdvisoryProducer"]


class AdvisoryProducer:
    """The broker's own producer of advisories: never flow-controlled, never in a transaction."""

    def __init__(
        self, broker_name: str, broker_id: BrokerId, broker_url: Callable[[], str]
    ) -> None:
        self.producer_id = ProducerId(IdGenerator().generate())
        self._broker_name = broker_name
        self._broker_id = broker_id
        self._broker_url = broker_url
        self._sequence = itertools.count(1)
        context = ConnectionContext()
        context.is_broker = True
        context.producer_flow_control = False
        self.context = context

    def exchange(self) -> ProducerExchange:
        """Return a new producer exchange."""
        return ProducerExchange(self.context)

    def message(
        self,
        topic: Topic,
        about: Command | None,
        target: ConsumerId | None,
        properties: Mapping[str, object],
    ) -> ActiveMQMessage:
        """Create an advisory on `topic`, about `about` and only for `target`, if given."""
        return ActiveMQMessage(
            producer_id=self.producer_id,
            destination=topic,
            message_id=MessageId(None, self.producer_id, next(self._sequence)),
            type=ADVISORY_TYPE,
            marshalled_properties=encode_map(
                {
                    "originBrokerName": self._broker_name,
                    "originBrokerId": str(self._broker_id),
                    "originBrokerURL": self._broker_url(),
                    **properties,
                }
            ),
            data_structure=about,
            target_consumer_id=target,
        )
