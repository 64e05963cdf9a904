"""The failure of a user's module, separate from `loading` so that `--help` imports little."""

from __future__ import annotations

__all__ = ["UserCodeFailed"]


class UserCodeFailed(Exception):
    """A module of the user raised while it was imported."""

    def __init__(self, report: str) -> None:
        """Keep the traceback, from the user's first line on, as text."""
        super().__init__(report)
        self.report = report
