"""`persistence` of broker.yaml: the stores' own names and defaults, and which store is made."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pyjms.errors import ConfigurationException
from pyjms.jms.destination import Queue
from pyjms.runtime.distribution import install_command
from pyjms_broker.service import BrokerService
from pyjms_broker.settings import load_broker_settings
from pyjms_broker.settings.persistence import (
    FilteredKahaDBSection,
    JDBCPersistenceSettings,
    JournaledJDBCPersistenceSettings,
    JournalSection,
    KahaDBPersistenceSettings,
    MultiKahaDBPersistenceSettings,
)
from pyjms_broker.store.jdbc.settings import JDBCSettings, JournalSettingsJDBC, Locker
from pyjms_broker.store.journal.settings import DiskSyncStrategy, JournalSettings
from pyjms_broker.store.kahadb.settings import KahaDBSettings
from pyjms_broker.store.memory import MemoryPersistenceAdapter

JDBC: dict[str, Any] = {"type": "jdbc"}
JOURNALED: dict[str, Any] = {"type": "journaled_jdbc"}


def of(tmp_path: Path, persistence: str) -> BrokerService:
    path = tmp_path / "broker.yaml"
    path.write_text(f"data_directory: {tmp_path}\npersistence: {persistence}", encoding="utf-8")
    return BrokerService.from_settings(load_broker_settings(path, environ={}))


def names(settings: type[Any]) -> set[str]:
    return {field.name for field in fields(settings)}


def test_names_and_defaults_are_the_stores_own() -> None:
    assert KahaDBPersistenceSettings().build() == KahaDBSettings()
    assert JDBCPersistenceSettings(**JDBC).build() == JDBCSettings()
    journaled = JournaledJDBCPersistenceSettings(**JOURNALED)
    assert journaled.build() == JDBCSettings()
    assert journaled.build_journal() == JournalSettingsJDBC()
    ours = {"type", "directory"}
    assert set(KahaDBPersistenceSettings.model_fields) == names(KahaDBSettings) | ours
    assert set(JournalSection.model_fields) == names(JournalSettings)
    filtered = set(FilteredKahaDBSection.model_fields) - {"queue", "topic"}
    assert filtered == names(KahaDBSettings) | {"per_destination", "store_limit"}
    assert set(JDBCPersistenceSettings.model_fields) == names(JDBCSettings) | ours
    both = names(JDBCSettings) | names(JournalSettingsJDBC) | ours
    assert set(JournaledJDBCPersistenceSettings.model_fields) == both


@pytest.mark.parametrize(
    ("mark", "section"),
    [
        ("|", KahaDBPersistenceSettings),
        ("2|", JournaledJDBCPersistenceSettings),
        ("3|", MultiKahaDBPersistenceSettings),
    ],
)
def test_the_reference_has_an_example_with_every_key(
    tmp_path: Path, mark: str, section: type[Any]
) -> None:
    reference = (Path(__file__).parents[3] / "config/broker.yaml").read_text(encoding="utf-8")
    marked = (line.removeprefix(f"#{mark}") for line in reference.splitlines()
              if line.startswith(f"#{mark}"))  # fmt: skip
    lines = itertools.takewhile(
        lambda line: line[0] in " #" or line.startswith("persistence"), marked
    )
    path = tmp_path / "broker.yaml"
    path.write_text("\n".join(lines), encoding="utf-8")
    found = load_broker_settings(path, environ={}).persistence
    assert isinstance(found, section)
    assert found.model_fields_set == set(section.model_fields)
    if isinstance(found, KahaDBPersistenceSettings):
        assert found.journal.model_fields_set == set(JournalSection.model_fields)
        assert found.build() == KahaDBSettings()
    if isinstance(found, JournaledJDBCPersistenceSettings):
        assert found.build() == JDBCSettings()
        assert found.build_journal() == JournalSettingsJDBC()
    if isinstance(found, MultiKahaDBPersistenceSettings):
        written = {name for each in found.filtered_kahadb for name in each.model_fields_set}
        assert written >= {"queue", "topic", "per_destination", "store_limit"}


def test_settings_are_passed_to_the_store(tmp_path: Path) -> None:
    text = "{type: kahadb, checkpoint_interval: 2s, journal: {disk_sync_strategy: never, max_file_length: 1mb}}"
    factory = of(tmp_path, text).persistence
    assert isinstance(factory, KahaDBPersistenceSettings)
    settings = factory.build()
    assert settings.checkpoint_interval == 2.0
    assert settings.journal.disk_sync_strategy is DiskSyncStrategy.NEVER
    assert settings.journal.max_file_length == 1 << 20
    jdbc = of(tmp_path, "{type: jdbc, locker: lease, statements: {table_prefix: X_}}").persistence
    assert isinstance(jdbc, JDBCPersistenceSettings)
    assert jdbc.build().locker is Locker.LEASE
    assert jdbc.build().statements.table_prefix == "X_"


@pytest.mark.parametrize(
    ("persistence", "folder"),
    [
        ("null", "localhost/KahaDB"),
        ("{type: kahadb}", "localhost/KahaDB"),
        ("{type: multi_kahadb, filtered_kahadb: [{}]}", "localhost/mKahaDB"),
        ("{type: jdbc}", "localhost/jdbc"),
        ("{type: journaled_jdbc}", "localhost/jdbc"),
    ],
)
async def test_each_store_has_a_directory_below_the_brokers(
    tmp_path: Path, persistence: str, folder: str
) -> None:
    service = of(tmp_path, persistence)
    assert service.stores.directory == tmp_path / folder
    async with service:
        assert (tmp_path / folder).is_dir()


async def test_a_memory_store_creates_no_files(tmp_path: Path) -> None:
    service = of(tmp_path, "{type: memory}")
    assert service.stores.directory is None
    async with service:
        assert isinstance(service.stores.store, MemoryPersistenceAdapter)
    assert not (tmp_path / "localhost").exists()


@pytest.mark.parametrize(
    ("kind", "file"),
    [
        ("type: kahadb", "db-1.log"),
        ("type: multi_kahadb, filtered_kahadb: [{}]", "txStore"),
        ("type: jdbc", "activemq.db"),
    ],
)
async def test_the_store_directory_can_be_configured(tmp_path: Path, kind: str, file: str) -> None:
    there = tmp_path / "there"
    service = of(tmp_path, f"{{{kind}, directory: {there}}}")
    async with service:
        assert (there / file).exists()


async def test_each_destination_lies_in_the_store_of_its_filter(tmp_path: Path) -> None:
    text = "{type: multi_kahadb, filtered_kahadb: [{queue: 'orders.>'}, {per_destination: true}]}"
    async with of(tmp_path, text) as service:
        for name in ("orders.a", "orders.b", "one", "two"):
            service.region_broker.add_destination(service.region_broker.context, Queue(name))
        assert service.stores.directory is not None
        found = {path.name for path in service.stores.directory.iterdir() if path.is_dir()}
    queues = {name for name in found if name.startswith("queue")}
    assert queues == {
        "queue#3a#2f#2forders.#3e",
        "queue#3a#2f#2fone",
        "queue#3a#2f#2ftwo",
    }


@pytest.mark.fact("activemq-persistence E2")
@pytest.mark.parametrize("kind", ["levelDB", "leveldb", "replicatedLevelDB", "replicated_leveldb"])
def test_removed_stores_are_refused(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ConfigurationException, match=r"removed from ActiveMQ in 5\.17") as refused:
        of(tmp_path, f"{{type: {kind}}}")
    assert "use type: kahadb" in str(refused.value)
    assert "broker.yaml:2:" in str(refused.value)


def test_without_sqlalchemy_the_error_names_the_package(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from pyjms_broker.settings import load_broker_settings\n"
        "sys.modules['sqlalchemy'] = None\n"  # as where it is not installed
        "for path in map(Path, sys.argv[1:]):\n"
        "    settings = load_broker_settings(path, environ={})\n"
        "    try:\n"
        "        settings.persistence.create(path.parent, 'b')\n"
        "    except Exception as error:\n"
        "        print(f'{type(error).__name__}: {error}')\n"
    )
    paths = [tmp_path / f"{kind}.yaml" for kind in ("jdbc", "journaled_jdbc")]
    for path in paths:
        path.write_text(f"persistence: {{type: {path.stem}}}", encoding="utf-8")
    command = [sys.executable, "-c", script, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=50)
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths)
    for line in lines:
        assert line.startswith("ConfigurationException: A store in a database needs SQLAlchemy")
        assert install_command("sql") in line
