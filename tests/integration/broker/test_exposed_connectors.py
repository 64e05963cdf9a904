"""A connector that other machines can reach is reported while the broker has no users."""

from __future__ import annotations

import pytest

from pyjms_broker.service import BrokerService


@pytest.mark.parametrize(
    ("host", "is_exposed"),
    [("127.0.0.1", False), ("localhost", False), ("", False), ("0.0.0.0", True)],
)
async def test_an_address_beyond_loopback_is_warned_of(
    host: str, is_exposed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    service = BrokerService("exposed", persistent=False)
    connector = service.add_connector(f"tcp://{host}:0")
    async with service:
        port = int(connector.connect_uri.rpartition(":")[2])
    warned = [r for r in caplog.records if "is open to other machines" in r.getMessage()]
    assert len(warned) == is_exposed
    if is_exposed:
        assert warned[0].levelname == "WARNING"
        assert f"at {host}" in warned[0].getMessage()
        assert f"port {port}" in warned[0].getMessage()
