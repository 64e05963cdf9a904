"""The plug-in `message_trail`: a trail of the messages of chosen destinations.

`pyjms_broker.region.message_trail` keeps it. Destinations report what happens to each message, as
for advisories; this filter adds what happens seldom. Without the plug-in nothing is reported.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import parse_destination
from pyjms.wire.openwire.commands import Throwable
from pyjms_broker.api.broker import Broker, BrokerFilter
from pyjms_broker.api.context import ConnectionContext
from pyjms_broker.api.message import MessageReference
from pyjms_broker.api.subscription import Subscription
from pyjms_broker.attribute import Unit, attribute, duration
from pyjms_broker.region.message_trail import MessageTrail
from pyjms_broker.region.region_broker import RegionBroker

_MEGABYTE = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class MessageTrailPlugin:
    """Files tell what happened to each message of chosen destinations; no bodies or properties."""

    is_read_at_start: ClassVar[bool] = True
    default_file: ClassVar[tuple[str, str]] = ("directory", "trail")

    destinations: tuple[str, ...] = attribute(
        (), "Names or patterns: orders.> for queues, topic://news.>, ActiveMQ.DLQ."
    )
    directory: Path | str | None = attribute(
        None, "Directory of the files; null: trail in the broker's directory.", unit=Unit.PATH
    )
    retention: float = duration(86_400.0, "Time for which events are kept.")
    maximum_size: int = attribute(
        100 * _MEGABYTE, "Maximum size of all files; the oldest are removed.", unit=Unit.BYTES
    )
    trace_url: str = attribute(
        "", "URL of a trace of OpenTelemetry, with {trace_id}, to which the console links."
    )

    def install_plugin(self, broker: Broker) -> Broker:
        """Return the filter around `broker`.

        Raises:
            ConfigurationException: there is no directory, or no destination.
        """
        if self.trace_url and not self.trace_url.startswith(("http://", "https://")):
            raise ConfigurationException(
                f"The plug-in message_trail: trace_url {self.trace_url[:100]!r} is no URL",
                hint="write https://host/trace/{trace_id}",
            )
        if self.directory is None or not self.destinations:
            what = "directory" if self.directory is None else "destinations"
            raise ConfigurationException(
                f"The plug-in message_trail has no {what}",
                hint="write MessageTrailPlugin(directory=..., destinations=('orders.>',))",
            )
        trail = MessageTrail(
            Path(self.directory),
            [parse_destination(each) for each in self.destinations],
            self.retention,
            self.maximum_size,
            self.trace_url,
        )
        return MessageTrailBroker(broker, trail)


class MessageTrailBroker(BrokerFilter):
    """Records expired, dead and discarded messages, and keeps the trail's life cycle."""

    def __init__(self, next_broker: Broker, trail: MessageTrail) -> None:
        super().__init__(next_broker)
        self._trail = trail
        region: Broker = next_broker
        while isinstance(region, BrokerFilter):
            region = region.next
        assert isinstance(region, RegionBroker), "the innermost broker"
        region.trail = trail

    async def start(self) -> None:
        await self._trail.start()
        await super().start()

    async def stop(self) -> None:
        await super().stop()
        await self._trail.stop()

    def message_expired(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        self._record("expired", reference)
        super().message_expired(context, reference, subscription)

    def send_to_dead_letter_queue(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
        cause: Throwable | None,
    ) -> bool:
        is_sent = super().send_to_dead_letter_queue(context, reference, subscription, cause)
        strategy = reference.destination.dead_letter_strategy
        target = strategy.dead_letter_destination(reference, subscription) if is_sent else "nowhere"
        kind = "" if cause is None else (cause.cause or cause).class_name
        by = None if subscription is None else subscription.context.client_id
        self._record("dead", reference, "to", target, kind, "from", by)
        return is_sent

    def message_discarded(
        self,
        context: ConnectionContext,
        reference: MessageReference,
        subscription: Subscription | None,
    ) -> None:
        by = None if subscription is None else subscription.consumer_id
        self._record("discarded", reference, "for", by)
        super().message_discarded(context, reference, subscription)

    def _record(self, event: str, reference: MessageReference, *details: object) -> None:
        if reference.destination.is_trailed:
            self._trail.on_event(event, reference, *details)
