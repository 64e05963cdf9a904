"""Runs a soak: starts the processes, disturbs them by the plan, and ends in an account."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.kit.soak.attacks import ATTACKS
from tests.kit.soak.clients.process import Options, command
from tests.kit.soak.events import EventLog
from tests.kit.soak.plan import Disturbance, plan, timely
from tests.kit.soak.processes import Broker, Child

__all__ = ["Soak"]

TICK: Final = 0.25
FAILS_WITHIN: Final = 60.0
"""Seconds in which a broker must have ended whose disk failed."""
FAILED: Final = 1
"""The exit status of a broker that stopped because its disk failed."""


@dataclass
class Soak:
    """One soak in a folder, which keeps all events and logs."""

    folder: Path
    seed: int
    seconds: float
    quiet: float = 12.0
    highest: int = 0
    """The most memory that the broker had, in bytes."""
    problems: list[str] = field(default_factory=list)
    """What processes did that they should not."""

    def __post_init__(self) -> None:
        self.events = self.folder / "events"
        self.events.mkdir(parents=True)
        self.log = EventLog(self.events / "supervisor")
        self.broker = Broker(self.folder)
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._disk_fails = False
        self._mortals = 0
        self._disturbances = 0
        self._began = 0.0
        self._minutes = 0

    # -- processes

    def _clients(self, name: str, *, mortal: bool = False, sends: bool = True) -> Child:
        options = Options(
            url=self.broker.url,
            log=str(self.events / name),
            name=name,
            seed=self.seed + self.broker.starts,
            quiet=self.quiet,
            mortal=mortal,
            sends=sends,
        )
        return Child(command(options), self.folder / name)

    def _start_mortal(self) -> None:
        self.mortal = self._clients(f"mortal{self._mortals}", mortal=True)
        self._mortals += 1
        self.mortal.start()

    def run(self) -> None:
        """Run all of it; takes `seconds` and the time to drain."""
        with ExitStack() as stack:
            stack.callback(self._end_all)
            self._start_broker()
            self.steady = self._clients("steady")
            self.steady.start()
            self.steady.wait_for("ready")
            self._start_mortal()
            python = [sys.executable, "-m"]
            canary = [
                *python,
                "tests.kit.soak.clients.canary",
                self.broker.url,
                str(self.events / "canary"),
            ]
            self.canary = Child(canary, self.folder / "canary")
            self.canary.start()
            port, events = str(self.broker.port), str(self.events / "hostile")
            self.hostile = Child(
                [*python, "tests.kit.soak.attacks.process", port, events], self.folder / "hostile"
            )
            self.hostile.start()
            self._disturb()
            self._finish()

    def _end_all(self) -> None:
        for name in ("hostile", "canary", "mortal", "steady", "broker"):
            child: Child | None = getattr(self, name, None)
            if child is not None and child.starts:
                child.end()

    def _start_broker(self) -> None:
        self.log.write("up")
        self.broker.start()
        self.log.write("ready")

    def _restart(self, why: str) -> None:
        """Note that the broker is down, and start it again."""
        self.log.write("down", why)
        status = self.broker.end()
        if self._disk_fails and status not in (FAILED, -signal.SIGKILL):
            self.problems.append(f"{self.broker.current_log.name}: exit status {status}")
        self._check_log()
        self._disk_fails = False
        self._start_broker()

    def _check_log(self) -> None:
        """See that the broker met nothing that it did not expect."""
        log = self.broker.current_log
        if not self._disk_fails and "Traceback" in log.read_text(encoding="utf-8"):
            self.problems.append(f"{log.name}: a traceback")

    # -- disturbances

    def _disturb(self) -> None:
        self._began = time.monotonic()
        planned = plan(self.seed, list(ATTACKS))
        for disturbance in timely(planned, self.seconds, lambda: time.monotonic() - self._began):
            self._wait_until(self._began + disturbance.time)
            self._act(disturbance)
        self._wait_until(self._began + self.seconds)
        for _, action in sorted(self._later, key=lambda each: each[0]):
            action()
        self._later.clear()
        end = time.monotonic() + FAILS_WITHIN
        while self._disk_fails and time.monotonic() < end:
            self._tick()
        if self._disk_fails:
            self.problems.append(f"{self.broker.current_log.name}: goes on after its disk failed")

    def _wait_until(self, when: float) -> None:
        while (left := when - time.monotonic()) > 0:
            self._tick(min(left, TICK))
        self._tick(0)

    def _tick(self, seconds: float = TICK) -> None:
        """Let time pass; do what is due, and see that everybody is alive."""
        time.sleep(seconds)
        now = time.monotonic()
        due = [each for each in self._later if each[0] <= now]
        self._later = [each for each in self._later if each[0] > now]
        for _, action in sorted(due, key=lambda each: each[0]):
            action()
        self._note_memory(self.broker.resident)
        if not self.broker.runs:
            if not self._disk_fails:
                self.problems.append(f"the broker ended by itself: {self.broker.current_log.name}")
            self._restart("disk")
        for child in (self.steady, self.mortal, self.hostile, self.canary):
            assert child.runs, child.current_log.read_text(encoding="utf-8")[-3000:]
        if now - self._began >= 60 * (self._minutes + 1):
            self._minutes += 1
            self._report_progress()

    def _note_memory(self, resident: int) -> None:
        """Keep the most memory; each MiB more is an event, to see what it came with."""
        if resident >> 20 > self.highest >> 20:
            self.log.write("memory", self.broker.current_log.name, resident >> 20)
        self.highest = max(self.highest, resident)

    def _report_progress(self) -> None:
        megabytes = self.highest >> 20
        print(
            f"soak: minute {self._minutes}, {self._disturbances} disturbances, "
            f"{self.broker.starts} starts of the broker, memory up to {megabytes} MiB",
            flush=True,
        )

    def _act(self, disturbance: Disturbance) -> None:
        kind, seconds = disturbance.kind, disturbance.seconds
        self._disturbances += 1
        self.log.write("disturb", kind, f"{seconds:.1f}")
        match kind.split(" ", 1):
            case ["attack", name]:
                self.hostile.tell(f"{name} {seconds:.1f} {disturbance.seed}")
            case ["kill"]:
                self.broker.process.kill()
                self._restart("kill")
            case ["kill", "mortal"]:
                self.mortal.kill()
                self._start_mortal()
            case ["pause", name]:
                child: Child = getattr(self, name)
                child.pause()
                self._after(seconds, lambda: self._resume(name, child))
            case ["write" | "sync" as call, "fails"]:
                self.broker.tell(f"fail {call} EIO 1")
                self._disk_fails = True
            case ["no", "handles"]:
                self.broker.tell("fail create EMFILE 3")
            case ["disk", "full"]:
                self.broker.tell("full")
                self._after(seconds, lambda: self._tell_broker("space"))
            case ["slow", "disk"]:
                self.broker.tell(f"slow {seconds / 20:.3f}")
                self._after(seconds, lambda: self._tell_broker("slow 0"))
            case _:
                raise AssertionError(f"nobody knows how to do: {kind}")

    def _resume(self, name: str, child: Child) -> None:
        """Let it go on, and note when: a restart of the broker may have delayed that for long."""
        child.resume()
        self.log.write("resumed", name)

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, action))

    def _tell_broker(self, line: str) -> None:
        if self.broker.runs:
            self.broker.tell(line)

    # -- the end

    def _finish(self) -> None:
        """Let everything be delivered, over one more kill; then stop the broker in order."""
        self.hostile.end()
        for child in (self.steady, self.mortal):
            child.tell("finish")
        for child in (self.steady, self.mortal):
            child.wait_for("finished")
            child.end()
        self.broker.process.kill()
        self._restart("kill")
        rest = self._clients("rest", sends=False)
        rest.start()
        rest.wait_for("ready")
        rest.tell("finish")
        rest.wait_for("finished")
        rest.end()
        self.canary.end()
        if self.broker.end() != 0:
            self.problems.append("the broker did not stop in order")
        self._check_log()
