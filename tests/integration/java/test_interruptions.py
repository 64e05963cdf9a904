"""A listener whose connection is lost, and restored, during its call.

What the Java client does, and ours: tests/integration/failover/test_interrupted_listeners.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from pyjms.enums import AcknowledgeMode

pytestmark = pytest.mark.activemq


@pytest.mark.parametrize(("end", "calls"), [("throws", 2), ("returns", 1)])
@pytest.mark.parametrize("mode", [AcknowledgeMode.AUTO, AcknowledgeMode.DUPS_OK])
def test_what_failed_comes_again_and_nothing_is_a_dead_letter(
    java: Any, name: str, end: str, calls: int, mode: AcknowledgeMode
) -> None:
    found = java("interrupted-listener", name, end, int(mode))
    texts = [delivery.partition("#")[0] for delivery in found["deliveries"]]
    assert texts[0] == "first"
    assert min(texts.count("first"), 2) == calls  # a copy of the redelivery may come as well
    assert found["dead"] is None  # of "first"; Java's client may refuse "second" as a duplicate
