"""STOMP clients in other languages: Perl's Net::Stomp, PHP's Stomp, stompit and stompjs of npm."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.kit.servers.java_programs import digest, kept

INSTALL = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock")
INSTALL_TIMEOUT = 120


@dataclass(frozen=True)
class StompProgram:
    """A program that plays scenarios; `check` fails where its package is absent.

    A program without a check needs the packages of the package.json beside it.
    """

    file: str
    command: tuple[str, ...]
    scheme: str = "stomp"
    check: tuple[str, ...] = ()
    package: str = ""

    def run_in(self, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        """Start it, or skip the test."""
        environment = dict(os.environ)
        if self.check and not _succeeds(self.check):
            pytest.skip(f"no {self.package}: apt-get install {self.package}")
        if not self.check:
            modules = _node_modules(folder)
            if isinstance(modules, str):
                pytest.skip(f"{modules}: apt-get install nodejs npm")
            environment["NODE_PATH"] = str(modules)
        return subprocess.Popen(
            [*self.command, str(folder / self.file), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            env=environment,
        )


PROGRAMS: dict[str, StompProgram] = {
    "Net::Stomp": StompProgram(
        "net_stomp.pl",
        ("perl",),
        check=("perl", "-MNet::Stomp", "-e", "1"),
        package="libnet-stomp-perl",
    ),
    "php-stomp": StompProgram(
        "php_stomp.php",
        ("php",),
        check=("php", "-r", "exit(class_exists('Stomp') ? 0 : 1);"),
        package="php-stomp",
    ),
    "stompit": StompProgram("stompit.js", ("node",)),
    "stompjs": StompProgram("stompjs.js", ("node",), scheme="ws"),
}


@functools.cache
def _succeeds(command: Sequence[str]) -> bool:
    return (
        shutil.which(command[0]) is not None
        and subprocess.run(command, capture_output=True, check=False).returncode == 0
    )


@functools.cache
def _node_modules(folder: Path) -> Path | str:
    """Return where the packages of a package.json are, after installing them, or why not."""
    if shutil.which("npm") is None:
        return "no npm"
    wanted = folder / "package.json"
    try:
        with kept("npm", folder, digest([wanted])) as (installed, is_made):
            if not is_made:
                shutil.copy(wanted, installed)
                subprocess.run(
                    INSTALL, cwd=installed, check=True, capture_output=True, timeout=INSTALL_TIMEOUT
                )
            return installed / "node_modules"
    except subprocess.SubprocessError as error:
        return f"npm cannot install the packages of {wanted} ({error})"
