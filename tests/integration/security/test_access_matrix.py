"""Every operation of every role, over OpenWire; ActiveMQ passes the same matrix."""

from __future__ import annotations

import pytest

from tests.kit.brokers.access_matrix import DESTINATIONS, OPERATIONS, RIGHTS, USERS, expected, found
from tests.kit.brokers.security import StartSecured


@pytest.mark.fact("activemq-edges SE4")
@pytest.mark.fact("activemq-edges SE5")
@pytest.mark.fact("activemq-edges SE6")
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_each_role_may_do_what_the_matrix_says(secured: StartSecured, operation: str) -> None:
    async with secured(USERS, RIGHTS, destinations=DESTINATIONS) as broker:
        assert await found(await broker.broker.tcp_url(), operation) == expected(operation)
