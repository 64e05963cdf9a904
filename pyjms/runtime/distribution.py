"""Installed distributions: this project's name and extras, and the entry points of all."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from pyjms.errors import ConfigurationException

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

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


def entry_points(*, group: str, name: str | None = None) -> EntryPoints:
    """Return the installed entry points of a group, or those of a name in it. Reads files."""
    # imported here: it loads the mail and zip packages, a tenth of the start-up of a client
    from importlib import metadata  # noqa: PLC0415

    if name is None:
        return metadata.entry_points(group=group)
    return metadata.entry_points(group=group, name=name)
