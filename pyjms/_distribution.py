"""The project's distribution name, which differs from its import name."""

from __future__ import annotations

import importlib
from typing import Any

from pyjms.errors import ConfigurationException

__all__ = ["DISTRIBUTION", "install_command", "optional"]

DISTRIBUTION = "pyjms-framework"
"""The distribution's name for pip; the name `pyjms` belongs to another project."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for error messages and hints."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def optional(module: str, what: str, extra: str) -> Any:
    """Import a module that needs the packages of an extra, and return it.

    Raises:
        ConfigurationException: a package is missing; the text begins with `what`.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigurationException(
            f"{what}: the package {error.name!r} is not installed", hint=install_command(extra)
        ) from error
