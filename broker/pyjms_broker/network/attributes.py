"""The attributes of network connectors, with ActiveMQ's names and defaults. (activemq-edges 9)

The class is also the base of the settings in broker.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pyjms.jms.destination import Destination
from pyjms_broker.attribute import Attribute, attribute, count, flag

__all__ = ["NetworkConnectorAttributes"]


@dataclass(frozen=True, kw_only=True)
class NetworkConnectorAttributes:
    """The attributes of a network connector; times to live are numbers of brokers."""

    name: str = attribute("NC", "Unique in the broker; part of client ids and subscription names.")
    user_name: str | None = attribute(None, "User of the bridge at this and at the remote broker.")
    password: Annotated[str | None, Attribute("That user's password.")] = field(
        default=None, repr=False
    )
    remote_user_name: str | None = attribute(None, "User at the remote broker; null: user_name.")
    remote_password: Annotated[str | None, Attribute("That user's password; null: password.")] = (
        field(default=None, repr=False)
    )
    duplex: bool = flag(
        "Whether the remote broker also forwards to this one over the same connection."
    )
    conduit_subscriptions: bool = flag(
        "Whether the remote consumers of a destination are combined, without their selectors.",
        default=True,
    )
    conduit_network_queue_subscriptions: bool = flag(
        "Whether this includes queue consumers of brokers behind the remote one."
    )
    decrease_network_consumer_priority: bool = flag(
        "Whether consumers of this broker are preferred to remote consumers."
    )
    consumer_priority_base: int = attribute(
        -5,
        "Priority of remote consumers then; lowered for each broker in between.",
        minimum=-128,
        maximum=127,
    )
    network_ttl: int = attribute(
        1,
        "Maximum number of brokers that messages and subscriptions traverse; -1: unlimited.",
        minimum=-1,
    )
    message_ttl: int | None = attribute(
        None, "The same for messages; null: network_ttl.", minimum=-1
    )
    consumer_ttl: int | None = attribute(
        None, "The same for consumers; null: network_ttl.", minimum=-1
    )
    suppress_duplicate_queue_subscriptions: bool = flag(
        "Whether a queue consumer reachable over two paths is served over one of them."
    )
    suppress_duplicate_topic_subscriptions: bool = flag(
        "The same for topic consumers.", default=True
    )
    dynamic_only: bool = flag(
        "Whether durable subscriptions are forwarded only while they have a consumer."
    )
    static_bridge: bool = flag(
        "Whether only statically_included_destinations are forwarded, always."
    )
    bridge_temp_destinations: bool = flag(
        "Whether temporary destinations are forwarded, for replies.", default=True
    )
    prefetch_size: int = count(1000, "Prefetch of a bridge per destination.", minimum=1)
    advisory_prefetch_size: int = count(
        0, "Prefetch of the remote broker's advisories; 0: prefetch_size."
    )
    advisory_ack_percentage: int = count(
        75,
        "Percentage of this prefetch after which advisories are acknowledged.",
        minimum=1,
        maximum=100,
    )
    always_sync_send: bool = flag(
        "Whether the remote broker also confirms non-persistent messages.", default=True
    )
    destination_filter: str | None = attribute(
        None, "Advisory topics that report remote consumers; null: for the included destinations."
    )
    sync_durable_subs: bool = flag(
        "Whether the brokers exchange their durable subscriptions each time they connect."
    )
    use_virtual_dest_subs: bool = flag(
        "Whether consumers fed by remote virtual destinations count as consumers of these."
    )
    use_compression: bool = flag("Whether the bodies of forwarded messages are compressed.")
    advisory_for_failed_forward: bool = flag(
        "Whether each message that the remote broker refuses causes an advisory."
    )
    check_duplicate_messages_on_duplex: bool = flag(
        "Whether persistent messages sent again over a duplex connection are dropped."
    )
    client_id_token: str = attribute("_", "Separator of the parts of the bridge's client ids.")
    dynamically_included_destinations: tuple[Destination, ...] = ()
    statically_included_destinations: tuple[Destination, ...] = ()
    excluded_destinations: tuple[Destination, ...] = ()

    @property
    def dispatch_async(self) -> bool:
        """Whether bridges' messages are dispatched asynchronously; always so, for all consumers."""
        return True

    @property
    def messages_hops(self) -> int:
        """The maximum number of brokers that a message may pass; -1: unlimited."""
        return self.network_ttl if self.message_ttl is None else self.message_ttl

    @property
    def consumers_hops(self) -> int:
        """The maximum number of brokers to a consumer; -1: unlimited."""
        return self.network_ttl if self.consumer_ttl is None else self.consumer_ttl
