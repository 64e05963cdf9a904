"""How many examples property tests try: few in every run, many in the nightly run."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

FACTOR = int(os.environ.get("TEST_EXAMPLES", "1"))
"""By how much `make nightly` multiplies the number of examples."""


def examples(number: int, **more: Any) -> settings:
    """Return settings with this number of examples, without a deadline for each."""
    return settings(max_examples=number * FACTOR, deadline=None, **more)
