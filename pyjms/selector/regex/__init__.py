"""Regular expressions that always end in time, for patterns that strangers send.

The common ground of Java's and Python's syntax, without what needs exponential time.
"""

from __future__ import annotations

from pyjms.selector.regex.machine import MAX_STEPS, Match, Pattern
from pyjms.selector.regex.syntax import MAX_INSTRUCTIONS, compile_pattern

__all__ = ["MAX_INSTRUCTIONS", "MAX_STEPS", "Match", "Pattern", "compile_pattern"]
