"""Regular expressions whose cost is bounded, for patterns from untrusted clients.

The common subset of Java's and Python's syntax, without the forms that need exponential time.
"""

from __future__ import annotations

from pyjms.selector.regex.machine import Match, Pattern
from pyjms.selector.regex.syntax import MAX_INSTRUCTIONS, compile_pattern

__all__ = ["MAX_INSTRUCTIONS", "Match", "Pattern", "compile_pattern"]
