"""A listener whose connection is lost, and restored, during its call: what the Java client does.

A message that its listener has handled is consumed. The broker may deliver it again before the
acknowledgement comes: the client refuses that copy as a duplicate, a dead letter. A message that
its listener failed on is delivered again, or refused likewise: that depends on which of its threads
is quicker. Ours delivers the latter always, and refuses neither:
tests/integration/failover/test_interrupted_listeners.py.
"""

from __future__ import annotations

import pytest

from pyjms.enums import AcknowledgeMode
from tests.kit.servers.java_client import Java

pytestmark = pytest.mark.activemq


@pytest.mark.parametrize("end", ["throws", "returns"])
@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK])
def test_an_interrupted_call_of_the_java_client(
    java: Java, name: str, end: str, mode: AcknowledgeMode
) -> None:
    found = java("interrupted-listener", name, end, int(mode))
    texts = [delivery.partition("#")[0] for delivery in found["deliveries"]]
    assert texts[0] == "first"
    if end == "throws":
        assert texts.count("first") > 1 or found["dead"]["body"] == ["text", "first"]
    else:
        assert texts.count("first") == 1
        assert found["dead"] is None or found["dead"]["body"] == ["text", "first"]
