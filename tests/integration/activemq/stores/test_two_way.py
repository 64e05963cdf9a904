"""A data directory that ActiveMQ 5.17.2 and our broker use in turns; nothing is lost or changed.

Java's client fills one broker with 4,000 messages of all kinds (at night 10,000): sent alone, in transactions,
rolled back; taken out, acknowledged in part, rolled back; for durable subscriptions; in prepared
transactions. The other broker starts on the directory, and Java's client takes all out of it.
With mKahaDB there are three stores. (Not one for each destination: set up by code, ActiveMQ 5.17.2
puts those into the parent's folder, and loses prepared transactions at its own restart.)
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from pyjms.wire.kahadb.commands import KahaRewrittenDataFileCommand
from pyjms.wire.kahadb.journal import segment_number
from pyjms.wire.kahadb.segments import SegmentReader
from tests.kit.processes.children import Start
from tests.kit.properties import FACTOR
from tests.kit.runs.parallel import TWO_WAY_STORES

pytestmark = [pytest.mark.activemq, pytest.mark.timeout(900)]

EACH = 400 if FACTOR > 1 else 160
"""Messages in each of 20 queues; five times as many in a topic with three subscriptions."""

SEGMENT = EACH * 2560
READY = "accepts connections at"
USERS = """
plugins: {simple_authentication: {anonymous_access_allowed: true, anonymous_user: owner}}
"""
"""Stored as the owner of durable subscriptions."""
CONFIG = f"""
persistence:
  type: kahadb
  journal:
    max_file_length: {SEGMENT}
  cleanup_interval: 500ms
  checkpoint_interval: 200ms
"""
MULTI = f"""
persistence:
  type: multi_kahadb
  filtered_kahadb:
    - queue: ledger.xa.>
      journal: {{max_file_length: {SEGMENT}}}
    - queue: ledger.>
      journal: {{max_file_length: {SEGMENT}}}
    - journal: {{max_file_length: {SEGMENT}}}
"""


class Workshop:
    """Both brokers on one data directory, and Java's client for either."""

    def __init__(self, command: list[str], process: Any, folder: Path, multi: bool) -> None:
        self.command = command
        self.process = process
        self.folder = folder
        self.data = folder / "data"
        self.multi = multi
        self.store = folder / "data" / ("mkahadb" if multi else "kahadb")
        self.runs = 0

    @contextmanager
    def activemq(self) -> Iterator[str]:
        command = [*self.command, "StoreBroker", str(self.store), str(SEGMENT)]
        command += ["multi"] if self.multi else []
        with self._running(command) as (child, url):
            yield url
            child.stdin.close()
            assert child.wait(60) == 0

    @contextmanager
    def ours(self) -> Iterator[str]:
        config = self.folder / "broker.yaml"
        config.write_text((MULTI if self.multi else CONFIG) + USERS)
        command = [sys.executable, "-m", "pyjms_broker", "--config", str(config)]
        with self._running([*command, "--data", str(self.data), "--openwire", "127.0.0.1:0"]) as (
            child,
            url,
        ):
            yield url
            child.terminate()
            assert child.wait(60) == 0

    @contextmanager
    def _running(self, command: list[str]) -> Iterator[tuple[Any, str]]:
        self.runs += 1
        log = self.folder / f"broker{self.runs}.log"
        with self.process(command, log) as child:
            line = child.stdout.readline()
            assert READY in line, log.read_text()[-4000:]
            yield child, line.split()[-1].split("?")[0]

    def java(self, task: str, url: str, salt: str) -> dict[str, list[str]]:
        done = subprocess.run(
            [*self.command, "Ledger", task, url, salt, str(EACH)],
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]
        found: dict[str, list[str]] = json.loads(done.stdout.splitlines()[-1])
        return found


@pytest.fixture(params=[False, True], ids=["kahadb", "multi_kahadb"])
def workshop(
    java_program: Callable[[Path], list[str]],
    process: Start,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Workshop:
    command = java_program(Path(__file__).with_name("store_program"))
    return Workshop(command, process, tmp_path, request.param)


def same(expected: dict[str, list[str]], found: dict[str, list[str]]) -> None:
    expected = {"prepared": ["commit", "rollback"], **expected}
    assert found["prepared"] == expected["prepared"]
    assert sum(map(len, expected.values())) > 20 * EACH
    for place in sorted({*expected, *found}):
        wanted, there = expected.get(place, []), found.get(place, [])
        missing, surplus = Counter(wanted) - Counter(there), Counter(there) - Counter(wanted)
        assert not missing and not surplus, (
            f"{place}: of {len(wanted)} missing {len(missing)} {list(missing)[:3]}, "
            f"not expected {len(surplus)} {list(surplus)[:3]}"
        )


ONE_WAY = pytest.mark.parametrize(
    "workshop",
    [
        pytest.param(False, id="kahadb"),
        pytest.param(True, id="multi_kahadb", marks=pytest.mark.nightly),  # the last test has both
    ],
    indirect=True,
)


@ONE_WAY
@pytest.mark.fact("activemq-persistence K20")
@pytest.mark.fact("activemq-persistence K33")
def test_activemq_opens_what_we_wrote(workshop: Workshop) -> None:
    with workshop.ours() as url:
        expected = workshop.java("fill", url, "a")
    assert any(b"user:owner" in path.read_bytes() for path in workshop.store.rglob("db-*.log"))
    with workshop.activemq() as url:
        same(expected, workshop.java("drain", url, "a"))


@ONE_WAY
def test_we_open_what_activemq_wrote(workshop: Workshop) -> None:
    with workshop.activemq() as url:
        expected = workshop.java("fill", url, "b")
    with workshop.ours() as url:
        same(expected, workshop.java("drain", url, "b"))


@pytest.mark.xdist_group(TWO_WAY_STORES)
@pytest.mark.parametrize(
    "workshop",
    [
        pytest.param(False, id="kahadb", marks=pytest.mark.nightly),  # it has each way by itself
        pytest.param(True, id="multi_kahadb"),
    ],
    indirect=True,
)
def test_there_and_back_again(workshop: Workshop) -> None:
    with workshop.activemq() as url:
        first = workshop.java("fill", url, "c")
    with workshop.ours() as url:
        second = workshop.java("fill", url, "d")
    with workshop.activemq() as url:
        same(first, workshop.java("drain", url, "c"))
        third = workshop.java("fill", url, "e")
    with workshop.ours() as url:
        same(second, workshop.java("drain", url, "d"))
    with workshop.activemq() as url:
        same(third, workshop.java("drain", url, "e"))


def wait_for_compacted_acks(store: Path) -> None:
    """Wait until the last segment of ActiveMQ's idle store begins with their marker."""
    for _ in range(600):
        number, last = max((segment_number(path.name) or 0, path) for path in store.iterdir())
        record = next(SegmentReader(last.read_bytes(), number).records(), None)
        if record is not None and isinstance(record.command(), KahaRewrittenDataFileCommand):
            return
        time.sleep(0.1)  # another process's files
    pytest.fail("ActiveMQ has not compacted its acknowledgements")


@pytest.mark.xdist_group(TWO_WAY_STORES)
@pytest.mark.parametrize("workshop", [False], ids=["kahadb"], indirect=True)
@pytest.mark.fact("activemq-persistence K18")
def test_what_we_write_behind_activemqs_compacted_acknowledgements_stays(
    workshop: Workshop,
) -> None:
    with workshop.activemq() as url:
        first = workshop.java("fill", url, "f")
        wait_for_compacted_acks(workshop.store)
    with workshop.ours() as url:
        second = workshop.java("fill", url, "g")
    with workshop.activemq() as url:
        same(first, workshop.java("drain", url, "f"))
        same(second, workshop.java("drain", url, "g"))
