"""Starts the supervisor of `pyjms run`, and ends the process with its exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import anyio

from pyjms._logger import get_logger
from pyjms.cli.logs import configure_logging
from pyjms.errors import ConfigurationException

__all__ = ["supervise"]

logger: Final = get_logger(__name__)


def supervise(workers: int, folders: Sequence[Path] | None, *, reload: bool) -> NoReturn:
    """Run this command line in `workers` processes until SIGINT or SIGTERM, and exit.

    `reload`: restart them when files below `folders` (None: the current folder) change.

    Raises:
        ConfigurationException: the operating system does not have the required signals, or
            `--reload` cannot watch the folders.
    """
    if sys.platform == "win32":
        raise ConfigurationException(
            "--workers and --reload need a Unix system",
            hint="start `pyjms run` once for each process",
        )
    from pyjms.cli.workers.process import command_of_this_process
    from pyjms.cli.workers.supervisor import Supervisor

    changes = None
    configure_logging({})
    if reload:
        from pyjms.cli.workers.watching import wait_for_changes, watched_folders

        watched = watched_folders(folders)
        changes = partial(wait_for_changes, watched)
        logger.info("Watching %s", ", ".join(map(str, watched)))
    supervisor = Supervisor(command_of_this_process(), workers, changes)
    sys.exit(anyio.run(supervisor.run))
