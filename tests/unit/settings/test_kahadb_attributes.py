"""ActiveMQ's attributes of kahaDB: each has a place here, means nothing here, or is refused."""

from __future__ import annotations

import logging
import re
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ConfigurationException
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.settings.persistence import RENAMED, WITHOUT_EFFECT, KahaDBPersistenceSettings

DEFAULTS: dict[str, Any] = {
    "journalMaxFileLength": 32 << 20,
    "journalMaxWriteBatchSize": 4194304,
    "journalDiskSyncStrategy": "always",
    "journalDiskSyncInterval": 1.0,
    "checkpointInterval": 5.0,
    "cleanupInterval": 30.0,
    "cleanupOnStop": True,
    "concurrentStoreAndDispatchQueues": True,
    "concurrentStoreAndDispatchTopics": False,
    "maxAsyncJobs": 10000,
    "ignoreMissingJournalfiles": False,
    "checkForCorruptJournalFiles": False,
    "checksumJournalFiles": True,
    "forceRecoverIndex": False,
    "archiveCorruptedIndex": False,
    "archiveDataLogs": False,
    "directoryArchive": None,
    "maxFailoverProducersToTrack": 64,
    "purgeRecoveredXATransactionStrategy": "never",
    "preallocationStrategy": "sparse_file",
    "preallocationScope": "entire_journal",
    "enableAckCompaction": True,
    "compactAcksAfterNoGC": 10,
    "compactAcksIgnoresStoreGrowth": False,
    "databaseLockedWaitDelay": 10.0,
    "useLock": True,
    "lockKeepAlivePeriod": 0.0,
    "indexDirectory": None,
}
"""ActiveMQ's, with its defaults; times in seconds, None: beside the journal."""

IGNORED = {
    "indexCacheSize": "10000",
    "indexWriteBatchSize": "1000",
    "enableIndexWriteAsync": "false",
    "enableIndexDiskSyncs": "true",
    "enableIndexRecoveryFile": "true",
    "enableIndexPageCaching": "true",
    "useIndexLFRUEviction": "false",
    "indexLFUEvictionFactor": "0.2",
    "failoverProducersAuditDepth": "2048",
    "enableSubscriptionStatistics": "false",
    "stopOnError": "false",
}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def settings_of(tmp_path: Path, text: str) -> Any:
    path = tmp_path / "broker.yaml"
    path.write_text(f"persistence:\n  type: kahadb\n{text}", encoding="utf-8")
    return load_broker_settings(path, environ={}).persistence


@pytest.mark.fact("activemq-persistence K0")
@pytest.mark.parametrize("name", DEFAULTS)
def test_every_attribute_has_activemqs_default(name: str) -> None:
    found: Any = KahaDBPersistenceSettings()
    for part in RENAMED.get(snake(name), snake(name)).split("."):
        found = getattr(found, part)
    assert (found.value if isinstance(found, Enum) else found) == DEFAULTS[name]


@pytest.mark.fact("activemq-persistence K0")
def test_the_directory_is_below_the_brokers_directory(tmp_path: Path) -> None:
    service = BrokerService("b", data_directory=tmp_path, persistence=KahaDBPersistenceSettings())
    assert service.stores.directory == tmp_path / "b" / "KahaDB"
    assert BrokerService().data_directory == Path("activemq-data")


@pytest.mark.fact("activemq-persistence K0")
def test_attributes_without_effect_are_accepted_and_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "pyjms_broker.settings")
    assert {snake(name) for name in IGNORED} == WITHOUT_EFFECT
    lines = "".join(f"  {snake(name)}: {value}\n" for name, value in IGNORED.items())
    assert settings_of(tmp_path, lines).build() == KahaDBPersistenceSettings().build()
    (logged,) = caplog.messages
    assert all(snake(name) in logged for name in IGNORED)
    caplog.clear()
    assert settings_of(tmp_path, "").build() == KahaDBPersistenceSettings().build()
    assert caplog.messages == []


@pytest.mark.fact("activemq-persistence K0")
@pytest.mark.parametrize(
    ("written", "replacement"),
    [
        ("journal_max_file_length: 1mb", "journal.max_file_length"),
        ("journalMaxFileLength: 1mb", "journal.max_file_length"),
        ("enableJournalDiskSyncs: false", "journal.disk_sync_strategy: always"),
        ("checksumJournalFiles: false", "journal.checksum"),
        ("max_async_jobs: 5", "journal.max_async_jobs"),
        ("databaseLockedWaitDelay: 5s", "lock_acquire_sleep_interval"),
        ("checkpointInterval: 5s", "persistence.checkpoint_interval"),
    ],
)
def test_a_renamed_attribute_is_refused_with_its_new_name(
    tmp_path: Path, written: str, replacement: str
) -> None:
    with pytest.raises(ConfigurationException, match=re.escape(replacement)) as refused:
        settings_of(tmp_path, f"  {written}\n")
    assert "broker.yaml:3:" in str(refused.value)


def test_every_replacement_exists() -> None:
    for place in RENAMED.values():
        section: Any = KahaDBPersistenceSettings()
        for part in place.partition(":")[0].split("."):
            section = getattr(section, part)


def test_multi_kahadb_accepts_and_refuses_the_same_attributes(tmp_path: Path) -> None:
    path = tmp_path / "broker.yaml"
    several = "persistence:\n  type: multi_kahadb\n  filtered_kahadb:\n    - {}\n    - queue: a\n"
    path.write_text(f"{several}      index_cache_size: 5\n", encoding="utf-8")
    assert load_broker_settings(path, environ={}).persistence is not None
    path.write_text(f"{several}      checksumJournalFiles: false\n", encoding="utf-8")
    with pytest.raises(ConfigurationException, match=r"broker\.yaml:6: .*write journal\.checksum"):
        load_broker_settings(path, environ={})
