"""Removal of durable subscriptions that are inactive for too long. (activemq-broker T22)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.errors import JMSException
from pyjms.runtime import clock as _clock
from pyjms.runtime import event_loop
from pyjms.runtime.logging import get_logger
from pyjms.wire.openwire.commands import ConsumerInfo, RemoveSubscriptionInfo
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.completion import wait_for
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import SubscriptionKey

if TYPE_CHECKING:
    from pyjms_broker.region.region_broker import RegionBroker

logger = get_logger(__name__)


class OfflineSubscriptionsBroker(BrokerFilter):
    """Checks every `period` seconds for subscriptions inactive for `timeout` seconds.

    For a subscription that is inactive at the broker's start, the time begins at the start. Source:
    ActiveMQ offlineDurableSubscriberTimeout, offlineDurableSubscriberTaskSchedule.
    """

    def __init__(
        self, next_broker: Broker, region: RegionBroker, timeout: float, period: float
    ) -> None:
        super().__init__(next_broker)
        self._region = region
        self._timeout = timeout
        self._period = period
        self._offline_since: dict[SubscriptionKey, float] = {}
        self._task: event_loop.BackgroundTask | None = None

    async def start(self) -> None:
        await self.next.start()
        self._note()
        self._task = event_loop.spawn(
            self._sweep_periodically, name="removal of offline subscriptions"
        )

    async def stop(self) -> None:
        task, self._task = self._task, None
        await event_loop.end_tasks(task)
        await self.next.stop()

    def remove_consumer(
        self, context: ConnectionContext, info: ConsumerInfo, last_delivered_sequence_id: int
    ) -> None:
        """Record the time when a subscription loses its consumer."""
        self.next.remove_consumer(context, info, last_delivered_sequence_id)
        if info.subscription_name is not None and context.client_id is not None:
            key = SubscriptionKey(context.client_id, info.subscription_name)
            self._offline_since[key] = _clock.now()

    def _note(self) -> None:
        """Update the times: drop active and removed subscriptions, and add new inactive ones."""
        offline = {
            each.key
            for each in self._region.subscriptions.durable_subscriptions()
            if not each.is_active
        }
        now = _clock.now()
        self._offline_since = {key: self._offline_since.get(key, now) for key in offline}

    async def _sweep_periodically(self) -> None:
        while True:
            await _clock.sleep(self._period)
            self._note()
            for key, since in tuple(self._offline_since.items()):
                if _clock.now() - since >= self._timeout:
                    await self._remove(key)

    async def _remove(self, key: SubscriptionKey) -> None:
        region = self._region
        logger.info(
            "Durable subscription %s of client %s has been inactive for too long", *key[::-1]
        )
        info = RemoveSubscriptionInfo(
            client_id=key.client_id, subscription_name=key.subscription_name
        )
        try:
            await wait_for(region.root.remove_subscription(region.context, info))
        except JMSException as error:  # for example, it is active again
            logger.warning("Could not remove it: %s", error)
