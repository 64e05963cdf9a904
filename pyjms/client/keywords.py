"""The keyword arguments of connection factories, for type checkers.

Only type checkers import this module: to create the classes takes longer than to read most URLs.
"""

from __future__ import annotations

from typing import TypedDict

from pyjms.client.policies import (
    BlobTransferPolicy,
    PrefetchPolicy,
    RedeliveryPolicy,
    RedeliveryPolicyMap,
)


class ClientKeywords(TypedDict, total=False):
    """The options as keywords, described by `ClientOptions`."""

    client_id: str | None
    client_id_prefix: str | None
    connection_id_prefix: str | None
    always_session_async: bool
    always_sync_send: bool
    use_async_send: bool
    send_timeout: float | None
    close_timeout: float | None
    connect_response_timeout: float | None
    copy_message_on_send: bool
    disable_time_stamps_by_default: bool
    nested_map_and_list_enabled: bool
    use_compression: bool
    producer_window_size: int
    watch_topic_advisories: bool
    check_for_duplicates: bool
    audit_depth: int
    audit_maximum_producer_number: int
    consumer_expiry_check_enabled: bool
    consumer_failover_redelivery_wait_period: float
    dispatch_async: bool
    exclusive_consumer: bool
    max_inflated_data_size_ratio: int
    use_retroactive_consumer: bool
    message_priority_supported: bool
    non_blocking_redelivery: bool
    optimize_acknowledge: bool
    optimize_acknowledge_time_out: float
    optimized_ack_scheduled_ack_interval: float
    optimized_message_dispatch: bool
    rm_id_from_connection_id: bool
    send_acks_async: bool
    stats_enabled: bool
    transacted_individual_ack: bool
    warn_about_unstarted_connection_timeout: float
    blob_transfer_policy: BlobTransferPolicy
    prefetch_policy: PrefetchPolicy
    redelivery_policy_map: RedeliveryPolicyMap


class ConnectionFactoryKeywords(ClientKeywords, total=False):
    """The keyword arguments of connection factories, described by `ConnectionFactory`."""

    user_name: str | None
    password: str | None
    user: str | None
    redelivery_policy: RedeliveryPolicy | None
