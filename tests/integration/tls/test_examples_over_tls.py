"""The applications of `make run` on a broker with TLS, through `failover:`, by configuration alone.

`make run` has all flights, on a broker without TLS; here are some.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import yaml

from tests.kit.processes.children import accepted_url, started
from tests.kit.processes.forked_python import ForkedPython
from tests.kit.tls import CertificateFiles

ROOT = Path(__file__).resolve().parents[3]
REDELIVERY = "&".join(
    f"jms.redeliveryPolicy.{option}"
    for option in ("maximumRedeliveries=2", "initialRedeliveryDelay=5", "redeliveryDelay=5")
)


class Broker:
    """The examples' broker with TLS in a separate process, which keeps its port and data."""

    def __init__(self, certificate: str, folder: Path) -> None:
        self._certificate = certificate
        self._folder = folder
        self._running = ExitStack()
        self.url = "ssl://127.0.0.1:0"

    def start(self) -> None:
        """Start it, in the test's own thread: a child ends with the thread that started it."""
        tree = yaml.safe_load((ROOT / "examples" / "broker.yaml").read_text(encoding="utf-8"))
        tree["connectors"] = [{"uri": self.url, "tls": {"key_store": self._certificate}}]
        tree["data_directory"] = str(self._folder / "data")
        path = self._folder / "broker.yaml"
        path.write_text(yaml.safe_dump(tree), encoding="utf-8")
        log = self._folder / "broker.log"
        command = [sys.executable, "-m", "pyjms_broker", "--config", str(path)]
        self.url = accepted_url(self._running.enter_context(started(command, log)), log)

    def stop(self) -> None:
        """Stop it in order."""
        self._running.close()

    def restart(self) -> None:
        self.stop()
        self.start()


@pytest.fixture
def broker(files: CertificateFiles, tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(files.issue(), tmp_path)
    broker.start()
    yield broker
    broker.stop()


def run(module: str, *arguments: str, **environment: str) -> Iterator[str]:
    """Run an example to its end, and yield the lines that it prints."""
    variables = {**os.environ, **environment, "PYTHONUNBUFFERED": "1"}
    with ForkedPython(["-m", module, *arguments], cwd=ROOT, env=variables) as child:
        assert child.stdout is not None
        lines = []
        for line in child.stdout:
            lines.append(line)
            yield line
    assert child.returncode == 0, "".join(lines)[-5000:]


@pytest.mark.timeout(150)
def test_the_flights(broker: Broker, files: CertificateFiles) -> None:
    printed = list(
        run(
            "examples.flights",
            PYJMS_ACTIVEMQ__BROKER_URL=f"failover:({broker.url})?{REDELIVERY}",
            PYJMS_ACTIVEMQ__TLS__TRUST_STORE=files.trust,
            PYJMS_APP__RECORDS="1000",
        )
    )
    assert any("Sending 1000 departures" in line for line in printed)


@pytest.mark.nightly
@pytest.mark.timeout(550)
def test_the_board_and_a_restart_of_its_broker(
    broker: Broker, files: CertificateFiles, tmp_path: Path
) -> None:
    """Spark reads and writes; the broker is restarted between two batches."""
    pytest.importorskip("pyspark")
    restarts = 0
    checks = []
    for line in run(
        "examples.board",
        "--chart",
        str(tmp_path / "chart.svg"),
        PYJMS_ACTIVEMQ__BROKER_URL=f"failover:({broker.url}?ssl.trustStore={files.trust})",
    ):
        if " done after " in line and restarts < 2:
            broker.restart()
            restarts += 1
        if line.startswith(("  ok ", "  NOT ")):
            checks.append(line.strip())
    assert restarts == 2
    assert checks
    assert not [check for check in checks if check.startswith("NOT")]
