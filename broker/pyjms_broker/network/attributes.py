"""The attributes of network connectors, with ActiveMQ's names and defaults. (activemq-edges 9)

The class is also the base of the settings in broker.yaml.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pyjms.jms.destination import Destination
from pyjms_broker.attribute import Attribute, attribute

__all__ = ["NetworkConnectorAttributes"]


@dataclass(frozen=True, kw_only=True)
class NetworkConnectorAttributes:
    """The attributes of a network connector; times to live are numbers of brokers."""

    name: str = attribute(
        "NC", "Unique in the broker; part of client ids and of names of subscriptions."
    )
    user_name: str | None = attribute(
        None, "User of the bridge, at this broker and at the remote one."
    )
    password: Annotated[str | None, Attribute("That user's password.")] = field(
        default=None, repr=False
    )
    remote_user_name: str | None = attribute(None, "User at the remote broker; null: user_name.")
    remote_password: Annotated[str | None, Attribute("That user's password; null: password.")] = (
        field(default=None, repr=False)
    )
    duplex: bool = attribute(
        False, "Whether the remote broker forwards to this one, too, over the same connection."
    )
    conduit_subscriptions: bool = attribute(
        True, "Whether the remote consumers of a destination count as one, without selector."
    )
    conduit_network_queue_subscriptions: bool = attribute(
        False, "Whether that holds for consumers of queues on brokers behind it, too."
    )
    decrease_network_consumer_priority: bool = attribute(
        False, "Whether consumers of this broker come before those of remote ones."
    )
    consumer_priority_base: int = attribute(
        -5,
        "Priority of remote consumers then; lower the more brokers are between.",
        minimum=-128,
        maximum=127,
    )
    network_ttl: int = attribute(
        1,
        "How many brokers messages and knowledge of consumers may pass; -1: any number.",
        minimum=-1,
    )
    message_ttl: int | None = attribute(
        None, "The same for messages; null: network_ttl.", minimum=-1
    )
    consumer_ttl: int | None = attribute(
        None, "The same for consumers; null: network_ttl.", minimum=-1
    )
    suppress_duplicate_queue_subscriptions: bool = attribute(
        False, "Whether a consumer of a queue that is known by two ways is served by one."
    )
    suppress_duplicate_topic_subscriptions: bool = attribute(
        True, "Whether that holds for consumers of topics."
    )
    dynamic_only: bool = attribute(
        False, "Whether durable subscriptions are forwarded only while they have a consumer."
    )
    static_bridge: bool = attribute(
        False, "Whether only statically_included_destinations are forwarded, always."
    )
    bridge_temp_destinations: bool = attribute(
        True, "Whether temporary destinations are forwarded, for replies."
    )
    prefetch_size: int = attribute(
        1000, "Messages that a bridge takes ahead for a destination.", minimum=1
    )
    advisory_prefetch_size: int = attribute(
        0, "Advisories that the remote broker sends ahead; 0: prefetch_size.", minimum=0
    )
    advisory_ack_percentage: int = attribute(
        75, "After what part of them, in percent, they are acknowledged.", minimum=1, maximum=100
    )
    always_sync_send: bool = attribute(
        True, "Whether the remote broker confirms non-persistent messages, too."
    )
    destination_filter: str | None = attribute(
        None, "Advisory topics with the remote consumers; null: by what is included."
    )
    sync_durable_subs: bool = attribute(
        False,
        "Whether both brokers tell each other their durable subscriptions at each connection.",
    )
    use_virtual_dest_subs: bool = attribute(
        False, "Whether consumers that virtual destinations there feed count as theirs."
    )
    use_compression: bool = attribute(
        False, "Whether the bodies of forwarded messages are compressed."
    )
    advisory_for_failed_forward: bool = attribute(
        False, "Whether each message that the remote broker refuses causes an advisory."
    )
    check_duplicate_messages_on_duplex: bool = attribute(
        False, "Whether stored messages that come again over a duplex connection are dropped."
    )
    client_id_token: str = attribute(
        "_", "What stands between the parts of the bridge's client ids."
    )
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
