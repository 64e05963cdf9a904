"""Each key of broker.yaml has a test of its effect: this table names it.

The tests of an effect lie beside what they test and take the objects that the settings build; that
the keys have the names, defaults and values of these objects is tested in `test_broker_settings`
and `test_persistence_settings`. A new key needs an entry here. `type` selects a model, and has its
tests there too.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from pydantic import BaseModel

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import JMSException, RemoteProtocolError
from pyjms.testing.clock import VirtualClock
from pyjms.wire.limits import UnfinishedFrame
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import BrokerSettings, load_broker_settings

TESTS: Final = Path(__file__).parents[2]
OWN: Final = "unit/settings/test_broker_setting_effects.py"
SAME_AS: Final = {
    "FilteredKahaDBSection": "KahaDBPersistenceSettings",
    "JournaledJDBCPersistenceSettings": "JDBCPersistenceSettings",
}
"""Models that inherit keys, with their effect, from another one."""

SHOWN: Final = {
    # BrokerSettings
    "BrokerSettings.maximum_destinations": (f"{OWN}::test_destinations_are_limited_by_the_file"),
    "BrokerSettings.unfinished_frames_limit": (
        "adversarial/test_unfinished_frames.py::test_unfinished_frames_share_a_limited_memory"
    ),
    "BrokerSettings.frame_read_timeout": (f"{OWN}::test_slow_frames_make_room_after_their_time"),
    "BrokerSettings.unsent_frames_limit": (
        "adversarial/test_unread_messages.py::test_nobody_waits_for_those_who_do_not_read"
    ),
    "BrokerSettings.frame_write_timeout": (
        "adversarial/test_unread_messages.py::test_nobody_waits_for_those_who_do_not_read"
    ),
    "BrokerSettings.client_memory_limit": (
        "integration/broker/limits/test_client_memory.py::test_consumers_of_one_connection"
    ),
    "BrokerSettings.maximum_selector_nodes": (
        "integration/broker/limits/test_client_memory.py::test_a_selector_of_too_many_parts_takes_nothing"
    ),
    "BrokerSettings.maximum_selector_depth": (
        "integration/broker/configuration/test_key_effects.py::test_a_selector_that_nests_too_deeply_is_refused"
    ),
    "BrokerSettings.maximum_selector_steps": (
        "integration/broker/configuration/test_key_effects.py::test_a_selector_that_costs_too_much_takes_nothing"
    ),
    "BrokerSettings.maximum_selector_steps_per_second": (
        "integration/broker/configuration/test_key_effects.py::test_costly_selectors_together_are_closed"
    ),
    "BrokerSettings.maximum_selector_characters": (
        "integration/broker/configuration/test_key_effects.py::test_a_selector_that_costs_too_much_takes_nothing"
    ),
    "BrokerSettings.broker_name": (f"{OWN}::test_destinations_are_limited_by_the_file"),
    "BrokerSettings.persistent": (
        "integration/broker/configuration/test_key_effects.py::test_messages_survive_a_restart_of_a_persistent_broker"
    ),
    "BrokerSettings.data_directory": (
        "integration/broker/configuration/test_key_effects.py::test_messages_survive_a_restart_of_a_persistent_broker"
    ),
    "BrokerSettings.delete_all_messages_on_startup": (
        "integration/broker/scheduler/test_store.py::test_an_empty_store_keeps_the_jobs"
    ),
    "BrokerSettings.advisory_support": (
        "integration/broker/configuration/test_key_effects.py::test_advisories"
    ),
    "BrokerSettings.anonymous_producer_advisory_support": (
        "integration/broker/test_advisories.py::test_producers_without_a_destination_are_announced_on_demand"
    ),
    "BrokerSettings.use_virtual_dest_subs": (
        "integration/broker/test_virtual_destinations.py::test_queues_that_are_fed_are_reported_when_they_are_created"
    ),
    "BrokerSettings.use_virtual_dest_subs_on_creation": (
        "integration/broker/test_virtual_destinations.py::test_queues_that_are_fed_are_reported_when_they_are_created"
    ),
    "BrokerSettings.use_virtual_topics": (
        "integration/broker/test_virtual_destinations.py::test_given_virtual_destinations_replace_the_default"
    ),
    "BrokerSettings.use_mirrored_queues": (
        "integration/broker/test_virtual_destinations.py::test_mirrored_queues_feed_their_topics_first"
    ),
    "BrokerSettings.use_temp_mirrored_queues": (
        "integration/broker/test_virtual_destinations.py::test_mirrored_queues_feed_their_topics_first"
    ),
    "BrokerSettings.populate_jmsx_user_id": (
        "integration/broker/configuration/test_key_effects.py::test_the_user_is_in_the_message"
    ),
    "BrokerSettings.use_authenticated_principal_for_jmsx_user_id": (
        "integration/security/test_authentication.py::test_messages_name_the_login_or_the_authenticated_user"
    ),
    "BrokerSettings.enable_message_expiration_on_active_durable_subs": (
        "integration/broker/configuration/test_key_effects.py::test_messages_of_active_durable_subscriptions_expire"
    ),
    "BrokerSettings.allow_temp_auto_creation_on_send": (
        "integration/broker/limits/test_destination_limits.py::test_temporary_destinations_are_swept_only_if_sends_create_them"
    ),
    "BrokerSettings.maximum_destinations_per_connection": (
        "integration/broker/limits/test_destination_limits.py::test_a_connection_creates_only_so_many_destinations"
    ),
    "BrokerSettings.maximum_destinations_per_user": (
        "integration/broker/limits/test_destination_limits.py::test_a_user_creates_only_so_many_destinations"
    ),
    "BrokerSettings.split_system_usage_for_producers_consumers": (
        "integration/broker/configuration/test_key_effects.py::test_memory_divided_between_producers_and_consumers"
    ),
    "BrokerSettings.producer_system_usage_portion": (
        "integration/broker/configuration/test_key_effects.py::test_memory_divided_between_producers_and_consumers"
    ),
    "BrokerSettings.consumer_system_usage_portion": (
        "integration/broker/configuration/test_key_effects.py::test_memory_divided_between_producers_and_consumers"
    ),
    "BrokerSettings.keep_durable_subs_active": (
        "integration/broker/configuration/test_key_effects.py::test_messages_of_offline_subscriptions"
    ),
    "BrokerSettings.reject_durable_consumers": (
        "integration/broker/configuration/test_key_effects.py::test_durable_consumers_may_be_refused"
    ),
    "BrokerSettings.monitor_connection_splits": (
        "integration/network/test_options.py::test_a_consumer_that_moves_here_ends_its_subscription"
    ),
    "ConnectorSettings.enable_status_monitor": (
        "integration/broker/configuration/test_key_effects.py::test_the_monitor_of_blocked_clients"
    ),
    "ConnectorSettings.maximum_producers_allowed_per_connection": (
        "integration/broker/configuration/test_key_effects.py::test_the_number_of_a_connections_clients_is_limited"
    ),
    "ConnectorSettings.maximum_consumers_allowed_per_connection": (
        "integration/broker/configuration/test_key_effects.py::test_the_number_of_a_connections_clients_is_limited"
    ),
    "BrokerSettings.offline_durable_subscriber_timeout": (
        "integration/broker/configuration/test_key_effects.py::test_offline_durable_subscriptions_are_removed"
    ),
    "BrokerSettings.offline_durable_subscriber_task_schedule": (
        "integration/broker/configuration/test_key_effects.py::test_offline_durable_subscriptions_are_removed"
    ),
    "BrokerSettings.schedule_period_for_destination_purge": (
        "integration/broker/limits/test_destination_limits.py::test_nothing_is_removed_unless_broker_and_policy_say_so"
    ),
    "BrokerSettings.max_purged_destinations_per_sweep": (
        "integration/broker/limits/test_destination_limits.py::test_a_sweep_removes_at_most_its_maximum"
    ),
    "BrokerSettings.connection_info_timeout": (
        "adversarial/test_accepted_sockets.py::test_a_negotiated_client_without_keep_alives_has_to_identify_itself"
    ),
    "BrokerSettings.allow_anonymous_remote": (
        "integration/broker/configuration/test_exposed_connectors.py::test_other_machines_connect_without_users_only_if_that_is_set"
    ),
    "BrokerSettings.reserved_file_handles": (
        "integration/broker/limits/test_file_handles.py::test_silent_clients_leave_the_store_its_file_handles"
    ),
    "BrokerSettings.rollback_only_on_async_exception": (
        "unit/connector/test_connection.py::test_a_oneway_failure_spoils_its_transaction"
    ),
    "BrokerSettings.restart_allowed": (
        "unit/service/test_life_cycle.py::test_a_restart_is_a_new_broker_unless_forbidden"
    ),
    "BrokerSettings.scheduler_support": (
        "integration/broker/configuration/test_key_effects.py::test_delays_need_the_scheduler"
    ),
    "BrokerSettings.max_scheduler_repeat_allowed": (
        "integration/broker/scheduler/test_schedules.py::test_too_many_repetitions_are_refused"
    ),
    "BrokerSettings.scheduler_directory": (
        "integration/broker/configuration/test_key_effects.py::test_the_jobs_have_their_directory"
    ),
    "BrokerSettings.system_usage": (
        "integration/broker/configuration/test_key_effects.py::test_a_full_broker_refuses_messages"
    ),
    "BrokerSettings.persistence": (
        "unit/settings/test_persistence_settings.py::test_each_store_has_a_directory_below_the_brokers"
    ),
    "BrokerSettings.io_exception_handler": (
        "unit/service/test_store.py::test_the_broker_may_continue_without_its_store"
    ),
    "BrokerSettings.plugins": (
        "integration/broker/test_missing_completions.py::test_a_filter_that_forgets_a_return_is_named"
    ),
    "BrokerSettings.connectors": (
        "integration/broker/configuration/test_configuration.py::test_the_file_says_what_the_broker_does"
    ),
    "BrokerSettings.destinations": (
        "integration/broker/configuration/test_configuration.py::test_the_file_says_what_the_broker_does"
    ),
    "BrokerSettings.policies": (
        "integration/broker/limits/test_slow_consumers.py::test_a_strategy_of_ones_own"
    ),
    "BrokerSettings.virtual_destinations": (
        "integration/broker/configuration/test_configuration.py::test_the_file_says_what_the_broker_does"
    ),
    "BrokerSettings.adjust_usage_limits": (
        "unit/service/test_usage_limits.py::test_a_limit_above_the_available_space"
    ),
    # SystemUsageSettings
    "SystemUsageSettings.memory_limit": (
        "integration/broker/configuration/test_key_effects.py::test_a_full_broker_refuses_messages"
    ),
    "SystemUsageSettings.store_limit": (
        "unit/region/flow/test_spooling.py::test_a_closed_connection_ends_its_waits"
    ),
    "SystemUsageSettings.temp_limit": (
        "unit/region/flow/test_spooling.py::test_freed_space_of_the_temp_store_admits_sends"
    ),
    "SystemUsageSettings.job_scheduler_limit": (
        "integration/broker/scheduler/test_failures.py::test_a_cron_entry_starts_no_jobs_above_the_store_limit"
    ),
    "SystemUsageSettings.send_fail_if_no_space": (
        "unit/region/flow/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    "SystemUsageSettings.send_fail_if_no_space_after_timeout": (
        "integration/broker/configuration/test_key_effects.py::test_a_full_broker_refuses_messages"
    ),
    # KahaDBPersistenceSettings
    "KahaDBPersistenceSettings.journal": (
        "unit/store/kahadb/test_cleanup.py::test_segments_can_be_archived"
    ),
    "KahaDBPersistenceSettings.index_directory": (
        "unit/store/kahadb/test_adapter.py::test_an_index_has_its_own_directory_if_wanted"
    ),
    "KahaDBPersistenceSettings.checkpoint_interval": (
        "unit/store/kahadb/test_maintenance.py::test_checkpoints_and_cleanups_come_by_themselves"
    ),
    "KahaDBPersistenceSettings.cleanup_interval": (
        "unit/store/kahadb/test_maintenance.py::test_checkpoints_and_cleanups_come_by_themselves"
    ),
    "KahaDBPersistenceSettings.cleanup_on_stop": (
        "unit/store/kahadb/test_maintenance.py::test_without_intervals_nothing_comes_before_the_stop"
    ),
    "KahaDBPersistenceSettings.concurrent_store_and_dispatch_queues": (
        "unit/region/queue/test_consumed_before_written.py::test_without_concurrent_store_and_dispatch_all_is_written"
    ),
    "KahaDBPersistenceSettings.concurrent_store_and_dispatch_topics": (
        "unit/region/topic/test_durable_backlog.py::test_a_sender_without_a_response_does_not_wait_for_the_store"
    ),
    "KahaDBPersistenceSettings.force_recover_index": (
        "unit/store/kahadb/test_recovery.py::test_a_good_index_is_used_unless_it_shall_not_be"
    ),
    "KahaDBPersistenceSettings.archive_corrupted_index": (
        "unit/store/kahadb/test_recovery.py::test_a_corrupted_index_can_be_kept"
    ),
    "KahaDBPersistenceSettings.ignore_missing_journalfiles": (
        "unit/store/kahadb/test_recovery.py::test_corrupt_segments_are_found_when_looked_for"
    ),
    "KahaDBPersistenceSettings.purge_recovered_xa_transaction_strategy": (
        "unit/store/kahadb/test_adapter.py::test_prepared_transactions_can_be_ended_at_the_start"
    ),
    "KahaDBPersistenceSettings.enable_ack_compaction": (
        "unit/store/kahadb/test_cleanup.py::test_compaction_can_be_forbidden"
    ),
    "KahaDBPersistenceSettings.compact_acks_after_no_gc": (
        "unit/store/kahadb/test_setting_effects.py::test_acknowledgements_are_moved_after_idle_cleanups"
    ),
    "KahaDBPersistenceSettings.compact_acks_ignores_store_growth": (
        "unit/store/kahadb/test_setting_effects.py::test_acknowledgements_are_moved_after_idle_cleanups"
    ),
    "KahaDBPersistenceSettings.use_lock": (
        "unit/store/kahadb/test_setting_effects.py::test_only_a_lock_keeps_others_out"
    ),
    "KahaDBPersistenceSettings.lock_acquire_sleep_interval": (
        "unit/store/kahadb/test_setting_effects.py::test_a_slave_tries_again_after_the_interval"
    ),
    "KahaDBPersistenceSettings.fail_if_locked": (
        "unit/store/kahadb/test_adapter.py::test_one_directory_has_one_holder"
    ),
    "KahaDBPersistenceSettings.lock_keep_alive_period": (
        "unit/store/kahadb/test_maintenance.py::test_the_loss_of_the_lock_is_reported"
    ),
    "KahaDBPersistenceSettings.directory": (
        "unit/settings/test_persistence_settings.py::test_the_store_directory_can_be_configured"
    ),
    "KahaDBPersistenceSettings.max_failover_producers_to_track": (
        "unit/store/kahadb/test_setting_effects.py::test_the_last_producers_are_known"
    ),
    "KahaDBPersistenceSettings.store_open_wire_version": (
        "unit/store/kahadb/test_setting_effects.py::test_messages_are_written_in_the_version_of_openwire"
    ),
    # JournalSection
    "JournalSection.max_file_length": (
        "unit/store/journal/test_journal.py::test_segments_are_numbered_from_one_and_preallocated"
    ),
    "JournalSection.max_write_batch_size": (
        "unit/store/journal/test_journal.py::test_batches_end_at_their_limit_or_the_segments_and_one_sync_serves_a_batch"
    ),
    "JournalSection.disk_sync_strategy": (
        "unit/store/journal/test_journal.py::test_batches_end_at_their_limit_or_the_segments_and_one_sync_serves_a_batch"
    ),
    "JournalSection.disk_sync_interval": (
        "unit/store/journal/test_journal.py::test_batches_end_at_their_limit_or_the_segments_and_one_sync_serves_a_batch"
    ),
    "JournalSection.preallocation_strategy": (
        "unit/store/journal/test_setting_effects.py::test_how_segments_are_preallocated"
    ),
    "JournalSection.preallocation_scope": (
        "unit/store/journal/test_journal.py::test_without_preallocation_segments_grow"
    ),
    "JournalSection.checksum": (
        "unit/store/journal/test_setting_effects.py::test_a_checksum_finds_a_wrong_byte"
    ),
    "JournalSection.check_for_corrupt_journal_files": (
        "unit/store/journal/test_crash.py::test_checking_for_corruption_keeps_what_follows_damage"
    ),
    "JournalSection.verify_checksums_at_reading": (
        "unit/store/journal/test_batch_checks.py::test_checks_can_be_switched_off"
    ),
    "JournalSection.archive_data_logs": (
        "unit/store/journal/test_journal.py::test_a_removal_that_was_not_synced_is_done_again"
    ),
    "JournalSection.directory_archive": (
        "unit/store/kahadb/test_cleanup.py::test_segments_can_be_archived"
    ),
    "JournalSection.max_async_jobs": (
        "unit/store/journal/test_journal.py::test_too_much_that_waits_is_congestion"
    ),
    "JournalSection.max_waiting_bytes": (
        "unit/store/journal/test_journal.py::test_too_much_that_waits_is_congestion"
    ),
    "JournalSection.resume_check_sleep_period": (
        "unit/store/journal/test_setting_effects.py::test_a_full_disk_is_tried_again_after_the_period"
    ),
    "JournalSection.ignore_no_space_errors": (
        "unit/store/journal/test_failures.py::test_a_full_disk_is_a_permanent_error_if_configured"
    ),
    # MultiKahaDBPersistenceSettings
    "MultiKahaDBPersistenceSettings.directory": (
        "unit/settings/test_persistence_settings.py::test_the_store_directory_can_be_configured"
    ),
    "MultiKahaDBPersistenceSettings.cleanup_interval": (
        "unit/store/multi/test_multi_kahadb.py::test_failed_maintenance_is_retried"
    ),
    "MultiKahaDBPersistenceSettings.use_lock": (
        "unit/store/multi/test_setting_effects.py::test_only_a_lock_keeps_others_out"
    ),
    "MultiKahaDBPersistenceSettings.fail_if_locked": (
        "unit/store/multi/test_multi_kahadb.py::test_one_lock_for_all"
    ),
    "MultiKahaDBPersistenceSettings.filtered_kahadb": (
        "unit/settings/test_persistence_settings.py::test_each_destination_lies_in_the_store_of_its_filter"
    ),
    "MultiKahaDBPersistenceSettings.lock_acquire_sleep_interval": (
        "unit/store/multi/test_setting_effects.py::test_a_slave_tries_again_after_the_interval"
    ),
    "MultiKahaDBPersistenceSettings.lock_keep_alive_period": (
        "unit/store/multi/test_setting_effects.py::test_the_lock_is_checked_each_period"
    ),
    "MultiKahaDBPersistenceSettings.transaction_journal": (
        "unit/store/multi/test_multi_kahadb.py::test_decisions_that_are_no_longer_needed_are_deleted"
    ),
    # FilteredKahaDBSection
    "FilteredKahaDBSection.queue": (
        "unit/store/multi/test_filters.py::test_the_most_specific_filter_wins"
    ),
    "FilteredKahaDBSection.topic": (
        "unit/store/multi/test_filters.py::test_the_most_specific_filter_wins"
    ),
    "FilteredKahaDBSection.per_destination": (
        "unit/settings/test_persistence_settings.py::test_each_destination_lies_in_the_store_of_its_filter"
    ),
    "FilteredKahaDBSection.store_limit": (
        "unit/store/multi/test_multi_kahadb.py::test_each_destination_lies_where_its_filter_says"
    ),
    # JDBCPersistenceSettings
    "JDBCPersistenceSettings.data_source": (
        "unit/store/jdbc/test_setting_effects.py::test_the_database_is_that_of_the_data_source"
    ),
    "JDBCPersistenceSettings.statements": (
        "unit/store/jdbc/test_tables.py::test_one_row_locks_and_ids_rise"
    ),
    "JDBCPersistenceSettings.create_tables_on_startup": (
        "unit/store/jdbc/test_tables.py::test_tables_need_not_be_made"
    ),
    "JDBCPersistenceSettings.max_rows": (
        "unit/store/jdbc/test_setting_effects.py::test_a_statement_reads_so_many_rows"
    ),
    "JDBCPersistenceSettings.enable_audit": (
        "unit/store/jdbc/test_audit.py::test_a_store_with_an_audit_knows_what_was_removed"
    ),
    "JDBCPersistenceSettings.max_producers_to_audit": (
        "unit/store/jdbc/test_bounds.py::test_producers_that_are_silent_are_forgotten"
    ),
    "JDBCPersistenceSettings.audit_recovery_depth": (
        "unit/store/jdbc/test_audit.py::test_a_store_with_an_audit_knows_what_was_removed"
    ),
    "JDBCPersistenceSettings.query_timeout": (
        "integration/postgresql/test_jdbc_store.py::test_statements_that_take_too_long"
    ),
    "JDBCPersistenceSettings.network_timeout": (
        "unit/store/jdbc/test_setting_effects.py::test_a_database_has_its_time_to_answer"
    ),
    "JDBCPersistenceSettings.transaction_isolation": (
        "integration/postgresql/test_jdbc_store.py::test_statements_that_take_too_long"
    ),
    "JDBCPersistenceSettings.use_lock": (
        "unit/store/jdbc/test_failures.py::test_two_who_write_are_one_too_many"
    ),
    "JDBCPersistenceSettings.locker": (
        "unit/store/jdbc/test_tables.py::test_one_row_locks_and_ids_rise"
    ),
    "JDBCPersistenceSettings.lock_keep_alive_period": (
        "unit/store/jdbc/test_lockers.py::test_a_broker_that_lost_its_lease_stops_and_requests_a_restart"
    ),
    "JDBCPersistenceSettings.lock_acquire_sleep_interval": (
        "unit/store/jdbc/test_setting_effects.py::test_a_slave_tries_again_after_the_interval"
    ),
    "JDBCPersistenceSettings.fail_if_locked": (
        "unit/store/jdbc/test_lockers.py::test_a_slave_that_need_not_wait"
    ),
    "JDBCPersistenceSettings.max_allowable_diff_from_db_time": (
        "unit/store/jdbc/test_lockers.py::test_a_clock_that_is_wrong_is_not_used"
    ),
    "JDBCPersistenceSettings.ignore_sql_exceptions": (
        "unit/store/jdbc/test_failures.py::test_a_store_that_may_not_wait_fails"
    ),
    "JDBCPersistenceSettings.resume_check_sleep_period": (
        "unit/store/jdbc/test_setting_effects.py::test_a_database_is_tried_again_after_the_period"
    ),
    "JDBCPersistenceSettings.max_async_jobs": (
        "unit/store/jdbc/test_failures.py::test_a_congested_store_reports_it"
    ),
    "JDBCPersistenceSettings.duplicate_id_window": (
        "unit/store/jdbc/test_bounds.py::test_duplicate_ids_have_a_window"
    ),
    "JDBCPersistenceSettings.directory": (
        "unit/settings/test_persistence_settings.py::test_the_store_directory_can_be_configured"
    ),
    "JDBCPersistenceSettings.cleanup_period": (
        "unit/store/jdbc/test_setting_effects.py::test_acknowledged_messages_of_topics_are_deleted_each_period"
    ),
    "JDBCPersistenceSettings.lease_holder_id": (
        "unit/store/jdbc/test_setting_effects.py::test_the_holder_of_a_lease_has_a_name"
    ),
    "JDBCPersistenceSettings.max_audit_depth": (
        "unit/store/jdbc/test_setting_effects.py::test_the_audit_knows_so_many_messages_of_a_producer"
    ),
    "JDBCPersistenceSettings.max_waiting_bytes": (
        "unit/store/jdbc/test_setting_effects.py::test_bytes_that_wait_are_limited"
    ),
    # StatementsSection
    "StatementsSection.table_prefix": (
        "unit/store/jdbc/test_tables.py::test_one_row_locks_and_ids_rise"
    ),
    "StatementsSection.message_table_name": (
        "unit/store/jdbc/test_tables.py::test_names_can_be_changed"
    ),
    "StatementsSection.durable_sub_acks_table_name": (
        "unit/store/jdbc/test_tables.py::test_names_can_be_changed"
    ),
    "StatementsSection.lock_table_name": (
        "unit/store/jdbc/test_tables.py::test_names_can_be_changed"
    ),
    # JournaledJDBCPersistenceSettings
    "JournaledJDBCPersistenceSettings.journal_log_files": (
        "unit/store/jdbc/test_setting_effects.py::test_a_journal_of_many_segments_requests_a_checkpoint"
    ),
    "JournaledJDBCPersistenceSettings.journal_log_file_size": (
        "unit/store/jdbc/test_journaled.py::test_checkpoints_release_the_journal"
    ),
    "JournaledJDBCPersistenceSettings.checkpoint_interval": (
        "unit/store/jdbc/test_setting_effects.py::test_the_journal_goes_to_the_database_each_interval"
    ),
    "JournaledJDBCPersistenceSettings.use_journal": (
        "unit/store/jdbc/test_journaled.py::test_without_the_journal_it_is_the_database_alone"
    ),
    # IOExceptionHandlerSettings
    "IOExceptionHandlerSettings.ignore_all_errors": (
        "unit/service/test_store.py::test_the_broker_may_continue_without_its_store"
    ),
    "IOExceptionHandlerSettings.stop_start_connectors": (
        "unit/service/test_store.py::test_clients_may_be_sent_away_while_the_disk_is_full"
    ),
    "IOExceptionHandlerSettings.system_exit_on_shutdown": (
        "unit/service/test_store.py::test_the_process_ends_also_when_the_failed_store_cannot_be_closed"
    ),
    # NetworkConnectorSettings
    "BrokerSettings.network_connectors": (
        "integration/network/test_options.py::test_the_file_says_all_of_it"
    ),
    "NetworkConnectorSettings.duplex": "integration/network/test_duplex.py::test_duplex",
    "NetworkConnectorSettings.uri": (
        "integration/network/test_options.py::test_the_file_says_all_of_it"
    ),
    "NetworkConnectorSettings.name": (
        "integration/network/test_options.py::test_names_are_in_client_ids_and_reports"
    ),
    "NetworkConnectorSettings.user_name": (
        "integration/network/test_options.py::test_a_bridge_logs_in"
    ),
    "NetworkConnectorSettings.password": (
        "integration/network/test_options.py::test_a_bridge_logs_in"
    ),
    "NetworkConnectorSettings.remote_user_name": (
        "integration/network/test_options.py::test_a_bridge_logs_in"
    ),
    "NetworkConnectorSettings.remote_password": (
        "integration/network/test_options.py::test_a_bridge_logs_in"
    ),
    "NetworkConnectorSettings.conduit_subscriptions": (
        "integration/network/test_options.py::test_conduit_subscriptions"
    ),
    "NetworkConnectorSettings.conduit_network_queue_subscriptions": (
        "integration/network/test_options.py::test_conduit_network_queue_subscriptions"
    ),
    "NetworkConnectorSettings.decrease_network_consumer_priority": (
        "integration/network/test_options.py::test_priorities_of_remote_consumers"
    ),
    "NetworkConnectorSettings.consumer_priority_base": (
        "integration/network/test_options.py::test_priorities_of_remote_consumers"
    ),
    "NetworkConnectorSettings.network_ttl": (
        "integration/network/test_options.py::test_times_to_live"
    ),
    "NetworkConnectorSettings.message_ttl": (
        "integration/network/test_options.py::test_times_to_live"
    ),
    "NetworkConnectorSettings.consumer_ttl": (
        "integration/network/test_options.py::test_times_to_live"
    ),
    "NetworkConnectorSettings.suppress_duplicate_queue_subscriptions": (
        "integration/network/test_options.py::test_two_ways_to_a_consumer"
    ),
    "NetworkConnectorSettings.suppress_duplicate_topic_subscriptions": (
        "integration/network/test_options.py::test_two_ways_to_a_consumer"
    ),
    "NetworkConnectorSettings.dynamic_only": (
        "integration/network/test_options.py::test_dynamic_only"
    ),
    "NetworkConnectorSettings.static_bridge": (
        "integration/network/test_options.py::test_static_bridge_and_statically_included_destinations"
    ),
    "NetworkConnectorSettings.statically_included_destinations": (
        "integration/network/test_options.py::test_static_bridge_and_statically_included_destinations"
    ),
    "NetworkConnectorSettings.dynamically_included_destinations": (
        "integration/network/test_options.py::test_dynamically_included_and_excluded_destinations"
    ),
    "NetworkConnectorSettings.excluded_destinations": (
        "integration/network/test_options.py::test_dynamically_included_and_excluded_destinations"
    ),
    "NetworkConnectorSettings.bridge_temp_destinations": (
        "integration/network/test_options.py::test_bridge_temp_destinations"
    ),
    "NetworkConnectorSettings.prefetch_size": (
        "integration/network/test_options.py::test_prefetch_size"
    ),
    "NetworkConnectorSettings.advisory_prefetch_size": (
        "integration/network/test_options.py::test_advisories_are_acknowledged"
    ),
    "NetworkConnectorSettings.advisory_ack_percentage": (
        "integration/network/test_options.py::test_advisories_are_acknowledged"
    ),
    "NetworkConnectorSettings.always_sync_send": (
        "integration/network/test_options.py::test_always_sync_send"
    ),
    "NetworkConnectorSettings.destination_filter": (
        "integration/network/test_options.py::test_destination_filter"
    ),
    "NetworkConnectorSettings.sync_durable_subs": (
        "integration/network/test_durable_synchronization.py::test_sync_durable_subs"
    ),
    "NetworkConnectorSettings.use_virtual_dest_subs": (
        "integration/network/test_durable_synchronization.py::test_use_virtual_dest_subs"
    ),
    "NetworkConnectorSettings.use_compression": (
        "integration/network/test_repetitions.py::test_use_compression"
    ),
    "NetworkConnectorSettings.advisory_for_failed_forward": (
        "integration/network/test_reports.py::test_advisory_for_failed_forward"
    ),
    "NetworkConnectorSettings.check_duplicate_messages_on_duplex": (
        "integration/network/test_repetitions.py::test_what_a_bridge_sends_again_is_dropped"
    ),
    "NetworkConnectorSettings.client_id_token": (
        "integration/network/test_repetitions.py::test_client_id_token"
    ),
    # ConnectorSettings
    "ConnectorSettings.discovery_uri": (
        "integration/network/test_discovery.py::test_the_file_says_where_a_connector_is_announced"
    ),
    "ConnectorSettings.audit_network_producers": (
        "integration/network/test_repetitions.py::test_what_a_bridge_sends_again_is_dropped"
    ),
    "ConnectorSettings.update_cluster_clients": (
        "integration/network/test_clusters.py::test_a_client_goes_to_a_broker_that_it_was_told_of"
    ),
    "ConnectorSettings.rebalance_cluster_clients": (
        "integration/network/test_clusters.py::test_clients_spread_over_the_brokers"
    ),
    "ConnectorSettings.update_cluster_clients_on_remove": (
        "integration/network/test_clusters.py::test_a_broker_that_leaves"
    ),
    "ConnectorSettings.update_cluster_filter": (
        "integration/network/test_clusters.py::test_which_brokers_are_listed"
    ),
    "ConnectorSettings.uri": (
        "integration/broker/configuration/test_configuration.py::test_the_file_says_what_the_broker_does"
    ),
    "ConnectorSettings.name": (
        "integration/broker/configuration/test_key_effects.py::test_a_connector_has_its_name_in_logs"
    ),
    "ConnectorSettings.allow_link_stealing": (
        "integration/broker/configuration/test_key_effects.py::test_a_client_id_may_be_taken_over"
    ),
    "ConnectorSettings.tls": (
        "integration/tls/test_settings.py::test_both_files_with_client_certificates"
    ),
    # PolicySettings
    "PolicySettings.network_bridge_filter_factory": (
        "integration/network/test_replay.py::test_replay_when_no_consumers"
    ),
    "ConditionalNetworkBridgeSettings.replay_when_no_consumers": (
        "integration/network/test_replay.py::test_replay_when_no_consumers"
    ),
    "ConditionalNetworkBridgeSettings.replay_delay": (
        "integration/network/test_replay.py::test_replay_delay"
    ),
    "ConditionalNetworkBridgeSettings.rate_limit": (
        "integration/network/test_replay.py::test_rate_limit"
    ),
    "ConditionalNetworkBridgeSettings.rate_duration": (
        "integration/network/test_replay.py::test_rate_limit"
    ),
    "ConditionalNetworkBridgeSettings.selector_aware": (
        "integration/network/test_replay.py::test_selector_aware"
    ),
    "PolicySettings.memory_limit": (
        "unit/region/flow/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    "PolicySettings.producer_flow_control": (
        "unit/region/flow/test_flow_control.py::test_memory_limits_and_flow_control"
    ),
    "PolicySettings.send_fail_if_no_space": (
        "unit/region/flow/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    "PolicySettings.send_fail_if_no_space_after_timeout": (
        "unit/region/flow/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    "PolicySettings.blocked_producer_warning_interval": (
        "unit/region/flow/test_flow_control.py::test_warnings_are_rare"
    ),
    "PolicySettings.minimum_message_size": (
        "unit/region/flow/test_flow_control.py::test_the_usage_tree_and_message_sizes"
    ),
    "PolicySettings.use_cache": (
        "unit/region/queue/test_store_cursor.py::test_a_small_cache_with_use_cache_off"
    ),
    "PolicySettings.cursor_memory_high_water_mark": (
        "unit/region/queue/test_store_cursor.py::test_memory_is_used_up_to_the_high_water_mark"
    ),
    "PolicySettings.store_usage_high_water_mark": (
        "unit/region/flow/test_spooling.py::test_the_high_water_mark_of_a_policy"
    ),
    "PolicySettings.persist_jms_redelivered": (
        "unit/region/queue/test_store_cursor.py::test_persist_jms_redelivered"
    ),
    "PolicySettings.max_page_size": (
        "unit/region/test_policy_effects.py::test_pages_have_so_many_messages"
    ),
    "PolicySettings.max_browse_page_size": (
        "unit/region/queue/test_browser_and_expiry.py::test_a_policy_limits_browsers"
    ),
    "PolicySettings.max_expire_page_size": (
        "unit/region/queue/test_browser_and_expiry.py::test_the_expiry_scan"
    ),
    "PolicySettings.expire_messages_period": (
        "unit/region/queue/test_browser_and_expiry.py::test_the_expiry_scan"
    ),
    "PolicySettings.prioritized_messages": (
        "unit/region/topic/test_durable_backlog.py::test_priorities"
    ),
    "PolicySettings.strict_order_dispatch": (
        "unit/region/queue/test_queue_dispatch.py::test_strict_order_fills_the_first_consumer_and_returns_to_the_head"
    ),
    "PolicySettings.use_consumer_priority": (
        "unit/region/queue/test_queue_dispatch.py::test_consumer_priority_can_be_switched_off"
    ),
    "PolicySettings.all_consumers_exclusive_by_default": (
        "unit/region/queue/test_queue_dispatch.py::test_all_consumers_can_be_exclusive"
    ),
    "PolicySettings.lazy_dispatch": (
        "unit/region/queue/test_queue_dispatch.py::test_paging_with_and_without_lazy_dispatch"
    ),
    "PolicySettings.consumers_before_dispatch_starts": (
        "unit/region/queue/test_queue_dispatch.py::test_dispatch_starts_with_enough_consumers_or_after_the_timeout"
    ),
    "PolicySettings.time_before_dispatch_starts": (
        "unit/region/queue/test_queue_dispatch.py::test_dispatch_can_start_after_a_fixed_time"
    ),
    "PolicySettings.message_group_map_factory_type": (
        "unit/region/queue/test_message_groups.py::test_the_kinds_of_maps"
    ),
    "PolicySettings.queue_prefetch": (
        "unit/policy/test_policy_map.py::test_prefetches_replace_defaults_only"
    ),
    "PolicySettings.queue_browser_prefetch": (
        "unit/policy/test_policy_map.py::test_prefetches_replace_defaults_only"
    ),
    "PolicySettings.topic_prefetch": (
        "unit/policy/test_policy_map.py::test_prefetches_replace_defaults_only"
    ),
    "PolicySettings.durable_topic_prefetch": (
        "unit/policy/test_policy_map.py::test_prefetches_replace_defaults_only"
    ),
    "PolicySettings.use_prefetch_extension": (
        "unit/region/queue/test_queue_acknowledgement.py::test_the_window_grows_by_delivered_and_shrinks_by_completion"
    ),
    "PolicySettings.enable_audit": (
        "unit/region/subscription/test_duplicate_audits.py::test_duplicates_are_dropped_within_each_producers_window"
    ),
    "PolicySettings.max_producers_to_audit": (
        "unit/region/subscription/test_duplicate_audits.py::test_duplicates_are_dropped_within_each_producers_window"
    ),
    "PolicySettings.max_audit_depth": (
        "unit/region/test_policy_effects.py::test_the_audit_of_duplicates_is_so_deep"
    ),
    "PolicySettings.max_queue_audit_depth": (
        "unit/region/test_policy_effects.py::test_the_audit_of_duplicates_is_so_deep"
    ),
    "PolicySettings.pending_queue_policy": (
        "unit/region/topic/test_topic_spooling.py::test_the_vm_cursors_of_queues_and_durables_read_all_at_the_start"
    ),
    "PolicySettings.pending_subscriber_policy": (
        "unit/region/topic/test_topic_spooling.py::test_the_vm_cursor_keeps_all_in_memory"
    ),
    "PolicySettings.pending_durable_subscriber_policy": (
        "unit/region/topic/test_topic_spooling.py::test_the_vm_cursors_of_queues_and_durables_read_all_at_the_start"
    ),
    "PolicySettings.always_retroactive": (
        "unit/region/topic/test_recovery.py::test_always_retroactive"
    ),
    "PolicySettings.max_destinations": (
        "unit/region/test_destinations.py::test_the_number_of_destinations_can_be_limited"
    ),
    "PolicySettings.gc_inactive_destinations": (
        "integration/broker/limits/test_destination_limits.py::test_nothing_is_removed_unless_broker_and_policy_say_so"
    ),
    "PolicySettings.inactive_timeout_before_gc": (
        "integration/broker/limits/test_destination_limits.py::test_nothing_is_removed_unless_broker_and_policy_say_so"
    ),
    "PolicySettings.gc_with_network_consumers": (
        "integration/broker/limits/test_destination_limits.py::test_consumers_of_a_network_of_brokers_may_be_ignored"
    ),
    "PolicySettings.send_advisory_if_no_consumers": (
        "unit/region/test_events.py::test_without_consumers"
    ),
    "PolicySettings.advisory_for_delivery": ("unit/region/test_events.py::test_delivered"),
    "PolicySettings.advisory_for_dispatched": ("unit/region/test_events.py::test_dispatched"),
    "PolicySettings.advisory_for_consumed": ("unit/region/test_events.py::test_consumed"),
    "PolicySettings.advisory_for_discarding_messages": (
        "unit/region/test_events.py::test_discarded"
    ),
    "PolicySettings.advisory_for_slow_consumers": (
        "unit/region/test_events.py::test_a_queue_consumer_is_slow_from_the_first_message_that_waits"
    ),
    "PolicySettings.advisory_for_fast_producers": (
        "unit/region/test_events.py::test_full_and_fast"
    ),
    "PolicySettings.advisory_when_full": ("unit/region/test_events.py::test_full_and_fast"),
    "PolicySettings.destination": ("unit/policy/test_policy_map.py::test_which_entry_applies"),
    "PolicySettings.temp_queue": ("unit/policy/test_policy_map.py::test_which_entry_applies"),
    "PolicySettings.temp_topic": ("unit/policy/test_policy_map.py::test_which_entry_applies"),
    "PolicySettings.dispatch_policy": ("unit/region/topic/test_topics.py::test_dispatch_policies"),
    "PolicySettings.dead_letter_strategy": (
        "unit/region/queue/test_browser_and_expiry.py::test_expired_messages_are_dead_lettered_unless_switched_off"
    ),
    "PolicySettings.pending_message_limit_strategy": (
        "unit/region/topic/test_topics.py::test_evictions"
    ),
    "PolicySettings.message_eviction_strategy": (
        "unit/region/topic/test_topics.py::test_evictions"
    ),
    "PolicySettings.slow_consumer_strategy": (
        "integration/broker/limits/test_slow_consumers.py::test_a_strategy_of_ones_own"
    ),
    "PolicySettings.include_body_for_advisory": (
        "integration/broker/configuration/test_key_effects.py::test_advisories_of_messages_have_their_body"
    ),
    "PolicySettings.subscription_recovery_policy": (
        "unit/region/topic/test_recovery.py::test_the_last_messages_by_number"
    ),
    # SharedDeadLetterSettings
    "SharedDeadLetterSettings.process_expired": (
        "unit/region/queue/test_browser_and_expiry.py::test_expired_messages_are_dead_lettered_unless_switched_off"
    ),
    "SharedDeadLetterSettings.process_non_persistent": (
        "unit/region/dead_letter/test_dead_letters.py::test_which_messages_are_dead_lettered"
    ),
    "SharedDeadLetterSettings.expiration": (
        "unit/region/dead_letter/test_dead_letters.py::test_the_fields_of_a_dead_letter"
    ),
    "SharedDeadLetterSettings.enable_audit": (
        "unit/region/test_policy_effects.py::test_a_message_is_dead_lettered_once_where_it_is_audited"
    ),
    "SharedDeadLetterSettings.max_producers_to_audit": (
        "unit/region/test_policy_effects.py::test_the_audit_of_dead_letters_has_so_many_producers"
    ),
    "SharedDeadLetterSettings.max_audit_depth": (
        "unit/region/test_policy_effects.py::test_the_audit_of_dead_letters_is_so_deep"
    ),
    "SharedDeadLetterSettings.dead_letter_queue": (
        "unit/region/test_policy_effects.py::test_the_shared_dead_letter_queue_has_a_name"
    ),
    # IndividualDeadLetterSettings
    "IndividualDeadLetterSettings.queue_prefix": (
        "unit/region/dead_letter/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.topic_prefix": (
        "unit/region/dead_letter/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.queue_suffix": (
        "unit/region/dead_letter/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.topic_suffix": (
        "unit/region/dead_letter/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.use_queue_for_queue_messages": (
        "unit/region/dead_letter/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.use_queue_for_topic_messages": (
        "unit/region/dead_letter/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.destination_per_durable_subscriber": (
        "unit/region/dead_letter/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.max_destinations_to_audit": (
        "unit/region/test_policy_effects.py::test_the_audit_of_dead_letters_has_so_many_queues"
    ),
    "IndividualDeadLetterSettings.process_expired": (
        "unit/region/queue/test_browser_and_expiry.py::test_expired_messages_are_dead_lettered_unless_switched_off"
    ),
    "IndividualDeadLetterSettings.process_non_persistent": (
        "unit/region/dead_letter/test_dead_letters.py::test_which_messages_are_dead_lettered"
    ),
    "IndividualDeadLetterSettings.expiration": (
        "unit/region/dead_letter/test_dead_letters.py::test_the_fields_of_a_dead_letter"
    ),
    "IndividualDeadLetterSettings.enable_audit": (
        "unit/region/test_policy_effects.py::test_a_message_is_dead_lettered_once_where_it_is_audited"
    ),
    "IndividualDeadLetterSettings.max_producers_to_audit": (
        "unit/region/test_policy_effects.py::test_the_audit_of_dead_letters_has_so_many_producers"
    ),
    "IndividualDeadLetterSettings.max_audit_depth": (
        "unit/region/test_policy_effects.py::test_the_audit_of_dead_letters_is_so_deep"
    ),
    # ConstantPendingLimitSettings
    "ConstantPendingLimitSettings.limit": ("unit/region/topic/test_topics.py::test_pending_limits"),
    # PrefetchRatePendingLimitSettings
    "PrefetchRatePendingLimitSettings.multiplier": (
        "unit/region/topic/test_topics.py::test_pending_limits"
    ),
    # OldestEvictionSettings
    "OldestEvictionSettings.evict_expired_messages_high_watermark": (
        "unit/region/test_policy_effects.py::test_expired_messages_are_evicted_above_the_watermark"
    ),
    # LowestPriorityEvictionSettings
    "LowestPriorityEvictionSettings.evict_expired_messages_high_watermark": (
        "unit/region/test_policy_effects.py::test_expired_messages_are_evicted_above_the_watermark"
    ),
    # UniquePropertyEvictionSettings
    "UniquePropertyEvictionSettings.evict_expired_messages_high_watermark": (
        "unit/region/test_policy_effects.py::test_expired_messages_are_evicted_above_the_watermark"
    ),
    "UniquePropertyEvictionSettings.property_name": (
        "unit/region/topic/test_topics.py::test_evictions"
    ),
    # AbortSlowConsumerSettings
    "AbortSlowConsumerSettings.max_slow_count": (
        "integration/broker/limits/test_slow_consumers.py::test_the_number_of_times_a_consumer_becomes_slow_is_limited"
    ),
    "AbortSlowConsumerSettings.max_slow_duration": (
        "integration/broker/limits/test_slow_consumers.py::test_a_consumer_that_stays_full_is_aborted"
    ),
    "AbortSlowConsumerSettings.check_period": (
        "integration/broker/limits/test_slow_consumers.py::test_the_check_period_is_that_of_the_strategy"
    ),
    "AbortSlowConsumerSettings.abort_connection": (
        "integration/broker/limits/test_slow_consumers.py::test_the_connection_is_aborted_instead"
    ),
    "AbortSlowConsumerSettings.ignore_network_consumers": (
        "integration/broker/limits/test_slow_consumers.py::test_consumers_of_a_network_are_ignored"
    ),
    # AbortSlowAckConsumerSettings
    "AbortSlowAckConsumerSettings.max_slow_count": (
        "integration/broker/limits/test_slow_consumers.py::test_the_number_of_checks_without_an_acknowledgement"
    ),
    "AbortSlowAckConsumerSettings.max_slow_duration": (
        "integration/broker/limits/test_slow_consumers.py::test_the_times_without_an_acknowledgement"
    ),
    "AbortSlowAckConsumerSettings.check_period": (
        "integration/broker/limits/test_slow_consumers.py::test_the_number_of_checks_without_an_acknowledgement"
    ),
    "AbortSlowAckConsumerSettings.abort_connection": (
        "integration/broker/limits/test_slow_consumers.py::test_the_connection_is_aborted_instead"
    ),
    "AbortSlowAckConsumerSettings.ignore_network_consumers": (
        "integration/broker/limits/test_slow_consumers.py::test_consumers_of_a_network_are_ignored"
    ),
    "AbortSlowAckConsumerSettings.ignore_idle_consumers": (
        "integration/broker/limits/test_slow_consumers.py::test_idle_consumers_are_aborted_where_they_are_not_ignored"
    ),
    "AbortSlowAckConsumerSettings.max_time_since_last_ack": (
        "integration/broker/limits/test_slow_consumers.py::test_the_times_without_an_acknowledgement"
    ),
    # FixedCountRecoverySettings
    "FixedCountRecoverySettings.maximum_size": (
        "unit/region/topic/test_recovery.py::test_the_last_messages_by_number"
    ),
    # FixedSizedRecoverySettings
    "FixedSizedRecoverySettings.maximum_size": (
        "unit/region/topic/test_recovery.py::test_the_last_messages_by_size"
    ),
    # TimedRecoverySettings
    "TimedRecoverySettings.recover_duration": (
        "unit/region/topic/test_recovery.py::test_messages_of_the_last_time"
    ),
    # QueryBasedRecoverySettings
    "QueryBasedRecoverySettings.query": (
        "unit/region/topic/test_recovery.py::test_messages_of_a_query"
    ),
    # VirtualTopicSettings
    "VirtualTopicSettings.name": (
        "integration/broker/test_virtual_destinations.py::test_names_and_defaults"
    ),
    "VirtualTopicSettings.transacted_send": (
        "integration/broker/test_virtual_destinations.py::test_transacted_copies_reach_all_queues_or_none"
    ),
    "VirtualTopicSettings.prefix": (
        "integration/broker/test_virtual_destinations.py::test_names_and_defaults"
    ),
    "VirtualTopicSettings.postfix": (
        "integration/broker/test_virtual_destinations.py::test_names_and_defaults"
    ),
    "VirtualTopicSettings.selector_aware": (
        "integration/broker/test_virtual_destinations.py::test_selector_aware_topics_copy_what_a_present_consumer_wants"
    ),
    "VirtualTopicSettings.local": (
        "integration/broker/test_virtual_destinations.py::test_local_topics_do_not_copy_what_came_over_a_bridge_and_advisories_never"
    ),
    "VirtualTopicSettings.drop_on_resource_limit": (
        "integration/broker/test_virtual_destinations.py::test_a_full_queue_may_be_left_out"
    ),
    "VirtualTopicSettings.set_original_destination": (
        "integration/broker/test_virtual_destinations.py::test_copies_may_keep_the_topic_as_their_destination"
    ),
    # CompositeQueueSettings
    "CompositeQueueSettings.name": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    "CompositeQueueSettings.forward_only": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    "CompositeQueueSettings.send_when_not_matched": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    "CompositeQueueSettings.forward_to": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    # ForwardSettings
    "ForwardSettings.destination": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    "ForwardSettings.selector": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    # CompositeTopicSettings
    "CompositeTopicSettings.name": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    "CompositeTopicSettings.forward_only": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    "CompositeTopicSettings.send_when_not_matched": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    "CompositeTopicSettings.forward_to": (
        "integration/broker/configuration/test_key_effects.py::test_composites_forward_to_what_their_selectors_take"
    ),
    # ConnectorTlsSettings
    "ConnectorTlsSettings.enabled_cipher_suites": (
        "integration/tls/test_settings.py::test_the_versions_and_cipher_suites_of_a_connector"
    ),
    "ConnectorTlsSettings.enabled_protocols": (
        "integration/tls/test_settings.py::test_the_versions_and_cipher_suites_of_a_connector"
    ),
    "ConnectorTlsSettings.key_file": (
        "integration/tls/test_settings.py::test_the_files_of_a_connector_and_their_passwords"
    ),
    "ConnectorTlsSettings.key_store": (
        "integration/tls/test_settings.py::test_the_files_of_a_connector_and_their_passwords"
    ),
    "ConnectorTlsSettings.key_store_key_password": (
        "integration/tls/test_settings.py::test_the_files_of_a_connector_and_their_passwords"
    ),
    "ConnectorTlsSettings.key_store_password": (
        "integration/tls/test_settings.py::test_both_files_with_client_certificates"
    ),
    "ConnectorTlsSettings.minimum_version": (
        "integration/tls/test_settings.py::test_the_versions_and_cipher_suites_of_a_connector"
    ),
    "ConnectorTlsSettings.need_client_auth": (
        "integration/tls/test_settings.py::test_the_certificates_of_clients"
    ),
    "ConnectorTlsSettings.trust_store": (
        "integration/tls/test_settings.py::test_the_certificates_of_clients"
    ),
    "ConnectorTlsSettings.trust_store_password": (
        "integration/tls/test_settings.py::test_the_certificates_of_clients"
    ),
    "ConnectorTlsSettings.want_client_auth": (
        "integration/tls/test_settings.py::test_the_certificates_of_clients"
    ),
    # BrokerLoggingSettings, LogFileSettings
    "BrokerSettings.logging": (
        "unit/broker_cli/test_log_format.py::test_json_lines_have_the_fields_of_the_audit_log"
    ),
    "BrokerLoggingSettings.format": (
        "unit/broker_cli/test_log_format.py::test_json_lines_have_the_fields_of_the_audit_log"
    ),
    "BrokerLoggingSettings.stderr": (
        "unit/broker_cli/test_log_format.py::test_the_log_and_the_audit_log_have_files"
    ),
    "BrokerLoggingSettings.file": (
        "unit/broker_cli/test_log_format.py::test_the_log_and_the_audit_log_have_files"
    ),
    "BrokerLoggingSettings.audit": (
        "unit/broker_cli/test_log_format.py::test_the_log_and_the_audit_log_have_files"
    ),
    "LogFileSettings.path": ("unit/cli/test_log_output.py::test_a_file_is_given_by_its_path"),
    "LogFileSettings.format": ("unit/cli/test_log_output.py::test_a_file_has_a_format_of_its_own"),
    "LogFileSettings.rotate": (
        "unit/cli/test_log_output.py::test_a_file_of_another_day_is_renamed"
    ),
    "LogFileSettings.maximum_size": (
        "unit/cli/test_log_output.py::test_a_file_is_renamed_at_its_size"
    ),
    "LogFileSettings.keep": ("unit/cli/test_log_output.py::test_a_file_is_renamed_at_its_size"),
    # WebSettings
    "BrokerSettings.web": ("integration/web/test_server.py::test_the_site_over_tls"),
    "WebSettings.enabled": (
        "integration/web/test_server.py::test_a_broker_without_the_section_has_no_web_server"
    ),
    "WebSettings.host": (
        "integration/web/test_server.py::test_other_machines_are_served_only_if_the_broker_has_users"
    ),
    "WebSettings.port": (
        "integration/web/test_server.py::test_a_port_in_use_is_an_error_that_names_it"
    ),
    "WebSettings.maximum_connections": (
        "integration/web/test_server.py::test_an_idle_connection_makes_room_for_a_new_one"
    ),
    "WebSettings.maximum_body_size": (
        "integration/web/test_server.py::test_a_body_that_is_too_large_is_refused"
    ),
    "WebSettings.request_timeout": (
        "integration/web/test_server.py::test_a_request_must_arrive_in_time"
    ),
    "WebSettings.session_timeout": (
        "integration/web/test_server.py::test_a_login_ends_without_requests"
    ),
    "WebSettings.history": ("integration/web/test_history.py::test_a_broker_may_record_nothing"),
    "WebSettings.history_destinations": (
        "integration/web/test_history.py::test_the_number_of_destinations_with_a_history"
    ),
    "WebSettings.history_save_interval": (
        "integration/web/test_history.py::test_the_time_between_two_writes"
    ),
    "WebSettings.parts": (
        "integration/web/test_server.py::test_a_part_that_is_not_installed_is_an_error"
    ),
    "WebSettings.admin_groups": (
        "integration/web/test_server.py::test_the_groups_of_administrators_can_be_set"
    ),
    "WebSettings.reader_groups": (
        "integration/web/test_server.py::test_logins_are_those_of_the_brokers_users"
    ),
    "WebSettings.allowed_origins": (
        "integration/web/test_server.py::test_a_page_of_another_site_can_change_nothing"
    ),
    "WebSettings.allowed_hosts": (
        "integration/web/test_server.py::test_a_name_of_the_internet_is_not_this_machine"
    ),
    "WebSettings.trusted_proxies": (
        "integration/web/test_proxies.py::test_the_header_of_others_is_not_believed"
    ),
    "WebSettings.tls": ("integration/web/test_server.py::test_the_site_over_tls"),
}
"""By model and key: a test of the effect of its value; it or its fixtures name the key."""

WITHOUT_TEST: Final[set[str]] = set()
"""Keys that no test of their effect names; only ever made shorter."""


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def _keys() -> set[str]:
    found: dict[str, type[BaseModel]] = {}
    left: list[type[BaseModel]] = [BrokerSettings]
    while left:
        model = left.pop()
        if model.__name__ not in found:
            found[model.__name__] = model
            left += [m for f in model.model_fields.values() for m in _models(f.annotation)]
    keys: set[str] = set()
    for name, model in found.items():
        base = found.get(SAME_AS.get(name, ""))
        inherited = set() if base is None else set(base.model_fields)
        keys |= {f"{name}.{key}" for key in model.model_fields if key not in inherited | {"type"}}
    return keys


def test_every_key_has_an_entry() -> None:
    assert not SHOWN.keys() & WITHOUT_TEST
    assert SHOWN.keys() | WITHOUT_TEST == _keys()


@functools.cache
def _defined_in(file: str) -> dict[str, ast.stmt]:
    """Return the definitions of a file, by name: several keys have their tests in it."""
    text = (TESTS / file).read_text(encoding="utf-8")
    defined: dict[str, ast.stmt] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined[node.name] = node
        elif isinstance(node, ast.Assign):
            defined |= {t.id: node for t in node.targets if isinstance(t, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            defined[node.target.id] = node
    return defined


def _source_of(reference: str) -> str:
    """Return the source of a test, with the fixtures and constants of its module that it uses."""
    file, name = reference.split("::")
    defined = _defined_in(file)
    assert name in defined, f"there is no test {reference}"
    used, left = set[str](), [name]
    while left:
        each = left.pop()
        if each in defined and each not in used:
            used.add(each)
            for inner in ast.walk(defined[each]):
                if isinstance(inner, ast.Name | ast.arg):
                    left.append(inner.id if isinstance(inner, ast.Name) else inner.arg)
    source = "\n".join(ast.unparse(defined[each]) for each in used)
    return source.replace("\\n", "\n")  # so that words begin after the line ends of strings


def test_the_test_of_each_key_names_it() -> None:
    assert {
        key: test
        for key, test in SHOWN.items()
        if not re.search(rf"\b{key.rpartition('.')[2]}\b", _source_of(test))
    } == {}


def _service(folder: Path, text: str) -> BrokerService:
    path = folder / "broker.yaml"
    path.write_text(f"persistent: false\n{text}\n", encoding="utf-8")
    return BrokerService.from_settings(load_broker_settings(path, environ={}))


@pytest.mark.parametrize("seconds", [7, 70])
async def test_slow_frames_make_room_after_their_time(tmp_path: Path, seconds: int) -> None:
    text = f"unfinished_frames_limit: 1mb\nframe_read_timeout: {seconds}s"
    async with VirtualClock() as clock, _service(tmp_path, text) as service:
        ended: list[str] = []

        def frame(name: str) -> UnfinishedFrame:
            made = UnfinishedFrame(service.frame_budget)
            made.fail = lambda _: ended.append(name)
            return made

        frame("slow").update(0, 600 << 10)
        await clock.advance(seconds - 1)
        with pytest.raises(RemoteProtocolError, match="No memory for a frame"):
            frame("early").update(0, 600 << 10)
        await clock.advance(2)
        frame("late").update(0, 600 << 10)
        assert ended == ["slow"]


async def test_destinations_are_limited_by_the_file(tmp_path: Path) -> None:
    text = "maximum_destinations: 3\nbroker_name: few\nadvisory_support: false"
    async with _service(tmp_path, text):
        template = JmsTemplate(ConnectionFactory("vm://few?create=false"))
        with pytest.raises(JMSException, match="the broker has 3 destinations, its maximum"):
            for number in range(5):
                await template.convert_and_send(f"q{number}", "x")
