"""How many examples property tests try: few in every run, many in the nightly run."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

FACTOR = int(os.environ.get("TEST_EXAMPLES", "1"))
"""By how much `make nightly` multiplies the number of examples."""
DEFAULT = 50
"""The number of examples of tests that do not give their own."""


def examples(number: int, **more: Any) -> settings:
    """Return settings with this number of examples, without a deadline for each."""
    return settings(max_examples=number * FACTOR, deadline=None, **more)


def leave_out_constants_of_modules() -> None:
    """Have Hypothesis generate values without the constants of the modules that are loaded.

    It parses all of them, tests included, which takes each worker seconds, and compares each with
    what a strategy allows; and what a test generates would depend on the tests before it.
    `make nightly` has them.
    """
    if FACTOR == 1:
        providers._get_local_constants = Constants
