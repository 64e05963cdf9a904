"""Runs the transfer of docs/transactions.md, and kills its own process at a point.

Arguments: log, source, target, and the point: `prepare 2` is after the second prepare.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import transfer  # type: ignore[import-not-found]  # the module of the documentation, beside this one

from pyjms.sync import XAResource


def killing(owner: Any, name: str, point: str) -> None:
    """Replace a method by one that kills the process after the call that `point` names."""
    original: Callable[..., object] = getattr(owner, name)
    calls = 0

    @functools.wraps(original)
    def call(*arguments: object) -> object:
        nonlocal calls
        result = original(*arguments)
        calls += 1
        if point == f"{name} {calls}":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, call)


if __name__ == "__main__":
    log, source, target, point = sys.argv[1:]
    for owner, name in (
        (XAResource, "start"),
        (XAResource, "end"),
        (XAResource, "prepare"),
        (XAResource, "commit"),
        (transfer.TransactionManager, "decide"),
    ):
        killing(owner, name, point)
    print(transfer.transfer(transfer.TransactionManager(Path(log)), source, target, "work"))
