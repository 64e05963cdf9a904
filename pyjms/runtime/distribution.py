"""Installed distributions: this project's name and extras, and the entry points of all."""

from __future__ import annotations

import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any

from pyjms.errors import ConfigurationException

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

DISTRIBUTION = "pyjms-framework"
"""The distribution's name for pip; the name `pyjms` belongs to another project."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra, for error messages and hints.

    It names the folder of a checkout that was installed (PEP 610).
    """
    import json  # noqa: PLC0415 - for errors
    from importlib import metadata  # noqa: PLC0415
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415

    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    source = json.loads(text or "{}")
    folder = unquote(urlsplit(source["url"]).path) if "dir_info" in source else ""
    return f'pip install "{folder or DISTRIBUTION}[{extra}]"'


def optional(module: str, what: str, extra: str) -> Any:
    """Import a module that needs the packages of an extra, and return it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ConfigurationException(
            f"{what}: the package {error.name!r} is not installed", hint=install_command(extra)
        ) from error


def entry_points(*, group: str, name: str | None = None) -> EntryPoints:
    """Return the installed entry points of a group, or those of a name in it."""
    found: EntryPoints = _read_all(tuple(sys.path)).select(group=group)
    return found if name is None else found.select(name=name)


@functools.cache
def _read_all(_path: tuple[str, ...]) -> Any:
    """Return all entry points: to read them takes as long for one group as for all."""
    # imported here: it loads the mail and zip packages, a tenth of the start-up of a client; before
    # Python 3.12 its entry points are not of the type EntryPoints
    from importlib import metadata  # noqa: PLC0415

    return metadata.entry_points()
