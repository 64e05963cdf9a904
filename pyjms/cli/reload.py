"""`pyjms run --reload`: waits for changes of the application's files (watchfiles)."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Final

from pyjms.errors import ConfigurationException
from pyjms.runtime.distribution import install_command

try:
    import watchfiles
except ImportError:  # `watched_folders` raises the error
    watchfiles = None  # type: ignore[assignment]


_SUFFIXES: Final = (".py", ".yaml", ".yml", ".toml", ".json")
_IGNORED: Final = frozenset(
    {".git", ".hg", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".venv", "__pycache__",
     "node_modules", "site-packages", "venv"}
)  # fmt: skip


def watched_folders(named: Sequence[Path] | None) -> list[Path]:
    """Return the folders to watch: those named, or else the current one.

    Raises:
        ConfigurationException: a folder does not exist, or watchfiles is not installed.
    """
    if watchfiles is None:
        raise ConfigurationException(
            "--reload needs the package watchfiles", hint=install_command("reload")
        )
    folders = list(named or [Path.cwd()])
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    if missing:
        raise ConfigurationException(
            f"--reload-dir: there is no folder {', '.join(missing)}", hint="name existing folders"
        )
    return folders


async def wait_for_changes(
    folders: Sequence[Path], on_change: Callable[[str], Awaitable[None]]
) -> None:
    """Await `on_change(text)` after each change of code or settings files below `folders`.

    Changes within a short time (an editor saves several files) count as one. Runs until cancelled.
    """

    def is_watched(_: object, path: str) -> bool:
        return path.endswith(_SUFFIXES) and _IGNORED.isdisjoint(Path(path).parts)

    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # its own messages are less specific
    async for changes in watchfiles.awatch(*folders, watch_filter=is_watched):
        await on_change(_describe({path for _, path in changes}))


def _describe(paths: set[str]) -> str:
    names = sorted(os.path.relpath(path) for path in paths)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{', '.join(names[:3])}{more} changed"
