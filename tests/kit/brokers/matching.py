"""The comparisons of patterns with names."""

from __future__ import annotations

import pytest

from pyjms.jms.destination import Destination
from pyjms_broker.policy import wildcard


@pytest.fixture
def matched(monkeypatch: pytest.MonkeyPatch) -> list[Destination]:
    """The patterns that are compared with names, once for each comparison."""
    found: list[Destination] = []
    matches = wildcard.matches

    def recorded(pattern: Destination, destination: Destination) -> bool:
        found.append(pattern)
        return matches(pattern, destination)

    monkeypatch.setattr(wildcard, "matches", recorded)
    return found
