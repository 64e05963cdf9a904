"""All that the real Spring did with annotated listeners, on the bundled broker."""

from __future__ import annotations

from pyjms.support.embedded_broker import EmbeddedBroker
from tests.kit.data import spring_oracle
from tests.kit.listeners.annotated import DECIDED_OTHERWISE, check, replay


async def test_annotated_listeners_do_what_spring_s_did(
    jms_broker: EmbeddedBroker, pyjms_broker_url: str
) -> None:
    recorded = spring_oracle()["annotated-listener"]
    compared = check(await replay(pyjms_broker_url, ""), recorded)
    assert {*compared, *DECIDED_OTHERWISE} == set(recorded)
