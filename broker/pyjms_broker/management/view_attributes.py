"""One table of what a broker shows of itself: the attributes of its management views.

Every surface reads it: the views and Jolokia (name, Java type, help), `/metrics` (`metric`),
`/api/events` (`event`), the console and `top` (`label`), and the commands that talk to a broker by
HTTP. It imports nothing of the broker, because commands and `top` run in other processes.

The names, their order and their types are those of ActiveMQ's beans. (activemq-edges 7)
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final, NamedTuple, TypeAlias

STRING: Final = "java.lang.String"
BOOLEAN: Final = "boolean"
BYTE: Final = "byte"
INT: Final = "int"
LONG: Final = "long"
FLOAT: Final = "float"
DOUBLE: Final = "double"
MAP: Final = "java.util.Map"
OBJECT_NAME: Final = "javax.management.ObjectName"
OBJECT_NAMES: Final = "[Ljavax.management.ObjectName;"
ROWS: Final = "javax.management.openmbean.TabularData"
COMPOSITE: Final = "javax.management.openmbean.CompositeData"


class Metric(NamedTuple):
    """A metric in Prometheus' format: the end of its name, and its help."""

    name: str
    help: str

    @property
    def type(self) -> str:
        """`counter` or `gauge`."""
        return "counter" if self.name.endswith("_total") else "gauge"


class Attribute(NamedTuple):
    """An attribute of a view.

    Args:
        type: the name of its Java type.
        help: what the value is, with its unit.
        path: where the managed object has the value; empty: a function of the views returns it.
        always: the value, if it never changes.
        label: the title of its column, or its name in a list of facts.
        unit: `bytes`, `ms` or `%`, if a surface shows it.
        event: its key in `/api/events`; empty: it is not there.
        metric: its metric in `/metrics`, in seconds for `ms` and of 1 for `%`; None: it has none.
    """

    type: str
    help: str
    path: str = ""
    always: object = None
    label: str = ""
    unit: str = ""
    event: str = ""
    metric: Metric | None = None


Table: TypeAlias = Mapping[str, Attribute]
"""The attributes of a kind of view by name."""

string: Final = partial(Attribute, STRING)
boolean: Final = partial(Attribute, BOOLEAN)
integer: Final = partial(Attribute, INT)
long: Final = partial(Attribute, LONG)
double: Final = partial(Attribute, DOUBLE)
mapping: Final = partial(Attribute, MAP)
object_name: Final = partial(Attribute, OBJECT_NAME)
object_names: Final = partial(Attribute, OBJECT_NAMES)
rows: Final = partial(Attribute, ROWS)
composite: Final = partial(Attribute, COMPOSITE)
octets: Final = partial(Attribute, "[B")


def _usage(kind: str, key: str, what: str, name: str, limit: str = "") -> dict[str, Attribute]:
    """Return the use and the limit of one of the broker's resources."""
    return {
        f"{kind}PercentUsage": integer(
            f"Percentage of the limit of {what} in use.",
            f"system_usage.{key}.percent",
            unit="%",
            event=f"{key}_percent" if limit else "",
            metric=Metric(f"{key}_usage_ratio", f"{name} in use, of 1."),
        ),
        f"{kind}Limit": long(
            f"Limit of {what}, in bytes; 0: no limit.",
            f"system_usage.{key}.limit",
            unit="bytes",
            metric=Metric(f"{key}_limit_bytes", limit) if limit else None,
        ),
    }


SIZES: Final[Table] = {
    "AverageMessageSize": long("Average message size, in bytes.", unit="bytes"),
    "MaxMessageSize": long("Largest message size, in bytes.", unit="bytes"),
    "MinMessageSize": long("Smallest message size, in bytes.", unit="bytes"),
}
OLDEST: Final[Table] = {
    "FirstMessageAge": long(
        "Time since the oldest message arrived, in flight or waiting, in ms; 0: there is none.",
        label="Oldest message",
        unit="ms",
        metric=Metric("oldest_message_age_seconds", "Time since its oldest message arrived."),
    ),
}
"""What ActiveMQ does not have; the name is Artemis'."""
RATES: Final[Table] = {
    "EnqueueRate": double(
        "Messages enqueued a second, in the last 5 s; null: not recorded.", label="In/s"
    ),
    "DequeueRate": double(
        "Messages dequeued a second, in the last 5 s; null: not recorded.", label="Out/s"
    ),
}
"""What ActiveMQ does not have: a broker's history knows them (`web.history`)."""
CURSOR: Final[Table] = {
    "CursorFull": boolean(
        "Whether memory is above the cursor's high-water mark, so that waiting messages stay "
        "in the store."
    ),
    "CursorMemoryUsage": long("Total size of the waiting messages in memory, in bytes."),
    "CursorPercentUsage": integer("Percentage of the memory limit in use by waiting messages."),
}

BROKER: Final[Table] = {
    "BrokerId": string("The broker's id, new at each start."),
    "BrokerName": string("The broker's name.", "broker_name"),
    "BrokerVersion": string("The version of pyjms."),
    "Uptime": string("Time since the start."),
    "UptimeMillis": long(
        "Time since the start, in ms.",
        unit="ms",
        metric=Metric("uptime_seconds", "Time since the start."),
    ),
    "CurrentConnectionsCount": integer(
        "Number of connections.",
        event="connections",
        metric=Metric("connections", "Connections of clients."),
    ),
    "TotalConnectionsCount": long(
        "Connections opened since the start.",
        "connections.total",
        metric=Metric("connections_total", "Connections so far."),
    ),
    "TotalEnqueueCount": long(
        "Messages enqueued.",
        event="enqueued",
        metric=Metric("enqueued_total", "Messages that were sent."),
    ),
    "TotalDequeueCount": long(
        "Messages acknowledged, expired or removed.",
        event="dequeued",
        metric=Metric("dequeued_total", "Messages that were acknowledged."),
    ),
    **RATES,
    "TotalConsumerCount": long(
        "Number of subscriptions.", event="consumers", metric=Metric("consumers", "Consumers.")
    ),
    "TotalProducerCount": long(
        "Producers with a destination.", event="producers", metric=Metric("producers", "Producers.")
    ),
    "TotalMessageCount": long(
        "Messages in all queues.",
        event="messages",
        metric=Metric("messages", "Messages in all destinations."),
    ),
    **SIZES,
    **_usage("Memory", "memory", "the memory for messages", "Memory", "Memory for messages."),
    **_usage(
        "Store", "store", "the message store", "Store", "Disk space of the store; 0: no limit."
    ),
    **_usage(
        "Temp", "temp", "the temp store", "Temporary store", "Disk space of the temporary store."
    ),
    **_usage("JobSchedulerStore", "job_scheduler", "the job store", "Store of scheduled messages"),
    "Persistent": boolean("Whether the broker has a persistent store.", "persistent"),
    "Slave": boolean("Whether the broker is a slave, which waits for the store lock.", "slave"),
    "StatisticsEnabled": boolean("Always true.", always=True),
    "DataDirectory": string("The data directory."),
    "VMURL": string("vm:// URI for clients in the broker's process.", "vm_uri"),
    "JMSJobScheduler": object_name("Object name of the job scheduler's view; null: no scheduler."),
    "TransportConnectors": mapping("URIs by connector name."),
    "Queues": object_names("Object names of all queues."),
    "Topics": object_names("Object names of all topics."),
    "TemporaryQueues": object_names("Object names of all temporary queues."),
    "TemporaryTopics": object_names("Object names of all temporary topics."),
    "QueueSubscribers": object_names("Object names of queue consumers."),
    "TopicSubscribers": object_names("Object names of topic consumers."),
    "DurableTopicSubscribers": object_names("Object names of active durable subscriptions."),
    "InactiveDurableTopicSubscribers": object_names(
        "Object names of inactive durable subscriptions."
    ),
    "TemporaryQueueSubscribers": object_names("Object names of consumers of temporary queues."),
    "TemporaryTopicSubscribers": object_names("Object names of consumers of temporary topics."),
    "QueueProducers": object_names("Object names of producers of queues."),
    "TopicProducers": object_names("Object names of producers of topics."),
    "TemporaryQueueProducers": object_names("Object names of producers of temporary queues."),
    "TemporaryTopicProducers": object_names("Object names of producers of temporary topics."),
    "DynamicDestinationProducers": object_names("Object names of producers without a destination."),
}

RUNTIME_CONFIGURATION: Final[Table] = {
    "Url": string("The configuration file.", "origin"),
    "Modified": string("The time of the last applied changes; null: never."),
    "CheckPeriod": long("Milliseconds between two checks of the file; 0: no checks."),
    "Status": string(
        "The changes that the last update could not apply, or its error; empty: none.", "status"
    ),
}

HEALTH: Final[Table] = {
    "CurrentStatus": string('"Good", or all warnings as one text.'),
}

DESTINATION: Final[Table] = {
    "Name": string("The destination's name.", "destination.physical_name", label="Name"),
    "QueueSize": long(
        "Messages in the queue, including those in flight; topics: 0.",
        "statistics.messages",
        label="Pending",
        event="size",
        metric=Metric("messages", "Messages in the queue, in flight or not."),
    ),
    "EnqueueCount": long(
        "Messages enqueued.",
        "statistics.enqueues",
        label="Enqueued",
        event="enqueued",
        metric=Metric("enqueued_total", "Messages that were sent to it."),
    ),
    "DequeueCount": long(
        "Messages acknowledged, expired or removed.",
        "statistics.dequeues",
        label="Dequeued",
        event="dequeued",
        metric=Metric("dequeued_total", "Messages that were acknowledged."),
    ),
    **RATES,
    "DispatchCount": long(
        "Messages dispatched to consumers.",
        "statistics.dispatched",
        label="Dispatched",
        metric=Metric("dispatched_total", "Messages that went to consumers."),
    ),
    "InFlightCount": long(
        "Messages that are dispatched but not acknowledged.",
        "statistics.inflight",
        label="In flight",
        event="in_flight",
        metric=Metric("in_flight", "Messages that consumers have."),
    ),
    "ExpiredCount": long(
        "Expired messages.",
        "statistics.expired",
        label="Expired",
        metric=Metric("expired_total", "Messages that have expired."),
    ),
    "ForwardCount": long("Always 0.", always=0),
    "ConsumerCount": long(
        "Number of subscriptions.",
        "statistics.consumers",
        label="Consumers",
        event="consumers",
        metric=Metric("consumers", "Consumers."),
    ),
    "ProducerCount": long(
        "Number of producers.",
        "statistics.producers",
        label="Producers",
        event="producers",
        metric=Metric("producers", "Producers."),
    ),
    "DuplicateFromStoreCount": long("Always 0.", always=0),
    "StoreMessageSize": long("Total size of the messages in the store, in bytes.", unit="bytes"),
    "AverageEnqueueTime": double(
        "Average time from arrival to first dispatch, in ms.", "statistics.average_time", unit="ms"
    ),
    "MaxEnqueueTime": long(
        "Longest time from arrival to first dispatch, in ms.",
        "statistics.max_time",
        unit="ms",
        metric=Metric(
            "enqueue_time_max_seconds",
            "Longest time from a message's arrival to its first dispatch.",
        ),
    ),
    "MinEnqueueTime": long("Shortest time from arrival to first dispatch, in ms."),
    **SIZES,
    "MemoryPercentUsage": integer("Percentage of MemoryLimit in use.", label="Memory %", unit="%"),
    "MemoryUsageByteCount": long(
        "Total size of the messages in memory, in bytes.",
        "memory.used",
        unit="bytes",
        metric=Metric("memory_bytes", "Memory of its messages."),
    ),
    "MemoryLimit": long(
        "Memory limit in bytes: the broker's if it has none of its own; 0: unlimited.",
        unit="bytes",
    ),
    "MemoryUsagePortion": Attribute(FLOAT, "Always 1.", always=1.0),
    "TempUsageLimit": long("Limit of the temp store, in bytes.", "temp_usage.limit"),
    "TempUsagePercentUsage": integer(
        "Percentage of the temp store's limit in use.", "temp_usage.percent"
    ),
    "BlockedSends": long(
        "Sends that had to wait for space.",
        "statistics.blocked_sends",
        metric=Metric("blocked_sends_total", "Sends that waited for space."),
    ),
    "AverageBlockedTime": double("Average time that blocked sends have waited for space, in ms."),
    "TotalBlockedTime": long("Total time that sends have waited for space, in ms.", unit="ms"),
    "ProducerFlowControl": boolean(
        "Whether producers are held back when memory, store or temp space is full.",
        "policy.producer_flow_control",
        label="Producer flow control",
    ),
    "AlwaysRetroactive": boolean(
        "Whether every topic consumer is retroactive.", "policy.always_retroactive"
    ),
    "BlockedProducerWarningInterval": long(
        "Minimum time between two warnings about blocked producers, in ms."
    ),
    "MaxProducersToAudit": integer(
        "Number of producers in the duplicate audit.", "policy.max_producers_to_audit"
    ),
    "MaxAuditDepth": integer(
        "Number of message ids per producer in the duplicate audit.", "policy.max_audit_depth"
    ),
    "MaxPageSize": integer(
        "Maximum number of messages paged in at a time.", "policy.max_page_size"
    ),
    "UseCache": boolean("Whether stored messages are cached in memory.", "policy.use_cache"),
    "PrioritizedMessages": boolean(
        "Whether messages are ordered by priority.",
        "policy.prioritized_messages",
        label="Priorities",
    ),
    "Options": string("Always empty.", always=""),
    "DLQ": boolean("Whether the destination is a dead-letter queue.", "is_dead_letter_queue"),
    "SendDuplicateFromStoreToDLQ": boolean("Always false.", always=False),
    "Subscriptions": object_names("Object names of the consumers."),
    "SlowConsumerStrategy": object_name("Object name of the slow consumer strategy; null: none."),
}

QUEUE: Final[Table] = {
    **DESTINATION,
    **CURSOR,
    **OLDEST,
    "CacheEnabled": boolean("Whether all waiting messages are in memory."),
    "MessageGroups": mapping("The consumer of each message group."),
    "MessageGroupType": string(
        "The type of the message group map.", "policy.message_group_map_factory_type"
    ),
    "Paused": boolean("Whether dispatching is paused.", "dispatcher.is_paused"),
}

DSTAT: Final[Mapping[str, str]] = {
    "QueueSize": "Queue Size",
    "ProducerCount": "Producer #",
    "ConsumerCount": "Consumer #",
    "EnqueueCount": "Enqueue #",
    "DequeueCount": "Dequeue #",
    "ForwardCount": "Forward #",
    "MemoryPercentUsage": "Memory %",
    "InFlightCount": "Inflight #",
}
"""The columns of ActiveMQ's `dstat`, with its titles; InFlightCount only for queues."""

SUBSCRIPTION: Final[Table] = {
    "ClientId": string("The client id.", label="Client ID"),
    "ConnectionId": string("The connection's id."),
    "SessionId": long("The session's number."),
    "SubscriptionId": long("The consumer's number in its session."),
    "DestinationName": string("The destination.", "requested.physical_name"),
    "DestinationQueue": boolean("Whether the destination is a queue.", "requested.is_queue"),
    "DestinationTopic": boolean("Whether the destination is a topic.", "requested.is_topic"),
    "DestinationTemporary": boolean(
        "Whether the destination is temporary.", "requested.is_temporary"
    ),
    "Selector": string("The selector.", "info.selector", label="Selector"),
    "Active": boolean("Whether the subscription has a consumer."),
    "Network": boolean("Whether the consumer is a network bridge.", "info.network_subscription"),
    "PendingQueueSize": integer(
        "Messages that wait for dispatch to the consumer.", "pending_count", label="Pending"
    ),
    "DispatchedQueueSize": integer(
        "Messages that are dispatched but not acknowledged.", "in_flight", label="In flight"
    ),
    "MessageCountAwaitingAcknowledge": integer("The same as DispatchedQueueSize.", "in_flight"),
    "DispatchedCounter": long(
        "Messages dispatched to the consumer.", "dispatched_count", label="Dispatched"
    ),
    "EnqueueCounter": long(
        "Messages that matched the subscription.", "enqueue_count", label="Enqueued"
    ),
    "DequeueCounter": long("Acknowledged messages.", "dequeue_count", label="Dequeued"),
    "ConsumedCount": long("The same as DequeueCounter.", "dequeue_count"),
    "PrefetchSize": integer("The consumer's prefetch.", "prefetch_size", label="Prefetch"),
    "Credit": integer(
        "Messages that a consumer without prefetch has asked for: the credit of an AMQP link, or"
        " one for a pull.",
        "credit",
        label="Credit",
    ),
    "SettleMode": string(
        "How messages are settled on a link of AMQP: settled (acknowledged when they are written),"
        " unsettled or mixed; null: the client speaks another protocol.",
        label="Settle mode",
    ),
    "MaximumPendingMessageLimit": integer(
        "Maximum number of waiting messages that the client requested; 0: as in the policy.",
        "info.maximum_pending_message_limit",
    ),
    "Retroactive": boolean("Whether the consumer is retroactive.", "info.retroactive"),
    "Exclusive": boolean("Whether it is the queue's exclusive consumer.", "info.exclusive"),
    "Durable": boolean("Whether it is a durable subscription."),
    "NoLocal": boolean(
        "Whether messages of the consumer's own connection are excluded.", "info.no_local"
    ),
    "DispatchAsync": boolean(
        "Whether the client requested asynchronous dispatch.", "info.dispatch_async"
    ),
    "Priority": Attribute(BYTE, "The consumer's priority.", "info.priority"),
    "SlowConsumer": boolean(
        "Whether messages wait because the consumer cannot keep up.", "is_slow", label="Slow"
    ),
    "SubscriptionName": string("The durable subscription's name.", "info.subscription_name"),
    "UserName": string("The login name.", "context.user_name"),
    "Connection": object_name("Object name of the connection's view."),
}

DURABLE: Final[Table] = {**SUBSCRIPTION, **CURSOR, **OLDEST}
TOPIC_SUBSCRIPTION: Final[Table] = {
    **SUBSCRIPTION,
    "DiscardedCount": integer(
        "Messages evicted because the limit of waiting messages was reached.", "discarded_count"
    ),
    "MaximumPendingQueueSize": integer("Maximum number of waiting messages; -1: no limit."),
}

SLOW_CONSUMERS: Final[Table] = {
    "CheckPeriod": long("Time between checks, in ms."),
    "MaxSlowCount": long(
        "Number of times that a consumer may become slow before it is aborted; -1: no limit.",
        "strategy.max_slow_count",
    ),
    "MaxSlowDuration": long(
        "Time that a consumer may be slow before it is aborted (0: no limit), in ms."
    ),
    "SlowConsumers": rows(
        "The slow consumers, with the number of times that each became slow, and of checks that "
        "found it slow."
    ),
}

SLOW_ACK_CONSUMERS: Final[Table] = {
    **SLOW_CONSUMERS,
    "MaxTimeSinceLastAck": long(
        "Time without an acknowledgement before a consumer is aborted, in ms."
    ),
    "IgnoreIdleConsumers": boolean(
        "Whether consumers without messages in flight are never slow.",
        "strategy.ignore_idle_consumers",
    ),
    "IgnoreNetworkConsumers": boolean(
        "Whether consumers of network bridges are never aborted.",
        "strategy.ignore_network_consumers",
    ),
}

CONNECTOR: Final[Table] = {
    "Started": boolean("Whether the connector accepts clients."),
    "StatisticsEnabled": boolean("Always true.", always=True),
    "RebalanceClusterClients": boolean(
        "Whether failover clients are rebalanced across the brokers of the network.",
        "cluster.attributes.rebalance_cluster_clients",
    ),
    "UpdateClusterClients": boolean(
        "Whether failover clients are notified of brokers that join the network.",
        "cluster.attributes.update_cluster_clients",
    ),
    "UpdateClusterClientsOnRemove": boolean(
        "Whether failover clients are notified of brokers that leave the network.",
        "cluster.attributes.update_cluster_clients_on_remove",
    ),
    "UpdateClusterFilter": string(
        "Filter of the broker names announced to failover clients.",
        "cluster.attributes.update_cluster_filter",
    ),
    "AllowLinkStealingEnabled": boolean(
        "Whether a new connection may take over a client id in use.", "allow_link_stealing"
    ),
}

CONNECTION: Final[Table] = {
    "RemoteAddress": string("The client's address.", "transport.remote_address"),
    "ClientId": string("The client id.", "state.context.client_id"),
    "UserName": string("The login name.", "state.context.user_name"),
    "Active": boolean("Always true.", always=True),
    "Connected": boolean("Always true.", always=True),
    "Slow": boolean(
        "Whether the client reads more slowly than the broker sends.", "transport.congested"
    ),
    "Blocked": boolean("Whether a send waits for space."),
    "NetworkConnection": boolean(
        "Whether the connection is a network bridge.", "state.context.network_connection"
    ),
    "FaultTolerantConnection": boolean(
        "Whether the client uses failover.", "state.context.fault_tolerant"
    ),
    "ActiveTransactionCount": integer("Open local transactions."),
    "OldestActiveTransactionDuration": Attribute(
        "java.lang.Long", "Age of the oldest open transaction, in ms; null: none."
    ),
    "SessionCount": integer("Number of sessions."),
    "Protocol": string("The protocol that the client speaks.", "transport.protocol"),
    "CreationTime": long("When the client connected, in ms since 1970.", "state.began"),
    "SentCount": long("Messages that the client has sent."),
    "DispatchedCounter": long("Messages dispatched to the client."),
    "Consumers": object_names("Object names of the consumers."),
    "Producers": object_names("Object names of the producers."),
}

PRODUCER: Final[Table] = {
    "ProducerId": string("The producer's id."),
    "ClientId": string("The client id.", "context.client_id"),
    "ConnectionId": string("The connection's id.", "info.producer_id.connection_id"),
    "SessionId": long("The session's number.", "info.producer_id.session_id"),
    "DestinationName": string("The destination; null: any destination."),
    "DestinationQueue": boolean("Whether it sends to a queue."),
    "DestinationTopic": boolean("Whether it sends to a topic."),
    "DestinationTemporary": boolean("Whether it sends to a temporary destination."),
    "DispatchAsync": boolean(
        "Whether the client requested asynchronous dispatch.", "info.dispatch_async"
    ),
    "ProducerBlocked": boolean("Whether a send waits for space."),
    "TotalTimeBlocked": long("Total time that sends have waited for space, in ms."),
    "PercentageBlocked": integer("Percentage of sends that had to wait for space."),
    "SentCount": long("Messages sent.", "sent_count"),
    "ProducerWindowSize": integer(
        "Producer window in bytes; 0: no window.", "info.window_size", unit="bytes"
    ),
    "Credit": integer(
        "Messages that the client may send on a link of AMQP; null: another protocol.",
        label="Credit",
    ),
    "SettleMode": string(
        "How messages are settled on a link of AMQP: settled (not answered), unsettled or mixed;"
        " null: the client speaks another protocol.",
        label="Settle mode",
    ),
    "UserName": string("The login name.", "context.user_name"),
}

NETWORK_CONNECTOR: Final[Table] = {
    "Name": string("The connector's name.", "attributes.name"),
    "MessageTTL": integer(
        "Maximum number of brokers that a message may pass.", "attributes.messages_hops"
    ),
    "ConsumerTTL": integer(
        "Maximum number of brokers to a consumer; -1: no limit.", "attributes.consumers_hops"
    ),
    "PrefetchSize": integer("Prefetch of the bridges' consumers.", "attributes.prefetch_size"),
    "AdvisoryPrefetchSize": integer(
        "Prefetch of the bridges' advisory consumers; 0: PrefetchSize.",
        "attributes.advisory_prefetch_size",
    ),
    "ConduitSubscriptions": boolean(
        "Whether the remote consumers of a destination share one subscription.",
        "attributes.conduit_subscriptions",
    ),
    "BridgeTempDestinations": boolean(
        "Whether messages to temporary destinations are forwarded.",
        "attributes.bridge_temp_destinations",
    ),
    "DecreaseNetworkConsumerPriority": boolean(
        "Whether network consumers have lower priority than local ones.",
        "attributes.decrease_network_consumer_priority",
    ),
    "DispatchAsync": boolean(
        "Whether messages are dispatched asynchronously.", "attributes.dispatch_async"
    ),
    "DynamicOnly": boolean(
        "Whether durable subscriptions are forwarded only while they have a consumer.",
        "attributes.dynamic_only",
    ),
    "Duplex": boolean("Whether messages are forwarded in both directions.", "attributes.duplex"),
    "SuppressDuplicateQueueSubscriptions": boolean(
        "Whether only one path serves a consumer of a queue.",
        "attributes.suppress_duplicate_queue_subscriptions",
    ),
    "SuppressDuplicateTopicSubscriptions": boolean(
        "Whether only one path serves a consumer of a topic.",
        "attributes.suppress_duplicate_topic_subscriptions",
    ),
    "UserName": string("The user name of the bridges.", "attributes.user_name"),
    "RemoteUserName": string(
        "The user name at the remote broker; null: UserName.", "attributes.remote_user_name"
    ),
}

NETWORK_BRIDGE: Final[Table] = {
    "LocalAddress": string("The address at this broker.", "local_address"),
    "RemoteAddress": string("The address of the remote broker.", "remote_address"),
    "LocalBrokerName": string("The name of this broker."),
    "RemoteBrokerName": string("The name of the remote broker.", "remote_name"),
    "RemoteBrokerId": string("The id of the remote broker."),
    "EnqueueCounter": long("Messages received for forwarding.", "enqueue_count"),
    "DequeueCounter": long("Messages forwarded.", "dequeue_count"),
    "ReceivedCounter": long("Messages received from the remote broker.", "received_count"),
    "CreatedByDuplex": boolean(
        "Whether the bridge belongs to a duplex connector of the remote broker.",
        "created_by_duplex",
    ),
}

PERSISTENCE_ADAPTER: Final[Table] = {
    "Name": string("The kind and directory of the store."),
    "Size": long("Size on disk, in bytes.", "size"),
    "Data": string("The numbers of the journal's files."),
    "Transactions": string("The prepared transactions."),
    "Statistics": string("Always empty.", always="{}"),
}

MESSAGE_TRAIL: Final[Table] = {
    "Directory": string("Directory of the files."),
    "Size": long("Size of the files, in bytes.", unit="bytes"),
}

XA_TRANSACTION: Final[Table] = {
    "FormatId": integer("The format id of the Xid.", "format_id"),
    "GlobalTransactionId": octets("The global transaction id of the Xid."),
    "BranchQualifier": octets("The branch qualifier of the Xid."),
}

JOB_SCHEDULER: Final[Table] = {
    "AllJobs": rows("All jobs, ordered by time."),
    "NextScheduleJobs": rows("The jobs with the earliest due time."),
    "NextScheduleTime": string("The time at which the next job is due; empty: no jobs."),
    "DelayedMessageCount": integer("Number of jobs with a delay."),
    "ScheduledMessageCount": integer("Number of jobs."),
}

# the process, with Java's names

_MEMORY_USAGE: Final = "in bytes: init (0), used, committed (as used), and max"
PROCESS_MEMORY: Final[Table] = {
    "HeapMemoryUsage": composite(f"Memory of the process (RSS), {_MEMORY_USAGE}."),
    "NonHeapMemoryUsage": composite("Always 0: all of it is in HeapMemoryUsage."),
    "ObjectPendingFinalizationCount": integer("Always 0.", always=0),
}
PROCESS_THREADS: Final[Table] = {
    "ThreadCount": integer("Number of Python's threads."),
    "DaemonThreadCount": integer("Threads that do not keep the process alive."),
    "PeakThreadCount": integer("The most threads that were seen by readers of this attribute."),
    "TotalStartedThreadCount": long("At least so many were started: PeakThreadCount."),
}
OPERATING_SYSTEM: Final[Table] = {
    "Name": string("Name of the operating system."),
    "Version": string("Version of its kernel."),
    "Arch": string("The machine's architecture."),
    "AvailableProcessors": integer("Number of processors."),
    "SystemLoadAverage": double("Processes that ran or waited to, on average of a minute."),
    "SystemCpuLoad": double("Share of the processors in use since the last look; -1: unknown."),
    "ProcessCpuLoad": double("Share of all processors that the process used, in the same time."),
    "ProcessCpuTime": long("CPU time of the process, in ns."),
    "TotalPhysicalMemorySize": long("Memory of the machine, in bytes.", unit="bytes"),
    "FreePhysicalMemorySize": long("Free memory of the machine, in bytes.", unit="bytes"),
    "OpenFileDescriptorCount": long("Open file handles; -1: unknown."),
    "MaxFileDescriptorCount": long("The limit of open file handles; -1: unlimited."),
}
PROCESS_RUNTIME: Final[Table] = {
    "Name": string("The process's number and host."),
    "Pid": long("The process's number."),
    "Uptime": long("Time since the broker's start, in ms.", unit="ms"),
    "StartTime": long("The time of the broker's start, in ms since 1970."),
    "VmName": string("The kind of Python."),
    "VmVersion": string("The version of Python."),
}
GARBAGE_COLLECTOR: Final[Table] = {
    "Name": string("The generation's name."),
    "CollectionCount": long("Number of its collections."),
    "CollectionTime": long("Always -1, unknown.", always=-1),
}
MEMORY_POOL: Final[Table] = {
    "Usage": composite(f"Memory of the process (RSS), {_MEMORY_USAGE}."),
    "PeakUsage": composite("The same when it was highest."),
    "CollectionUsage": composite("Always null, unknown."),
}
