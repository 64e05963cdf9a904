"""The name under which the project is installed, which is not its import name."""

from __future__ import annotations

__all__ = ["DISTRIBUTION", "install_command"]

DISTRIBUTION = "pyjms-framework"
"""The distribution's name for pip. `pyjms` alone is another project's."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for error messages and hints."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'
