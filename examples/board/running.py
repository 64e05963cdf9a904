"""Runs `pyjms pipeline run --once` in its own process, which may be killed in a batch."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from examples.processes import ROOT

__all__ = ["run_pipelines"]

CONFIG = Path(__file__).with_name("application.yaml")
COMMAND = Path(sys.executable).with_name("pyjms")
LOOK_EVERY = 0.02
LOOK_AT_A_START_EVERY = 0.5
"""Seconds; Spark starts for longer, and needs the processor itself."""
PROGRESS = re.compile(r"Starting Spark with .*|Spark: .*")
INTO_A_BATCH = 0.25
"""Seconds; shorter than a batch, which spends most of its time in its tasks."""
DEADLINE = 300.0


def run_pipelines(
    folder: Path, url: str, only: Sequence[str], *, kill_from: int | None = None
) -> int | None:
    """Run the pipelines until nothing is left to read, and return the exit code.

    `kill_from`: SIGKILL for the whole process group, in the middle of this batch of the first
    pipeline, or of a later one if this was too quick. None is returned then; the exit code if all
    were.
    """
    arguments = ["pipeline", "run", "--once", "--config", str(CONFIG)]
    for name in only:
        arguments += ["--only", name]
    path = folder / "pipelines.log"
    with (
        path.open("a") as log,
        path.open(encoding="utf-8") as lines,
        running(
            [str(COMMAND), *arguments, "examples.board.pipelines"], folder, url, log.fileno()
        ) as process,
    ):
        began, seen = time.monotonic(), len(finished(folder, only[0]))
        before = len(planned(folder, only[0]))
        lines.seek(0, os.SEEK_END)
        while process.poll() is None:
            for line in lines:
                if found := PROGRESS.search(line):
                    print(f"  {found[0]}", flush=True)
            done = sorted(finished(folder, only[0]))
            for number in done[seen:]:
                print(f"  batch {number} done after {time.monotonic() - began:.1f} s", flush=True)
            seen = len(done)
            if kill_from is not None and was_in_a_batch(process, folder, only[0], kill_from):
                return None
            if time.monotonic() - began > DEADLINE:
                sys.exit(f"The pipelines did not end: see {folder / 'pipelines.log'}")
            is_at_work = len(planned(folder, only[0])) > before
            time.sleep(LOOK_EVERY if is_at_work else LOOK_AT_A_START_EVERY)
        return process.returncode


def was_in_a_batch(
    process: subprocess.Popen[bytes], folder: Path, pipeline: str, first: int
) -> bool:
    """Kill the group if it is in the middle of batch `first` or later; return whether it was."""
    in_progress = planned(folder, pipeline) - finished(folder, pipeline)
    if not in_progress or min(in_progress) < first:
        return False
    time.sleep(INTO_A_BATCH)
    if in_progress <= finished(folder, pipeline):
        return False
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if in_progress <= finished(folder, pipeline):
        sys.exit("The batch ended in the instant before the kill: run it again")
    print(f"  killed in batch {min(in_progress)}", flush=True)
    return True


@contextlib.contextmanager
def running(
    command: list[str], folder: Path, url: str, log: int
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a process in its own group, and end the whole group afterwards."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYJMS_ACTIVEMQ__BROKER_URL": url}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def planned(folder: Path, pipeline: str) -> set[int]:
    """Return the batches that Spark has begun, according to its checkpoint."""
    return numbers(folder, pipeline, "offsets")


def finished(folder: Path, pipeline: str) -> set[int]:
    """Return the completed batches, according to its checkpoint."""
    return numbers(folder, pipeline, "commits")


def numbers(folder: Path, pipeline: str, kind: str) -> set[int]:
    files = (folder / "checkpoints" / pipeline / "checkpoint" / kind).glob("*")
    return {int(file.name) for file in files if file.name.isdigit()}
