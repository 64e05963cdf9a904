"""ActiveMQ's locker and ours keep each other out of a store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pyjms_broker.store.files import SharedFileLock
from tests.kit.processes.children import Start

pytestmark = pytest.mark.activemq


def test_one_of_both_holds_the_lock(
    java_program: Callable[[Path], list[str]], process: Start, tmp_path: Path
) -> None:
    program = java_program(Path(__file__).with_name("lock_program"))
    ours = SharedFileLock(tmp_path / "kahadb" / "lock")
    assert ours.try_acquire()
    command = [*program, "Lock", str(tmp_path / "kahadb")]
    with process(command, tmp_path / "log") as child:

        def ask() -> str:
            child.stdin.write("x")
            child.stdin.flush()
            return str(child.stdout.readline().strip())

        assert ask() == "refused"
        assert ours.keep_alive(), "ActiveMQ has not touched what it could not lock"
        ours.release()
        assert ask() == "locked"
        assert not ours.try_acquire()
        assert ask() == "alive true"
        assert child.stdout.readline().strip() == "released"
        assert ours.try_acquire()
        ours.release()
