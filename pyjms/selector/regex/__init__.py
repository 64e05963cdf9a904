"""Regular expressions with a bounded cost, for patterns from untrusted clients.

They support the common subset of Java's and Python's syntax, except constructs that need
exponential time.
"""

from __future__ import annotations

from pyjms.selector.regex.machine import Match, Pattern
from pyjms.selector.regex.syntax import MAX_INSTRUCTIONS, compile_pattern

__all__ = ["MAX_INSTRUCTIONS", "Match", "Pattern", "compile_pattern"]
