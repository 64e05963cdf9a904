"""docs/peers.md lists the differences that the suite of all brokers knows, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from tests.kit.servers.peers import BROKERS, DIFFERENCES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "peers.md"
KINDS = {
    "the bundled broker": "pyjms",
    "ActiveMQ 5.17.2": "activemq",
    "ActiveMQ 6": "activemq6",
    "Artemis": "artemis",
}


def test_the_page_lists_each_difference_with_its_brokers() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    listed = {name: {KINDS[kind] for kind in kinds.split(", ")} for name, kinds in rows}
    assert listed == DIFFERENCES
    assert set(KINDS.values()) == set(BROKERS)


def test_each_difference_is_asked_for() -> None:
    suite = PAGE.parents[1] / "tests"
    files = [
        suite / "kit" / "servers" / "peers.py",
        *(suite / "integration" / "peers").glob("test_*.py"),
    ]
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    asked = set(re.findall(r'differs\(\s*"(\w+)"', text))
    assert asked == set(DIFFERENCES)
