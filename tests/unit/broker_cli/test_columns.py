"""The table of attributes that commands, console and metrics share."""

from __future__ import annotations

import subprocess
import sys

from pyjms_broker.management import view_attributes as attributes
from pyjms_broker.management.view_attributes import DESTINATION, DSTAT, Table

PROGRAM = """
import sys
import pyjms_broker.cli.main, pyjms_broker.management.view_attributes
print(*(name for name in sys.modules if name.startswith("pyjms_broker.")))
"""
TABLES: dict[str, Table] = {
    name: table
    for name, table in vars(attributes).items()
    if name.isupper() and isinstance(table, dict) and name != "DSTAT"
}


def test_commands_start_without_the_broker() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, timeout=60
    )
    packages = {name.split(".")[1] for name in done.stdout.split()}
    assert packages.isdisjoint({"region", "service", "store", "web", "console"})


def test_an_attribute_has_one_source() -> None:
    for table in TABLES.values():
        for name, attribute in table.items():
            assert not attribute.path or attribute.always is None, name
            assert attribute.help, name


def test_metrics_and_keys_of_events_are_unique() -> None:
    for table in TABLES.values():
        metrics = [each.metric.name for each in table.values() if each.metric is not None]
        events = [each.event for each in table.values() if each.event]
        assert len(metrics) == len(set(metrics))
        assert len(events) == len(set(events))


def test_the_columns_of_dstat_are_attributes() -> None:
    assert set(DSTAT) <= set(DESTINATION)
