"""STOMP clients log in with the headers `login` and `passcode`. (activemq-edges ST1)"""

from __future__ import annotations

import pytest

from pyjms_broker.security.passwords import hash_password
from tests.kit.brokers.security import simple, user
from tests.kit.stomp.client import StartStomp


@pytest.mark.parametrize("password", ["secret", "hash"])
async def test_a_stomp_client_logs_in(stomp_broker: StartStomp, password: str) -> None:
    stored = hash_password("secret") if password == "hash" else password
    async with stomp_broker(plugins=[simple(user("alice", password=stored))]) as broker:
        client = await broker.open()
        await client.send("CONNECT", {"login": "alice", "passcode": "secret", "host": "h"})
        await client.receive("CONNECTED")
        refused = await broker.open()
        frame = await refused.connect(login="alice", passcode="wrong")
        assert frame.command == "ERROR"
        assert frame.headers["message"] == "User name [alice] or password is invalid."
