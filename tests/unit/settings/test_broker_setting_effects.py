"""Each key of broker.yaml has a test of its effect: this table names it.

The tests of an effect lie beside what they test and take the objects that the settings build; that
the keys have the names, defaults and values of these objects is tested in `test_broker_settings`
and `test_persistence_settings`. A new key needs an entry here. `type` selects a model, and has its
tests there too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest
from pydantic import BaseModel

from pyjms.aio import ConnectionFactory, JmsTemplate
from pyjms.errors import JMSException
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
    "BrokerSettings.maximum_destinations": (
        f"{OWN}::test_there_are_no_more_destinations_than_the_file_allows"
    ),
    "BrokerSettings.unfinished_frames_limit": f"{OWN}::test_a_limit_reaches_the_running_broker",
    "BrokerSettings.frame_read_timeout": f"{OWN}::test_a_limit_reaches_the_running_broker",
    "BrokerSettings.maximum_selector_steps": f"{OWN}::test_a_limit_reaches_the_running_broker",
    "BrokerSettings.maximum_selector_characters": f"{OWN}::test_a_limit_reaches_the_running_broker",
    # BrokerSettings
    "BrokerSettings.broker_name": (
        "integration/broker/scheduler/test_store.py::test_a_crash_while_a_request_becomes_a_job_loses_and_repeats_nothing"
    ),
    "BrokerSettings.persistent": (
        "integration/broker/test_stored_bounds.py::test_a_subscription_that_the_store_refuses_leaves_no_trace"
    ),
    "BrokerSettings.data_directory": (
        "integration/broker/test_internal_destinations.py::test_no_stored_progress_record_keeps_the_broker_from_starting"
    ),
    "BrokerSettings.delete_all_messages_on_startup": (
        "integration/broker/scheduler/test_store.py::test_an_empty_store_has_no_jobs"
    ),
    "BrokerSettings.advisory_support": (
        "integration/broker/test_configuration.py::test_a_wrong_key_is_one_line_with_its_place"
    ),
    "BrokerSettings.anonymous_producer_advisory_support": (
        "integration/broker/test_advisories.py::test_producers_without_a_destination_are_told_of_on_demand"
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
        "unit/service/test_life_cycle.py::test_the_chain_in_its_order"
    ),
    "BrokerSettings.allow_temp_auto_creation_on_send": (
        "integration/broker/test_destination_limits.py::test_temporary_destinations_are_swept_only_if_sends_create_them"
    ),
    "BrokerSettings.maximum_destinations_per_connection": (
        "integration/broker/test_destination_limits.py::test_a_connection_creates_only_so_many_destinations"
    ),
    "BrokerSettings.maximum_destinations_per_user": (
        "integration/broker/test_destination_limits.py::test_a_user_creates_only_so_many_destinations"
    ),
    "BrokerSettings.schedule_period_for_destination_purge": (
        "integration/broker/test_destination_limits.py::test_nothing_is_removed_unless_broker_and_policy_say_so"
    ),
    "BrokerSettings.max_purged_destinations_per_sweep": (
        "integration/broker/test_destination_limits.py::test_a_sweep_removes_at_most_its_maximum"
    ),
    "BrokerSettings.connection_info_timeout": (
        "adversarial/test_accepted_sockets.py::test_a_negotiated_client_without_keep_alives_has_to_identify_itself"
    ),
    "BrokerSettings.reserved_file_handles": (
        "integration/broker/test_file_handles.py::test_silent_clients_leave_the_store_its_file_handles"
    ),
    "BrokerSettings.rollback_only_on_async_exception": (
        "unit/connector/test_connection.py::test_a_oneway_failure_spoils_its_transaction"
    ),
    "BrokerSettings.restart_allowed": (
        "unit/service/test_life_cycle.py::test_a_restart_is_a_new_broker_unless_forbidden"
    ),
    "BrokerSettings.scheduler_support": (
        "integration/broker/scheduler/test_store.py::test_an_empty_store_has_no_jobs"
    ),
    "BrokerSettings.max_scheduler_repeat_allowed": (
        "integration/broker/scheduler/test_schedules.py::test_too_many_repetitions_are_refused"
    ),
    "BrokerSettings.scheduler_directory": (
        "integration/broker/scheduler/test_store_location.py::test_the_directory_can_be_configured"
    ),
    "BrokerSettings.system_usage": (
        "integration/broker/scheduler/test_failures.py::test_jobs_in_memory_have_a_limit"
    ),
    "BrokerSettings.persistence": (
        "integration/broker/scheduler/test_store.py::test_jobs_survive_a_restart_and_missed_executions_are_delivered_once"
    ),
    "BrokerSettings.io_exception_handler": (
        "integration/broker/test_stored_bounds.py::test_a_store_that_failed_is_no_lack_of_room"
    ),
    "BrokerSettings.plugins": (
        "integration/broker/test_missing_completions.py::test_a_filter_that_forgets_a_return_is_named"
    ),
    "BrokerSettings.connectors": (
        "integration/broker/test_configuration.py::test_options_of_the_command_line_win"
    ),
    "BrokerSettings.destinations": (
        "integration/broker/test_virtual_destinations.py::test_mirrored_queues_feed_their_topics_first"
    ),
    "BrokerSettings.policies": (
        "integration/broker/test_slow_consumers.py::test_a_strategy_of_ones_own"
    ),
    "BrokerSettings.virtual_destinations": (
        "integration/broker/test_stored_bounds.py::test_a_store_that_failed_is_no_lack_of_room"
    ),
    # SystemUsageSettings
    "SystemUsageSettings.memory_limit": (
        "unit/region/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    "SystemUsageSettings.store_limit": (
        "unit/region/test_spooling.py::test_a_closed_connection_ends_its_waits"
    ),
    "SystemUsageSettings.temp_limit": (
        "unit/region/test_spooling.py::test_freed_space_of_the_temp_store_admits_sends"
    ),
    "SystemUsageSettings.job_scheduler_limit": (
        "integration/broker/scheduler/test_failures.py::test_a_cron_entry_starts_no_jobs_above_the_store_limit"
    ),
    "SystemUsageSettings.send_fail_if_no_space": (
        "unit/region/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    "SystemUsageSettings.send_fail_if_no_space_after_timeout": (
        "unit/region/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    # KahaDBPersistenceSettings
    "KahaDBPersistenceSettings.journal": (
        "unit/store/kahadb/test_maintenance.py::test_what_was_open_at_the_end"
    ),
    "KahaDBPersistenceSettings.index_directory": (
        "unit/store/kahadb/test_adapter.py::test_an_index_has_its_own_directory_if_wanted"
    ),
    "KahaDBPersistenceSettings.checkpoint_interval": (
        "unit/store/kahadb/test_index_trouble.py::test_a_damaged_index_fails_the_store_and_is_built_anew_at_the_next_start"
    ),
    "KahaDBPersistenceSettings.cleanup_interval": (
        "unit/store/kahadb/test_maintenance.py::test_checkpoints_and_cleanups_come_by_themselves"
    ),
    "KahaDBPersistenceSettings.cleanup_on_stop": (
        "unit/store/kahadb/test_maintenance.py::test_without_intervals_nothing_comes_before_the_stop"
    ),
    "KahaDBPersistenceSettings.concurrent_store_and_dispatch_queues": (
        "unit/region/test_consumed_before_written.py::test_without_concurrent_store_and_dispatch_all_is_written"
    ),
    "KahaDBPersistenceSettings.concurrent_store_and_dispatch_topics": (
        "unit/region/test_durable_backlog.py::test_a_sender_without_a_response_does_not_wait_for_the_store"
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
        "unit/store/kahadb/test_cleanup.py::test_compaction_can_be_forbidden"
    ),
    "KahaDBPersistenceSettings.compact_acks_ignores_store_growth": (
        "unit/store/kahadb/test_cleanup.py::test_one_message_keeps_the_chain_of_acknowledgements_until_they_are_moved"
    ),
    "KahaDBPersistenceSettings.use_lock": (
        "integration/postgresql/test_jdbc_store.py::test_a_server_that_ends_is_waited_for"
    ),
    "KahaDBPersistenceSettings.lock_acquire_sleep_interval": (
        "integration/broker/test_restart.py::test_a_slave_takes_over"
    ),
    "KahaDBPersistenceSettings.fail_if_locked": (
        "unit/store/kahadb/test_adapter.py::test_one_directory_has_one_holder"
    ),
    "KahaDBPersistenceSettings.lock_keep_alive_period": (
        "unit/store/kahadb/test_maintenance.py::test_the_loss_of_the_lock_is_told"
    ),
    "KahaDBPersistenceSettings.directory": (
        "unit/store/kahadb/test_maintenance.py::test_what_was_open_at_the_end"
    ),
    # JournalSection
    "JournalSection.max_file_length": (
        "unit/store/journal/test_crash.py::test_checking_for_corruption_keeps_what_follows_damage"
    ),
    "JournalSection.max_write_batch_size": (
        "unit/store/journal/test_journal.py::test_too_much_that_waits_is_congestion"
    ),
    "JournalSection.disk_sync_strategy": (
        "unit/store/journal/test_failures.py::test_a_periodic_sync_that_fails_ends_it"
    ),
    "JournalSection.disk_sync_interval": (
        "unit/store/journal/test_journal.py::test_batches_end_at_their_limit_or_the_segments_and_one_sync_serves_a_batch"
    ),
    "JournalSection.preallocation_strategy": (
        "unit/store/journal/test_journal.py::test_segments_are_numbered_from_one_and_preallocated"
    ),
    "JournalSection.preallocation_scope": (
        "unit/store/journal/test_journal.py::test_never_means_never"
    ),
    "JournalSection.checksum": (
        "unit/store/journal/test_crash.py::test_checking_for_corruption_keeps_what_follows_damage"
    ),
    "JournalSection.check_for_corrupt_journal_files": (
        "unit/store/journal/test_crash.py::test_checking_for_corruption_keeps_what_follows_damage"
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
        "unit/store/journal/test_failures.py::test_closing_does_not_wait_for_space"
    ),
    "JournalSection.ignore_no_space_errors": (
        "unit/store/journal/test_failures.py::test_a_full_disk_is_a_permanent_error_if_configured"
    ),
    # MultiKahaDBPersistenceSettings
    "MultiKahaDBPersistenceSettings.directory": (
        "unit/store/multi/test_multi_kahadb.py::test_long_and_odd_names_have_a_store_each_after_a_restart"
    ),
    "MultiKahaDBPersistenceSettings.cleanup_interval": (
        "unit/store/multi/test_multi_kahadb.py::test_failed_maintenance_is_retried"
    ),
    "MultiKahaDBPersistenceSettings.use_lock": (
        "unit/store/multi/test_multi_kahadb.py::test_a_folder_that_cannot_be_made_is_said_so"
    ),
    "MultiKahaDBPersistenceSettings.fail_if_locked": (
        "unit/store/multi/test_multi_kahadb.py::test_one_lock_for_all"
    ),
    # FilteredKahaDBSection
    "FilteredKahaDBSection.queue": (
        "unit/store/multi/test_filters.py::test_the_most_specific_filter_wins"
    ),
    "FilteredKahaDBSection.topic": (
        "unit/store/multi/test_filters.py::test_folder_names_are_activemq_s"
    ),
    "FilteredKahaDBSection.per_destination": (
        "unit/store/multi/test_filters.py::test_filters_say_what_they_are"
    ),
    "FilteredKahaDBSection.store_limit": (
        "unit/store/multi/test_filters.py::test_of_equal_filters_the_first_wins"
    ),
    # JDBCPersistenceSettings
    "JDBCPersistenceSettings.data_source": (
        "unit/store/jdbc/test_failures.py::test_a_server_that_is_not_there"
    ),
    "JDBCPersistenceSettings.statements": (
        "unit/store/jdbc/test_tables.py::test_one_row_locks_and_ids_rise"
    ),
    "JDBCPersistenceSettings.create_tables_on_startup": (
        "unit/store/jdbc/test_tables.py::test_tables_need_not_be_made"
    ),
    "JDBCPersistenceSettings.max_rows": "unit/store/jdbc/test_bounds.py::test_pages_of_few_rows",
    "JDBCPersistenceSettings.enable_audit": (
        "unit/store/jdbc/test_audit.py::test_a_store_with_an_audit_knows_what_is_gone"
    ),
    "JDBCPersistenceSettings.max_producers_to_audit": (
        "unit/store/jdbc/test_bounds.py::test_producers_that_are_silent_are_forgotten"
    ),
    "JDBCPersistenceSettings.audit_recovery_depth": (
        "unit/store/jdbc/test_audit.py::test_a_store_with_an_audit_knows_what_is_gone"
    ),
    "JDBCPersistenceSettings.query_timeout": (
        "integration/postgresql/test_jdbc_store.py::test_statements_that_take_too_long"
    ),
    "JDBCPersistenceSettings.network_timeout": (
        "unit/store/jdbc/test_failures.py::test_a_database_that_goes_while_the_store_stops_does_not_hold_it_up"
    ),
    "JDBCPersistenceSettings.transaction_isolation": (
        "integration/postgresql/test_jdbc_store.py::test_statements_that_take_too_long"
    ),
    "JDBCPersistenceSettings.use_lock": (
        "unit/store/jdbc/test_failures.py::test_two_who_write_are_one_too_many"
    ),
    "JDBCPersistenceSettings.locker": (
        "unit/store/jdbc/test_lockers.py::test_a_lease_of_a_database_that_is_away"
    ),
    "JDBCPersistenceSettings.lock_keep_alive_period": (
        "unit/store/jdbc/test_lockers.py::test_a_broker_whose_lease_is_gone_stops_and_is_to_begin_anew"
    ),
    "JDBCPersistenceSettings.lock_acquire_sleep_interval": (
        "unit/store/jdbc/test_journaled.py::test_what_is_consumed_soon_never_touches_the_database"
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
        "unit/store/jdbc/test_failures.py::test_a_database_that_goes_while_the_store_stops_does_not_hold_it_up"
    ),
    "JDBCPersistenceSettings.max_async_jobs": (
        "unit/store/jdbc/test_failures.py::test_too_much_that_waits_is_said"
    ),
    "JDBCPersistenceSettings.duplicate_id_window": (
        "unit/store/jdbc/test_bounds.py::test_duplicate_ids_have_a_window"
    ),
    "JDBCPersistenceSettings.directory": (
        "unit/store/jdbc/test_other_brokers.py::test_a_database_of_activemqs_is_taken_over"
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
        "unit/store/jdbc/test_journaled.py::test_a_checkpoint_that_a_full_disk_held_up_comes_when_there_is_room"
    ),
    "JournaledJDBCPersistenceSettings.journal_log_file_size": (
        "unit/store/jdbc/test_journaled.py::test_checkpoints_at_the_same_time_delete_each_segment_once"
    ),
    "JournaledJDBCPersistenceSettings.checkpoint_interval": (
        "unit/store/jdbc/test_journaled.py::test_what_is_consumed_soon_never_touches_the_database"
    ),
    "JournaledJDBCPersistenceSettings.use_journal": (
        "unit/store/jdbc/test_journaled.py::test_what_is_consumed_soon_never_touches_the_database"
    ),
    # IOExceptionHandlerSettings
    "IOExceptionHandlerSettings.ignore_all_errors": (
        "unit/service/test_store.py::test_the_broker_may_go_on_without_its_store"
    ),
    "IOExceptionHandlerSettings.stop_start_connectors": (
        "unit/service/test_store.py::test_clients_may_be_sent_away_while_the_disk_is_full"
    ),
    "IOExceptionHandlerSettings.system_exit_on_shutdown": (
        "unit/service/test_store.py::test_the_process_ends_also_when_the_failed_store_cannot_be_closed"
    ),
    # ConnectorSettings
    "ConnectorSettings.uri": (
        "unit/connector/test_openwire.py::test_port_0_takes_a_free_port_on_this_machine_only"
    ),
    "ConnectorSettings.name": (
        "unit/region/test_disk_usage.py::test_polling_continues_after_a_failure"
    ),
    "ConnectorSettings.allow_link_stealing": (
        "unit/region/test_client_ids.py::test_a_client_id_belongs_to_one_connection_unless_links_may_be_stolen"
    ),
    # PolicySettings
    "PolicySettings.memory_limit": (
        "unit/region/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    "PolicySettings.producer_flow_control": (
        "unit/region/test_flow_control.py::test_memory_limits_and_flow_control"
    ),
    "PolicySettings.send_fail_if_no_space": (
        "unit/region/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    "PolicySettings.send_fail_if_no_space_after_timeout": (
        "unit/region/test_flow_control.py::test_a_policy_overrides_the_system"
    ),
    "PolicySettings.blocked_producer_warning_interval": (
        "unit/region/test_flow_control.py::test_warnings_are_rare"
    ),
    "PolicySettings.minimum_message_size": (
        "unit/region/test_flow_control.py::test_the_usage_tree_and_message_sizes"
    ),
    "PolicySettings.use_cache": (
        "unit/region/test_store_cursor.py::test_a_small_cache_with_use_cache_off"
    ),
    "PolicySettings.cursor_memory_high_water_mark": (
        "unit/region/test_store_cursor.py::test_memory_is_used_up_to_the_high_water_mark"
    ),
    "PolicySettings.store_usage_high_water_mark": (
        "unit/region/test_spooling.py::test_the_high_water_mark_of_a_policy"
    ),
    "PolicySettings.persist_jms_redelivered": (
        "unit/region/test_store_cursor.py::test_persist_jms_redelivered"
    ),
    "PolicySettings.max_page_size": (
        "unit/region/test_browser_and_expiry.py::test_waiting_messages_expire_at_page_in_and_before_dispatch"
    ),
    "PolicySettings.max_browse_page_size": (
        "unit/region/test_browser_and_expiry.py::test_a_policy_limits_browsers"
    ),
    "PolicySettings.max_expire_page_size": (
        "unit/region/test_browser_and_expiry.py::test_the_expiry_scan"
    ),
    "PolicySettings.expire_messages_period": (
        "unit/region/test_browser_and_expiry.py::test_the_expiry_scan"
    ),
    "PolicySettings.prioritized_messages": "unit/region/test_durable_backlog.py::test_priorities",
    "PolicySettings.strict_order_dispatch": (
        "unit/region/test_queue_dispatch.py::test_strict_order_fills_the_first_consumer_and_returns_to_the_head"
    ),
    "PolicySettings.use_consumer_priority": (
        "unit/region/test_queue_dispatch.py::test_consumer_priority_can_be_switched_off"
    ),
    "PolicySettings.all_consumers_exclusive_by_default": (
        "unit/region/test_queue_dispatch.py::test_all_consumers_can_be_exclusive"
    ),
    "PolicySettings.lazy_dispatch": (
        "unit/region/test_queue_dispatch.py::test_lazy_dispatch_pages_in_for_pulls"
    ),
    "PolicySettings.consumers_before_dispatch_starts": (
        "unit/region/test_queue_dispatch.py::test_dispatch_starts_with_enough_consumers_or_after_the_timeout"
    ),
    "PolicySettings.time_before_dispatch_starts": (
        "unit/region/test_queue_dispatch.py::test_dispatch_can_start_after_a_fixed_time"
    ),
    "PolicySettings.message_group_map_factory_type": (
        "unit/region/test_message_groups.py::test_the_kinds_of_maps"
    ),
    "PolicySettings.queue_prefetch": (
        "unit/policy/test_policy_map.py::test_prefetches_replace_defaults_only"
    ),
    "PolicySettings.queue_browser_prefetch": (
        "unit/policy/test_policy_map.py::test_prefetches_replace_defaults_only"
    ),
    "PolicySettings.topic_prefetch": (
        "unit/region/test_recovery.py::test_memory_of_others_makes_a_topic_keep_less"
    ),
    "PolicySettings.durable_topic_prefetch": (
        "unit/policy/test_policy_map.py::test_prefetches_replace_defaults_only"
    ),
    "PolicySettings.use_prefetch_extension": (
        "unit/region/test_queue_acknowledgement.py::test_the_window_grows_by_delivered_and_shrinks_by_completion"
    ),
    "PolicySettings.enable_audit": (
        "unit/region/test_duplicate_audits.py::test_the_audit_windows_of_brokers_and_clients"
    ),
    "PolicySettings.max_producers_to_audit": (
        "unit/region/test_duplicate_audits.py::test_the_audit_windows_of_brokers_and_clients"
    ),
    "PolicySettings.max_audit_depth": (
        "unit/region/test_duplicate_audits.py::test_the_audit_windows_of_brokers_and_clients"
    ),
    "PolicySettings.max_queue_audit_depth": (
        "unit/region/test_duplicate_audits.py::test_duplicates_are_dropped_within_each_producers_window"
    ),
    "PolicySettings.pending_queue_policy": (
        "unit/region/test_topic_spooling.py::test_the_vm_cursors_of_queues_and_durables_read_all_at_the_start"
    ),
    "PolicySettings.pending_subscriber_policy": (
        "unit/region/test_topic_spooling.py::test_the_vm_cursor_keeps_all_in_memory"
    ),
    "PolicySettings.pending_durable_subscriber_policy": (
        "unit/region/test_topic_spooling.py::test_the_vm_cursors_of_queues_and_durables_read_all_at_the_start"
    ),
    "PolicySettings.always_retroactive": "unit/region/test_recovery.py::test_always_retroactive",
    "PolicySettings.max_destinations": (
        "unit/region/test_destinations.py::test_the_number_of_destinations_can_be_limited"
    ),
    "PolicySettings.gc_inactive_destinations": (
        "integration/broker/test_destination_limits.py::test_nothing_is_removed_unless_broker_and_policy_say_so"
    ),
    "PolicySettings.inactive_timeout_before_gc": (
        "integration/broker/test_destination_limits.py::test_nothing_is_removed_unless_broker_and_policy_say_so"
    ),
    "PolicySettings.gc_with_network_consumers": (
        "integration/broker/test_destination_limits.py::test_consumers_of_a_network_of_brokers_may_be_ignored"
    ),
    "PolicySettings.send_advisory_if_no_consumers": (
        "unit/region/test_events.py::test_without_consumers"
    ),
    "PolicySettings.advisory_for_delivery": "unit/region/test_events.py::test_delivered",
    "PolicySettings.advisory_for_consumed": "unit/region/test_events.py::test_consumed",
    "PolicySettings.advisory_for_discarding_messages": (
        "unit/region/test_events.py::test_discarded"
    ),
    "PolicySettings.advisory_for_slow_consumers": (
        "unit/region/test_events.py::test_a_queue_consumer_is_slow_from_the_first_message_that_waits"
    ),
    "PolicySettings.advisory_for_fast_producers": "unit/region/test_events.py::test_full_and_fast",
    "PolicySettings.advisory_when_full": "unit/region/test_events.py::test_full_and_fast",
    "PolicySettings.destination": "unit/region/test_events.py::test_without_consumers",
    "PolicySettings.temp_queue": "unit/policy/test_policy_map.py::test_which_entry_applies",
    "PolicySettings.temp_topic": "unit/policy/test_policy_map.py::test_which_entry_applies",
    "PolicySettings.dispatch_policy": (
        "unit/region/test_topics.py::test_an_unknown_dispatch_policy_is_an_error"
    ),
    "PolicySettings.dead_letter_strategy": (
        "unit/region/test_browser_and_expiry.py::test_expired_messages_are_dead_lettered_unless_switched_off"
    ),
    "PolicySettings.pending_message_limit_strategy": "unit/region/test_topics.py::test_evictions",
    "PolicySettings.message_eviction_strategy": "unit/region/test_topics.py::test_evictions",
    "PolicySettings.slow_consumer_strategy": (
        "integration/broker/test_slow_consumers.py::test_a_check_period_of_nothing_is_refused"
    ),
    # SharedDeadLetterSettings
    "SharedDeadLetterSettings.process_expired": (
        "unit/region/test_dead_letters.py::test_which_messages_are_dead_lettered"
    ),
    "SharedDeadLetterSettings.process_non_persistent": (
        "unit/region/test_dead_letters.py::test_the_fields_of_a_dead_letter"
    ),
    "SharedDeadLetterSettings.expiration": (
        "unit/region/test_dead_letters.py::test_the_fields_of_a_dead_letter"
    ),
    "SharedDeadLetterSettings.enable_audit": (
        "unit/region/test_dead_letters.py::test_a_dead_letter_is_not_dead_lettered_to_itself"
    ),
    "SharedDeadLetterSettings.max_producers_to_audit": (
        "unit/region/test_duplicate_audits.py::test_the_audit_windows_of_brokers_and_clients"
    ),
    "SharedDeadLetterSettings.max_audit_depth": (
        "unit/region/test_duplicate_audits.py::test_the_audit_windows_of_brokers_and_clients"
    ),
    # IndividualDeadLetterSettings
    "IndividualDeadLetterSettings.queue_prefix": (
        "unit/region/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.topic_prefix": (
        "unit/region/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.queue_suffix": (
        "unit/region/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.topic_suffix": (
        "unit/region/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.use_queue_for_queue_messages": (
        "unit/region/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.use_queue_for_topic_messages": (
        "unit/region/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.destination_per_durable_subscriber": (
        "unit/region/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.max_destinations_to_audit": (
        "unit/region/test_dead_letters.py::test_individual_queues"
    ),
    "IndividualDeadLetterSettings.process_expired": (
        "unit/region/test_dead_letters.py::test_which_messages_are_dead_lettered"
    ),
    "IndividualDeadLetterSettings.process_non_persistent": (
        "unit/region/test_dead_letters.py::test_the_fields_of_a_dead_letter"
    ),
    "IndividualDeadLetterSettings.expiration": (
        "unit/region/test_dead_letters.py::test_the_fields_of_a_dead_letter"
    ),
    "IndividualDeadLetterSettings.enable_audit": (
        "unit/region/test_dead_letters.py::test_a_dead_letter_is_not_dead_lettered_to_itself"
    ),
    "IndividualDeadLetterSettings.max_producers_to_audit": (
        "unit/region/test_duplicate_audits.py::test_the_audit_windows_of_brokers_and_clients"
    ),
    "IndividualDeadLetterSettings.max_audit_depth": (
        "unit/region/test_duplicate_audits.py::test_the_audit_windows_of_brokers_and_clients"
    ),
    # ConstantPendingLimitSettings
    "ConstantPendingLimitSettings.limit": "unit/region/test_topics.py::test_pending_limits",
    # PrefetchRatePendingLimitSettings
    "PrefetchRatePendingLimitSettings.multiplier": (
        "unit/region/test_topics.py::test_pending_limits"
    ),
    # OldestEvictionSettings
    "OldestEvictionSettings.evict_expired_messages_high_watermark": (
        "unit/region/test_topics.py::test_evictions"
    ),
    # LowestPriorityEvictionSettings
    "LowestPriorityEvictionSettings.evict_expired_messages_high_watermark": (
        "unit/region/test_topics.py::test_evictions"
    ),
    # UniquePropertyEvictionSettings
    "UniquePropertyEvictionSettings.evict_expired_messages_high_watermark": (
        "unit/region/test_topics.py::test_evictions"
    ),
    "UniquePropertyEvictionSettings.property_name": "unit/region/test_topics.py::test_evictions",
    # AbortSlowConsumerSettings
    "AbortSlowConsumerSettings.max_slow_count": (
        "integration/broker/test_slow_consumers.py::test_the_number_of_times_a_consumer_becomes_slow_is_limited"
    ),
    "AbortSlowConsumerSettings.max_slow_duration": (
        "integration/broker/test_slow_consumers.py::test_a_consumer_that_stays_full_is_aborted"
    ),
    "AbortSlowConsumerSettings.check_period": (
        "integration/broker/test_slow_consumers.py::test_a_check_period_of_nothing_is_refused"
    ),
    "AbortSlowConsumerSettings.abort_connection": (
        "integration/broker/test_slow_consumers.py::test_a_strategy_of_ones_own"
    ),
    "AbortSlowConsumerSettings.ignore_network_consumers": (
        "integration/broker/test_slow_consumers.py::test_consumers_of_a_network_are_ignored"
    ),
    # AbortSlowAckConsumerSettings
    "AbortSlowAckConsumerSettings.max_slow_count": (
        "integration/broker/test_slow_consumers.py::test_the_number_of_times_a_consumer_becomes_slow_is_limited"
    ),
    "AbortSlowAckConsumerSettings.max_slow_duration": (
        "integration/broker/test_slow_consumers.py::test_a_consumer_that_stays_full_is_aborted"
    ),
    "AbortSlowAckConsumerSettings.check_period": (
        "integration/broker/test_slow_consumers.py::test_a_check_period_of_nothing_is_refused"
    ),
    "AbortSlowAckConsumerSettings.abort_connection": (
        "integration/broker/test_slow_consumers.py::test_a_strategy_of_ones_own"
    ),
    "AbortSlowAckConsumerSettings.ignore_network_consumers": (
        "integration/broker/test_slow_consumers.py::test_consumers_of_a_network_are_ignored"
    ),
    "AbortSlowAckConsumerSettings.ignore_idle_consumers": (
        "integration/broker/test_slow_consumers.py::test_idle_consumers_are_aborted_where_they_are_not_ignored"
    ),
    # FixedCountRecoverySettings
    "FixedCountRecoverySettings.maximum_size": (
        "unit/region/test_recovery.py::test_the_last_messages_by_size"
    ),
    # FixedSizedRecoverySettings
    "FixedSizedRecoverySettings.maximum_size": (
        "unit/region/test_recovery.py::test_the_last_messages_by_size"
    ),
    # TimedRecoverySettings
    "TimedRecoverySettings.recover_duration": (
        "unit/region/test_recovery.py::test_messages_of_the_last_time"
    ),
    # QueryBasedRecoverySettings
    "QueryBasedRecoverySettings.query": (
        "unit/spark/test_supervisor.py::test_a_stop_waits_for_the_batch_in_progress"
    ),
    # VirtualTopicSettings
    "VirtualTopicSettings.name": (
        "integration/broker/test_virtual_destinations.py::test_names_and_defaults"
    ),
    "VirtualTopicSettings.prefix": (
        "integration/broker/test_virtual_destinations.py::test_names_and_defaults"
    ),
    "VirtualTopicSettings.postfix": (
        "integration/broker/test_virtual_destinations.py::test_names_and_defaults"
    ),
    "VirtualTopicSettings.selector_aware": (
        "integration/broker/test_virtual_destinations.py::test_names_and_defaults"
    ),
    "VirtualTopicSettings.local": (
        "integration/broker/test_virtual_destinations.py::test_copies_share_the_transaction_of_the_send"
    ),
    "VirtualTopicSettings.drop_on_resource_limit": (
        "integration/broker/test_virtual_destinations.py::test_a_full_queue_may_be_left_out"
    ),
    "VirtualTopicSettings.set_original_destination": (
        "integration/broker/test_virtual_destinations.py::test_copies_may_keep_the_topic_as_their_destination"
    ),
    # CompositeQueueSettings
    "CompositeQueueSettings.name": (
        "integration/broker/test_virtual_destinations.py::test_names_and_defaults"
    ),
    "CompositeQueueSettings.forward_only": (
        "integration/broker/test_virtual_destinations.py::test_composites_forward_only_or_also"
    ),
    "CompositeQueueSettings.send_when_not_matched": (
        "integration/broker/test_virtual_destinations.py::test_filters_decide_and_what_none_takes_may_stay"
    ),
    # ForwardSettings
    "ForwardSettings.destination": (
        "integration/broker/test_virtual_destinations.py::test_mirrored_queues_feed_their_topics_first"
    ),
    "ForwardSettings.selector": (
        "integration/broker/test_virtual_destinations.py::test_selector_aware_topics_copy_what_a_present_consumer_wants"
    ),
    # CompositeTopicSettings
    "CompositeTopicSettings.name": (
        "integration/broker/test_virtual_destinations.py::test_names_and_defaults"
    ),
    "CompositeTopicSettings.forward_only": (
        "integration/broker/test_virtual_destinations.py::test_composites_forward_only_or_also"
    ),
    "CompositeTopicSettings.send_when_not_matched": (
        "integration/broker/test_virtual_destinations.py::test_filters_decide_and_what_none_takes_may_stay"
    ),
}
"""By model and key: the test, which names the key."""

WITHOUT_TEST: Final = {
    "KahaDBPersistenceSettings.max_failover_producers_to_track",
    "KahaDBPersistenceSettings.store_open_wire_version",
    "MultiKahaDBPersistenceSettings.filtered_kahadb",
    "MultiKahaDBPersistenceSettings.transaction_journal",
    "MultiKahaDBPersistenceSettings.lock_acquire_sleep_interval",
    "MultiKahaDBPersistenceSettings.lock_keep_alive_period",
    "JDBCPersistenceSettings.cleanup_period",
    "JDBCPersistenceSettings.max_audit_depth",
    "JDBCPersistenceSettings.lease_holder_id",
    "JDBCPersistenceSettings.max_waiting_bytes",
    "ConnectorSettings.tls",
    "ConnectorTlsSettings.trust_store",
    "ConnectorTlsSettings.trust_store_password",
    "ConnectorTlsSettings.key_store",
    "ConnectorTlsSettings.key_store_password",
    "ConnectorTlsSettings.key_store_key_password",
    "ConnectorTlsSettings.key_file",
    "ConnectorTlsSettings.minimum_version",
    "ConnectorTlsSettings.enabled_protocols",
    "ConnectorTlsSettings.enabled_cipher_suites",
    "ConnectorTlsSettings.need_client_auth",
    "ConnectorTlsSettings.want_client_auth",
    "PolicySettings.include_body_for_advisory",
    "PolicySettings.subscription_recovery_policy",
    "SharedDeadLetterSettings.dead_letter_queue",
    "AbortSlowAckConsumerSettings.max_time_since_last_ack",
    "CompositeQueueSettings.forward_to",
    "CompositeTopicSettings.forward_to",
}
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


def _source_of(reference: str) -> str:
    file, name = reference.split("::")
    text = (TESTS / file).read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            return "\n".join(text.splitlines()[first - 1 : node.end_lineno])
    raise AssertionError(f"there is no test {reference}")


@pytest.mark.parametrize("key", sorted(SHOWN))
def test_the_test_of_a_key_names_it(key: str) -> None:
    assert re.search(rf"\b{key.rpartition('.')[2]}\b", _source_of(SHOWN[key])), SHOWN[key]


def _service(folder: Path, text: str) -> BrokerService:
    path = folder / "broker.yaml"
    path.write_text(f"persistent: false\n{text}\n", encoding="utf-8")
    return BrokerService.from_settings(load_broker_settings(path, environ={}))


@pytest.mark.parametrize(
    ("written", "read", "value"),
    [
        ("unfinished_frames_limit: 1mb", lambda s: s.frame_budget.limit, 1 << 20),
        ("frame_read_timeout: 7s", lambda s: s.frame_budget.read_timeout, 7.0),
        ("maximum_selector_steps: 7", lambda s: s.region_broker.selector_limits.steps, 7),
        (
            "maximum_selector_characters: 7",
            lambda s: s.region_broker.selector_limits.characters,
            7,
        ),
    ],
)
async def test_a_limit_reaches_the_running_broker(
    tmp_path: Path, written: str, read: Callable[[BrokerService], object], value: object
) -> None:
    async with _service(tmp_path, written) as service:
        assert read(service) == value


async def test_there_are_no_more_destinations_than_the_file_allows(tmp_path: Path) -> None:
    text = "maximum_destinations: 3\nbroker_name: few\nadvisory_support: false"
    async with _service(tmp_path, text):
        template = JmsTemplate(ConnectionFactory("vm://few?create=false"))
        with pytest.raises(JMSException, match="the broker has 3 destinations, its maximum"):
            for number in range(5):
                await template.convert_and_send(f"q{number}", "x")
