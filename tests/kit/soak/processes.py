"""The processes of a soak: the broker, which is restarted on its port, and its clients."""

from __future__ import annotations

import resource
import signal
import sys
import threading
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from tests.kit.processes.children import accepted_url, started
from tests.kit.processes.forked_python import Process
from tests.kit.soak.configuration import write_configuration

__all__ = ["Broker", "Child"]

ANSWERS_WITHIN: Final = 300.0


class Child:
    """A process that can be paused, killed and restarted; each start has a separate log."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.command = command
        self.log = log
        self.starts = 0
        self._running: AbstractContextManager[Process] | None = None
        self._process: Process | None = None

    @property
    def process(self) -> Process:
        assert self._process is not None, f"{self.log.name} was not started"
        return self._process

    @property
    def current_log(self) -> Path:
        return self.log.with_name(f"{self.log.name}-{self.starts}")

    def start(self) -> None:
        self.starts += 1
        self._running = started(self.command, self.current_log)
        self._process = self._running.__enter__()

    def tell(self, line: str) -> None:
        """Write a line to its standard input."""
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(f"{line}\n")
        stdin.flush()

    def wait_for(self, line: str) -> None:
        """Wait until it writes this line; that takes it less than `ANSWERS_WITHIN` seconds."""
        stdout = self.process.stdout
        assert stdout is not None
        alarm = threading.Timer(ANSWERS_WITHIN, self.process.kill)
        alarm.start()
        try:
            for heard in stdout:
                if heard.strip() == line:
                    return
        finally:
            alarm.cancel()
        log = self.current_log.read_text(encoding="utf-8")[-3000:]
        raise AssertionError(f"{self.log.name} ended and did not write {line!r}: {log}")

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> int:
        """End it, if it runs; return its exit status."""
        running, self._running = self._running, None
        if running is not None:
            self.process.send_signal(signal.SIGCONT)
            running.__exit__(None, None, None)
        return self.process.wait()

    @property
    def runs(self) -> bool:
        return self._running is not None and self.process.poll() is None

    @property
    def resident(self) -> int:
        """Bytes of memory that the process has; 0 if it does not run."""
        try:
            statm = Path(f"/proc/{self.process.pid}/statm").read_text(encoding="ascii")
        except FileNotFoundError:
            return 0
        return int(statm.split()[1]) * resource.getpagesize()


class Broker(Child):
    """The broker, with its configuration and data in a folder."""

    def __init__(self, folder: Path) -> None:
        self.configuration = folder / "broker.yaml"
        self.data = folder / "data"
        self.port = 0
        self.url = ""
        command = [sys.executable, "-m", "tests.kit.soak.broker"]
        super().__init__([*command, str(self.configuration), str(self.data)], folder / "broker")

    def start(self) -> None:
        write_configuration(self.configuration, self.port)
        super().start()
        self.url = accepted_url(self.process, self.current_log).split("?")[0]
        self.port = int(self.url.rsplit(":", 1)[1])
