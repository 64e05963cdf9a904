"""What a network connector does: ActiveMQ's attributes with ActiveMQ's defaults. (activemq-edges 9)

The table is the base class of the settings in broker.yaml, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from pyjms.jms.destination import Destination
from pyjms_broker.attribute import Attribute

__all__ = ["NetworkConnectorAttributes"]


@dataclass(frozen=True, kw_only=True)
class NetworkConnectorAttributes:
    """The attributes of a network connector; times to live count brokers, not time."""

    name: Annotated[
        str, Attribute("Unique in the broker; part of client ids and of names of subscriptions.")
    ] = "NC"
    user_name: Annotated[
        str | None, Attribute("User of the bridge, at this broker and at the remote one.")
    ] = None
    password: Annotated[str | None, Attribute("That user's password.")] = field(
        default=None, repr=False
    )
    remote_user_name: Annotated[
        str | None, Attribute("User at the remote broker; null: user_name.")
    ] = None
    remote_password: Annotated[str | None, Attribute("That user's password; null: password.")] = (
        field(default=None, repr=False)
    )
    duplex: Annotated[
        bool,
        Attribute("Whether the remote broker forwards to this one, too, over the same connection."),
    ] = False
    conduit_subscriptions: Annotated[
        bool,
        Attribute("Whether the remote consumers of a destination count as one, without selector."),
    ] = True
    conduit_network_queue_subscriptions: Annotated[
        bool, Attribute("Whether that holds for consumers of queues on brokers behind it, too.")
    ] = False
    decrease_network_consumer_priority: Annotated[
        bool, Attribute("Whether consumers of this broker come before those of remote ones.")
    ] = False
    consumer_priority_base: Annotated[
        int,
        Attribute(
            "Priority of remote consumers then; lower the more brokers are between.",
            minimum=-128,
            maximum=127,
        ),
    ] = -5
    network_ttl: Annotated[
        int,
        Attribute(
            "How many brokers messages and knowledge of consumers may pass; -1: any number.",
            minimum=-1,
        ),
    ] = 1
    message_ttl: Annotated[
        int | None, Attribute("The same for messages; null: network_ttl.", minimum=-1)
    ] = None
    consumer_ttl: Annotated[
        int | None, Attribute("The same for consumers; null: network_ttl.", minimum=-1)
    ] = None
    suppress_duplicate_queue_subscriptions: Annotated[
        bool,
        Attribute("Whether a consumer of a queue that is known by two ways is served by one."),
    ] = False
    suppress_duplicate_topic_subscriptions: Annotated[
        bool, Attribute("Whether that holds for consumers of topics.")
    ] = True
    dynamic_only: Annotated[
        bool,
        Attribute("Whether durable subscriptions are forwarded only while they have a consumer."),
    ] = False
    static_bridge: Annotated[
        bool,
        Attribute("Whether only statically_included_destinations are forwarded, always."),
    ] = False
    bridge_temp_destinations: Annotated[
        bool, Attribute("Whether temporary destinations are forwarded, for replies.")
    ] = True
    prefetch_size: Annotated[
        int, Attribute("Messages that a bridge takes ahead for a destination.", minimum=1)
    ] = 1000
    advisory_prefetch_size: Annotated[
        int,
        Attribute("Advisories that the remote broker sends ahead; 0: prefetch_size.", minimum=0),
    ] = 0
    advisory_ack_percentage: Annotated[
        int,
        Attribute(
            "After what part of them, in percent, they are acknowledged.", minimum=1, maximum=100
        ),
    ] = 75
    always_sync_send: Annotated[
        bool,
        Attribute("Whether the remote broker confirms non-persistent messages, too."),
    ] = True
    destination_filter: Annotated[
        str | None,
        Attribute("Advisory topics with the remote consumers; null: by what is included."),
    ] = None
    sync_durable_subs: Annotated[
        bool,
        Attribute(
            "Whether both brokers tell each other their durable subscriptions at each connection."
        ),
    ] = False
    use_virtual_dest_subs: Annotated[
        bool,
        Attribute("Whether consumers that virtual destinations there feed count as theirs."),
    ] = False
    use_compression: Annotated[
        bool, Attribute("Whether the bodies of forwarded messages are compressed.")
    ] = False
    advisory_for_failed_forward: Annotated[
        bool,
        Attribute("Whether each message that the remote broker refuses causes an advisory."),
    ] = False
    check_duplicate_messages_on_duplex: Annotated[
        bool,
        Attribute("Whether stored messages that come again over a duplex connection are dropped."),
    ] = False
    client_id_token: Annotated[
        str, Attribute("What stands between the parts of the bridge's client ids.")
    ] = "_"  # noqa: S105 - no secret, it separates words
    dynamically_included_destinations: tuple[Destination, ...] = ()
    statically_included_destinations: tuple[Destination, ...] = ()
    excluded_destinations: tuple[Destination, ...] = ()

    @property
    def dispatch_async(self) -> bool:
        """Whether what bridges consume waits for no other consumer; it is so for all consumers."""
        return True

    @property
    def messages_hops(self) -> int:
        """How many brokers a message may pass; -1: any number."""
        return self.network_ttl if self.message_ttl is None else self.message_ttl

    @property
    def consumers_hops(self) -> int:
        """How many brokers away a consumer may be; -1: any number."""
        return self.network_ttl if self.consumer_ttl is None else self.consumer_ttl
