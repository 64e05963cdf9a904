"""STOMP clients of Perl, PHP and JavaScript, from their packages, play the same scenarios."""

from __future__ import annotations

from pathlib import Path

import pytest
from anyio import to_thread

from tests.kit.servers.stomp_clients import PROGRAMS
from tests.kit.stomp.client import StartStomp

FOLDER = Path(__file__).resolve().parent / "clients"
EXPECTED = {
    "exchange": ["5 % off gr\u00fc\u00dfe"],
    "bytes": ["6100ff"],
    "acknowledge": ["one", "two true"],
    "receipts": ["one", "two", "three"],
    "transaction": ["COMMIT"],
    "refusal": ["ERROR"],
    "nack": ["bad"],
}
"""What each client prints."""


@pytest.mark.stomp_clients
@pytest.mark.fact("activemq-edges ST18")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("client", PROGRAMS)
@pytest.mark.parametrize("scenario", EXPECTED)
async def test_client(stomp_broker: StartStomp, client: str, scenario: str) -> None:
    program = PROGRAMS[client]
    async with stomp_broker() as broker:
        connector = broker.broker.service.add_connector(f"{program.scheme}://127.0.0.1:0")
        await connector.start()
        port = connector.connect_uri.rpartition(":")[2].rstrip("/")
        process = await to_thread.run_sync(program.run_in, FOLDER, port, scenario)
        output, _ = await to_thread.run_sync(process.communicate)
    assert output.splitlines() == EXPECTED[scenario]
