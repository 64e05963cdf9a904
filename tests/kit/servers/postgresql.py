"""A PostgreSQL server of the tests' own: Debian's programs, a temporary folder, one per process.

PostgreSQL refuses to run as root; there it runs as the user `postgres`. Its socket is in its
folder, which is directly below /tmp because a socket's path may have about 100 characters only.
"""

from __future__ import annotations

import atexit
import itertools
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from pyjms_broker.store.jdbc.settings import JDBCSettings, Statements

_numbers = itertools.count(1)


def programs() -> Path | None:
    """Where initdb and pg_ctl are; None: they are not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if found:
        return found[-1].parent
    path = shutil.which("initdb")
    return None if path is None else Path(path).parent


@cache
def skip_reason() -> str | None:
    """Why PostgreSQL cannot be tested here, if it cannot."""
    if sys.platform == "win32":
        return "PostgreSQL is tested on Unix"
    if programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    try:
        import psycopg  # noqa: F401
    except ImportError:
        return "psycopg is not installed (pip install 'psycopg[binary]')"
    return None


class Cluster:
    """A server that can be stopped and started."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="pyjms-pg-", dir="/tmp"))
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self._run("initdb", "-D", "data", "-U", "pyjms", "--auth=trust", "-E", "UTF8", "--no-sync")
        self.start()
        atexit.register(self.remove)

    @property
    def url(self) -> str:
        return f"postgresql+psycopg://pyjms@/postgres?host={self.folder}"

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off"
        self._run("pg_ctl", "-D", "data", "-w", "-o", options, "-l", "log", "start")

    def stop(self) -> None:
        """End it without letting clients finish."""
        self._run("pg_ctl", "-D", "data", "-w", "-m", "immediate", "stop")

    def remove(self) -> None:
        if (self.folder / "data" / "postmaster.pid").exists():
            self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: str) -> None:
        folder = programs()
        assert folder is not None
        as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
        subprocess.run(
            [*as_user, str(folder / program), *arguments],
            cwd=self.folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60,
        )


@cache
def cluster() -> Cluster:
    """Return the process's server; start it the first time."""
    return Cluster()


def settings(directory: Path) -> JDBCSettings:
    """Settings for separate tables, the same for the same directory in one test.

    (A test may get a folder of the same name as that of an earlier one, which pytest has removed.)
    """
    return _settings(directory, os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" ")[0])


@cache
def _settings(_directory: Path, _test: str) -> JDBCSettings:
    prefix = f"t{next(_numbers)}_"
    return JDBCSettings(data_source=cluster().url, statements=Statements(table_prefix=prefix))


@pytest.fixture(name="postgresql")
def postgresql_fixture() -> ModuleType:
    """`cluster()` and `settings(directory)`; skips where PostgreSQL is absent."""
    reason = skip_reason()
    if reason:
        pytest.skip(reason)
    return sys.modules[__name__]
