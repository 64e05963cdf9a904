"""Uses and misuses of the API, as the real ActiveMQ answered them: oracle jms-client-rules."""

from __future__ import annotations

import pytest

from tests.kit.clients.embedded import Client
from tests.kit.clients.rules import NOT_HERE, RULES, check_rule


@pytest.mark.parametrize("name", RULES)
@pytest.mark.fact("jms-api 13/IllegalStateException")
async def test_a_rule(client: Client, name: str) -> None:
    await check_rule(client, name)


async def test_every_recorded_rule_is_tried_or_has_a_reason_why_not(client: Client) -> None:
    assert client.oracle("jms-client-rules").keys() == RULES.keys() | NOT_HERE.keys()
