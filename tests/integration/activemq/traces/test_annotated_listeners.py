"""All that the real Spring did with annotated listeners, on ActiveMQ, and on ours over TCP."""

from __future__ import annotations

import pytest

from tests.kit.data import spring_oracle
from tests.kit.listeners.annotated import DECIDED_OTHERWISE, check, replay

pytestmark = pytest.mark.activemq
AT_ONCE = "jms.redeliveryPolicy.initialRedeliveryDelay=0&jms.redeliveryPolicy.redeliveryDelay=0"


async def test_annotated_listeners_do_what_spring_s_did(broker_url: str, name: str) -> None:
    recorded = spring_oracle()["annotated-listener"]
    mark = "&" if "?" in broker_url else "?"
    found = await replay(f"{broker_url}{mark}{AT_ONCE}", f"{name}.")
    compared = check(found, recorded)
    assert {*compared, *DECIDED_OTHERWISE} == set(recorded)
