"""How pytest-xdist shares the tests out among its workers.

The unit is a file, so that what is costly to set up once per module stays on one worker. Tests
that use one costly resource per process share a group instead, whatever their file: two Spark
sessions, with a JVM of about 1 GB each, serve all tests that use one, by whatever fixture. A test
joins a group of its own choice with `pytest.mark.xdist_group`.

Groups start in the order of their expected duration, the longest first: a long group that starts
last runs alone, while the other workers have nothing left to do.

Every worker collects all tests. The first to import a test module rewrites its assertions, for the
others, too, so each begins with other folders (`each_with_other_folders`).

A report of a phase that passed is sent without what nobody reads of it (`shorten`).

No worker follows one that has ended (`--max-worker-restart 0`), so `count_reruns_here` spares each
test the question how often another worker has run it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final

import pytest
from pytest_rerunfailures import StatusDB
from xdist.scheduler import LoadGroupScheduling

SPARK_SESSION: Final = "spark"
SPARK_SESSION_ELSEWHERE: Final = "spark elsewhere"
"""The same, with a session of its own, for the tests outside of `SPARK_FILES`: half of them."""

SPARK_FILES: Final = "tests/integration/spark/test_*.py"
SPARK_FIXTURE: Final = "jms_spark"  # that of `spark` and `run_pipeline`
SPARK_DRIVERS: Final = "spark drivers"
"""Tests that for the most part wait for driver processes, beside the group of the session."""

SPARK_CLUSTER: Final = "spark cluster"
"""Tests that start a standalone cluster."""

SOURCE_TREE: Final = "source tree"
"""Tests that parse all modules of the packages, which takes seconds and is done once a process."""

TWO_WAY_STORES: Final = "two-way stores"
"""The half of the tests in `test_two_way` that starts each broker more than once."""

SPARK_GROUPS: Final = frozenset(
    {SPARK_SESSION, SPARK_SESSION_ELSEWHERE, SPARK_DRIVERS, SPARK_CLUSTER}
)
SENT: Final = ("nodeid", "location", "when", "duration", "start", "stop")
"""The fields of short reports."""
REPORT_TYPE: Final = "$report_type"
"""A key of all others (the hook `pytest_report_to_serializable`)."""

APART: Final = frozenset({"data", "kit"})
"""Folders without tests."""

SERVER_MARKERS: Final = frozenset(
    {"activemq", "browser", "ldap", "maven", "postgresql", "spark", "stomp_clients"}
)
SERVER_FOLDERS: Final = (
    "tests/integration/activemq",
    "tests/integration/java",
    "tests/integration/peers",
    "tests/integration/spark",
    "tests/integration/failover",
    "tests/integration/security",
    "tests/integration/tls",
    "tests/integration/cli",
    "tests/integration/console/browser",
    "tests/integration/examples",
    "tests/integration/jobs",
    "tests/integration/management",
    "tests/integration/network",
    "tests/integration/postgresql",
    "tests/integration/amqp",
    "tests/integration/mqtt",
    "tests/integration/stomp",
    "tests/integration/xa",
    "tests/contract/store",
    "tests/docs/pages",
)
"""Those of all tests with such a marker (`outside_of_server_folders` finds others).

With `--server-folders` only these are collected: each worker spends seconds less on what it leaves
out anyway.
"""

SECONDS_PER_TEST: Final = 0.03
SECONDS: Final = {
    SPARK_SESSION: 192,
    SPARK_SESSION_ELSEWHERE: 191,
    SPARK_DRIVERS: 89,
    SOURCE_TREE: 31,
    TWO_WAY_STORES: 41,
    SPARK_CLUSTER: 22,
    "tests/integration/spark/artemis/test_ids.py": 98,
    "tests/integration/peers/test_every_frame.py": 52,
    "tests/integration/console/browser/test_browser.py": 47,
    "tests/integration/spark/artemis/test_spool.py": 46,
    "tests/integration/activemq/test_scheduler.py": 43,
    "tests/integration/peers/test_client.py": 40,
    "tests/integration/activemq/stores/test_two_way.py": 38,
    "tests/integration/xa/test_two_brokers.py": 34,
    "tests/integration/cli/test_workers.py": 29,
    "tests/integration/spark/activemq/test_spool.py": 27,
    "tests/contract/store/test_store_contract.py": 25,
    "tests/integration/java/test_interruptions.py": 25,
    "tests/benchmarks/test_benchmarks.py": 22,
    "tests/integration/peers/test_messages.py": 22,
    "tests/unit/cli/test_commands.py": 22,
    "tests/integration/crash/test_kill.py": 21,
    "tests/integration/java/test_java_client.py": 20,
    "tests/integration/spark/artemis/test_client.py": 20,
    "tests/integration/spark/test_range_reader.py": 20,
    "tests/integration/web/test_metrics_and_events.py": 19,
    "tests/integration/network/test_processes.py": 18,
    "tests/integration/outbox/test_crash.py": 18,
    "tests/integration/peers/test_failover.py": 18,
    "tests/integration/activemq/traces/test_container_traces.py": 17,
    "tests/integration/broker/test_restart.py": 17,
    "tests/docs/test_types.py": 17,
    "tests/docs/test_tutorial.py": 16,
    "tests/integration/activemq/test_slow_consumers.py": 16,
    "tests/docs/test_site.py": 6,
    "tests/integration/broker/scheduler/test_store.py": 15,
    "tests/integration/activemq/stores/test_kahadb_files.py": 14,
    "tests/integration/broker/scheduler/test_redelivery_plugin.py": 14,
    "tests/unit/cli/test_pipeline_commands.py": 14,
    "tests/integration/activemq/test_retries.py": 13,
    "tests/integration/operations/test_broker_uris.py": 13,
    "tests/integration/spark/test_over_failover.py": 13,
    "tests/property/journal/test_journal.py": 13,
    "tests/unit/testing/test_plugin.py": 13,
    "tests/adversarial/test_stomp.py": 12,
    "tests/adversarial/test_hostile_fields.py": 10,
    "tests/examples/test_examples.py": 12,
    "tests/integration/activemq/test_expiry_in_transactions.py": 12,
    "tests/integration/broker/scheduler/test_redelivery_after_kill.py": 12,
    "tests/integration/broker_robustness/test_robustness.py": 12,
    "tests/integration/failover/test_activemq.py": 11,
    "tests/integration/failover/test_java_clients.py": 11,
    "tests/integration/jobs/test_activemq_jobs.py": 11,
    "tests/examples/test_programs_of_the_notes.py": 5,
    "tests/integration/activemq/stores/test_kahadb_store.py": 10,
    "tests/integration/ranges/test_ranges.py": 10,
    "tests/integration/tls/test_examples_over_tls.py": 10,
    "tests/property/wire/test_codec.py": 10,
    "tests/integration/stomp/test_other_languages.py": 10,
    "tests/docs/extending/test_broker.py": 9,
    "tests/integration/activemq/test_spring.py": 9,
    "tests/integration/failover/test_cancelled_starts.py": 9,
    "tests/integration/failover/test_cut_connections.py": 9,
    "tests/integration/security/test_names_at_all_doors.py": 9,
    "tests/integration/failover/test_rolling_restarts.py": 8,
    "tests/integration/activemq/test_access_matrix.py": 7,
    "tests/integration/cli/test_top.py": 7,
    "tests/integration/web/test_access_matrix.py": 7,
    "tests/integration/failover/test_xa_cuts.py": 7,
    "tests/docs/test_pages.py": 6,
    "tests/integration/broker/scheduler/test_command.py": 6,
    "tests/integration/cli/test_changes.py": 6,
    "tests/integration/kahadb/test_full_store.py": 6,
    "tests/integration/operations/test_examples.py": 6,
    "tests/integration/security/test_encryption.py": 6,
    "tests/integration/soak/test_mutations.py": 6,
    "tests/property/web/test_web_fuzz.py": 6,
    "tests/integration/web/test_server.py": 6,
    "tests/unit/network/test_subscriptions.py": 6,
    "tests/docs/test_specification.py": 5,
    "tests/integration/broker/limits/test_many_destinations.py": 5,
    "tests/integration/network/test_cut_bridges.py": 5,
    "tests/integration/web/test_jolokia.py": 5,
    "tests/integration/retries/test_redrive.py": 5,
}
"""Expected durations of groups and files that take longer than their number of tests suggests."""


class FileOrGroupScheduling(LoadGroupScheduling):  # type: ignore[misc]  # xdist has no types
    """Send each group to one worker, and other tests file by file, in the collected order."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # by number of tests; see `longest_first`

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else str(scope)


def add_groups(items: Iterable[pytest.Item]) -> None:
    """Mark tests that use a Spark session, and name no group, as one of its two groups.

    Tests in a group of Spark get the marker `spark`: `make test` leaves them to `make spark`.
    """
    for item in items:
        fixtures: Any = getattr(item, "fixturenames", ())
        if SPARK_FIXTURE in fixtures and not item.get_closest_marker("xdist_group"):
            is_there = fnmatch(item.nodeid.partition("::")[0], SPARK_FILES)
            group = SPARK_SESSION if is_there else SPARK_SESSION_ELSEWHERE
            item.add_marker(pytest.mark.xdist_group(group))
        if _group(item) in SPARK_GROUPS:
            item.add_marker(pytest.mark.spark)


def not_grouped(items: Iterable[pytest.Item]) -> list[str]:
    """Return the tests of a group that pytest-xdist has not named after it, and so would spread.

    (It names them by an attribute that pytest 9.2 no longer has.)
    """
    return [
        item.nodeid
        for item in items
        if item.get_closest_marker("xdist_group") and not item.nodeid.endswith(f"@{_group(item)}")
    ]


def name_failed_without_groups(config: pytest.Config) -> None:
    """Make `--last-failed` find tests of groups, whose names pytest-xdist had extended.

    Otherwise a run of those that failed, which finds none of them, would be a run of all tests.
    """
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if cache is None or hasattr(config, "workerinput"):
        return
    failed: dict[str, bool] = cache.get("cache/lastfailed", {})
    plain = {without_group(name): failed[name] for name in failed}
    if plain != failed:
        cache.set("cache/lastfailed", plain)


def without_group(name: str) -> str:
    """Return a test's name without `@group`, which follows the brackets of its parameters."""
    return re.sub(r"(::[^\[@]*(?:\[.*\])?)@[^\]]*$", r"\1", name)


def each_with_other_folders(config: pytest.Config) -> None:
    """Have this worker of several collect the folders of all tests in another order than others.

    Does nothing for a selection of tests. `longest_first` makes the orders equal again.
    """
    if config.args == list(SERVER_FOLDERS):
        parts = [config.rootpath / folder for folder in SERVER_FOLDERS]
    elif config.args == config.getini("testpaths"):
        top = config.rootpath / config.args[0]
        inner = [path for path in sorted(top.iterdir()) if path.is_dir() and path.name not in APART]
        parts = [part for folder in inner for part in sorted(folder.iterdir()) if _has_tests(part)]
    else:
        return
    worker: dict[str, Any] = config.workerinput  # type: ignore[attr-defined]
    start = len(parts) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    config.args = [str(part) for part in parts[start:] + parts[:start]]


def count_reruns_here(config: pytest.Config) -> None:
    """Have pytest-rerunfailures not ask the controller before each test of this worker.

    It does by a socket, byte by byte, which takes both more than a millisecond of processor time.
    """
    plugin: Any = config
    if plugin.option.maxworkerrestart == "0":
        plugin.failures_db.sock.close()
        plugin.failures_db = StatusDB()


def shorten(report: object) -> dict[str, Any] | None:
    """Return what a worker sends of a report that says only that a phase of a test has passed.

    Each test has three. Their keywords, all names and marks of the test, are most of them, and a
    fifth of what a test without content costs its worker and the controller.
    """
    is_short = (
        isinstance(report, pytest.TestReport)
        and report.passed
        and not (report.sections or report.user_properties or hasattr(report, "wasxfail"))
    )
    return {name: getattr(report, name) for name in SENT} if is_short else None


def restore(sent: dict[str, Any]) -> pytest.TestReport | None:
    """Return the report that was sent so, if it was."""
    if REPORT_TYPE in sent:
        return None
    fields = {name: sent[name] for name in SENT}
    return pytest.TestReport(**fields, keywords={}, outcome="passed", longrepr=None)


def outside_of_server_folders(items: Iterable[pytest.Item]) -> list[str]:
    """Return the tests that need a server or Spark and are in none of `SERVER_FOLDERS`.

    Nightly ones may be elsewhere: no run of these folders has them.
    """
    folders = tuple(f"{folder}/" for folder in SERVER_FOLDERS)
    outside = (item for item in items if not item.nodeid.startswith(folders))
    marks = {item.nodeid: {mark.name for mark in item.iter_markers()} for item in outside}
    return [
        name
        for name, of in marks.items()
        if not SERVER_MARKERS.isdisjoint(of) and "nightly" not in of
    ]


def _has_tests(path: Path) -> bool:
    return path.match("test_*.py") or (path.is_dir() and not path.name.startswith("__"))


def longest_first(items: list[pytest.Item]) -> None:
    """Sort tests by the expected duration of their groups, which stay together, then by file."""
    names = [_group(item) for item in items]
    seconds = {name: SECONDS.get(name, n * SECONDS_PER_TEST) for name, n in Counter(names).items()}
    ordered = sorted(
        range(len(items)),
        key=lambda index: (
            -seconds[names[index]],
            names[index],
            items[index].nodeid.partition("::")[0],
        ),
    )
    items[:] = [items[index] for index in ordered]


def _group(item: pytest.Item) -> str:
    mark = item.get_closest_marker("xdist_group")
    return str(mark.args[0]) if mark else item.nodeid.partition("::")[0]
