"""Generated identifiers: `ID:<host>-<process>-<millis>-<n>:<seq>`. (openwire-encoding 9)"""

from __future__ import annotations

import itertools
import os
import re
import socket
import time

from pyjms.runtime.fork import call_in_child, inherits

_generators = itertools.count(1)
_started_ms = int(time.time() * 1000)


@call_in_child
def _note_start() -> None:
    """Note when a forked process began: the number of an older child may be its own, too."""
    global _started_ms
    _started_ms = int(time.time() * 1000)


def host_name() -> str:
    """Return the host's name, reduced to the ASCII characters that are allowed in ids."""
    name = re.sub(r"[^A-Za-z0-9.-]", "", socket.gethostname().split(".")[0])
    return name or "localhost"


class IdGenerator:
    """Generates ids that are unique among all generators and processes. Thread-safe."""

    def __init__(self, prefix: str = "ID:") -> None:
        self._prefix = prefix
        self.on_fork()
        self._inheritance = inherits(self)

    def on_fork(self) -> None:
        """Start to generate ids that differ from those of the parent process."""
        number = next(_generators)
        self._seed = f"{self._prefix}{host_name()}-{os.getpid()}-{_started_ms}-{number}:"
        self._sequence = itertools.count(1)

    def generate(self) -> str:
        """Return the next id."""
        return f"{self._seed}{next(self._sequence)}"
