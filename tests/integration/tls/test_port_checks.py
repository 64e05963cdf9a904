"""Connections that are closed unused, as health checks of containers do: no line of the log."""

from __future__ import annotations

import logging

import anyio
import pytest

from pyjms_broker.service import BrokerService
from pyjms_broker.testing import EmbeddedTestBroker
from tests.kit.tls import CertificateFiles
from tests.kit.waiting import until

CHECKS = 3


@pytest.mark.parametrize("scheme", ["tcp", "ssl", "auto", "stomp", "ws"])
async def test_a_port_check_is_logged_for_debugging_only(
    scheme: str, files: CertificateFiles, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="pyjms_broker")
    options = f"?ssl.keyStore={files.issue()}" if scheme == "ssl" else ""
    service = BrokerService("checked", persistent=False)

    def ends() -> list[logging.LogRecord]:
        return [
            record
            for record in caplog.records
            if "://127.0.0.1:" in record.getMessage() and "connect" in record.getMessage()
        ]

    async with EmbeddedTestBroker(service):
        connector = service.add_connector(f"{scheme}://127.0.0.1:0{options}")
        await connector.start()
        caplog.clear()
        port = int(connector.connect_uri.rpartition(":")[2])
        for number in range(CHECKS):
            stream = await anyio.connect_tcp("127.0.0.1", port)
            await stream.aclose()
            await until(lambda: len(ends()) > number)  # noqa: B023 - called at once
        await until(lambda: not connector.connections)
    assert [record.levelno for record in ends()] == [logging.DEBUG] * CHECKS
