"""The lock that keeps a second broker out: in this process, in another one, in Java."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from pyjms.errors import ResourceAllocationException
from pyjms.runtime.event_loop import spawn
from pyjms.testing.clock import VirtualClock
from pyjms_broker.store.files import SharedFileLock

HOLDER = """
import sys
from pathlib import Path
from pyjms_broker.store.files import SharedFileLock
lock = SharedFileLock(Path(sys.argv[1]))
print(lock.try_acquire(), flush=True)
sys.stdin.readline()
"""


def try_elsewhere(path: Path) -> bool:
    """Whether another process gets the lock."""
    child = subprocess.run(
        [sys.executable, "-c", HOLDER, str(path)],
        input="\n",
        capture_output=True,
        text=True,
        check=True,
    )
    return child.stdout.strip() == "True"


@pytest.mark.fact("activemq-persistence H1")
async def test_one_broker_holds_it_and_the_others_wait_and_say_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    path = tmp_path / "kahadb" / "lock"
    master = SharedFileLock(path)
    await master.acquire()
    assert master.held
    assert not try_elsewhere(path)
    strict = SharedFileLock(path, fail_if_locked=True)
    with pytest.raises(ResourceAllocationException, match="is locked by another server"):
        await strict.acquire()
    assert not try_elsewhere(path), "the second holder's try has not dropped the record lock"

    slave = SharedFileLock(path)  # 10 seconds, as ActiveMQ has it
    async with VirtualClock() as clock:
        waiting = spawn(slave.acquire, name="slave")
        await clock.advance(35.0)
        assert bool(slave.slave)
        assert not bool(slave.held)
        said = [r.getMessage() for r in caplog.records]
        once = "is locked by another server. This broker is now in slave mode waiting a lock"
        assert said == [f"{path} {once} to be acquired"]
        master.release()
        assert not bool(master.held)
        await clock.advance(4.9)
        assert not bool(slave.held)
        await clock.advance(0.1)
        await waiting.wait()
        assert slave.held
        assert not slave.slave
    assert not try_elsewhere(path)
    slave.release()
    slave.release()
    assert try_elsewhere(path)


async def test_a_waiting_broker_can_be_stopped(tmp_path: Path) -> None:
    master, slave = SharedFileLock(tmp_path / "lock"), SharedFileLock(tmp_path / "lock")
    assert master.try_acquire()
    assert master.try_acquire(), "again is no error"
    async with VirtualClock() as clock:
        with anyio.CancelScope() as scope:
            waiting = spawn(slave.acquire, name="slave")
            await clock.advance(1.0)
            assert slave.slave
            waiting.cancel()
            await waiting.wait()
        assert not scope.cancelled_caught
    assert not slave.slave
    master.release()


@pytest.mark.fact("activemq-persistence H2")
def test_the_lock_is_lost_if_its_file_is_changed_or_removed(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = SharedFileLock(path)
    assert not lock.keep_alive()
    assert lock.try_acquire()
    assert int.from_bytes(path.read_bytes(), "big") > 1_600_000_000_000
    assert lock.keep_alive()
    os.utime(path, ns=(1, 1))
    assert not lock.keep_alive(), "somebody else has written to it"
    lock.release()
    assert lock.try_acquire()
    assert lock.keep_alive()
    path.unlink()
    assert not lock.keep_alive(), "it is another file, or none"
    lock.release()
    assert not lock.keep_alive()


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ResourceAllocationException, match="Cannot lock"):
        SharedFileLock(tmp_path / "file" / "lock").try_acquire()


def test_a_removed_or_locked_file_is_not_locked(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "True\n"
    lock = SharedFileLock(path)
    assert not lock.try_acquire()
    child.communicate("\n")
    assert lock.try_acquire(), "a holder's end gives it up"
    lock.release()
