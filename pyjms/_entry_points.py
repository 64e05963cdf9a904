"""Entry points of installed distributions.

`importlib.metadata` is imported by the first look-up, not with this module: it loads the mail, zip
and pathlib packages, a tenth of the time that `from pyjms import ConnectionFactory` takes, and what
is built in is found without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

__all__ = ["entry_points"]


def entry_points(*, group: str, name: str | None = None) -> EntryPoints:
    """Return the installed entry points of a group, or those of a name in it. Reads files."""
    from importlib import metadata  # noqa: PLC0415 - see the module's docstring

    if name is None:
        return metadata.entry_points(group=group)
    return metadata.entry_points(group=group, name=name)
