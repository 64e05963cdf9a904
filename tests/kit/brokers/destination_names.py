"""Names of destinations at brokers that many tests share."""

from __future__ import annotations

import pytest

__all__ = ["destination_name"]


def destination_name(request: pytest.FixtureRequest) -> str:
    """Return a name that no other test uses, nor an earlier attempt at this one."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name).strip("-")
    attempt = getattr(request.node, "execution_count", 1)
    return name if attempt == 1 else f"{name}-{attempt}"
