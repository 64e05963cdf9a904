"""A message costs no more Python calls than when these ceilings were set.

Times vary with the machine, calls do not. The ceilings are what pure Python 3.11 needed, median of
three runs, and a tenth more; who needs more calls finds a shorter way, and who needs far fewer
lowers the ceiling.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack
from importlib.machinery import EXTENSION_SUFFIXES

import pytest

from pyjms.wire.openwire import fast_reader
from tests.kit.calls import per_message
from tests.kit.processes.forked_python import ForkedPython

pytestmark = pytest.mark.skipif(
    sys.version_info[:2] != (3, 11)
    or str(fast_reader.__file__).endswith(tuple(EXTENSION_SUFFIXES))
    or not hasattr(os, "pidfd_open"),
    reason="the ceilings are those of interpreted Python 3.11, in forked processes",
)


class Role:
    """A process of `tests.kit.calls`, which answers each line with one."""

    def __init__(self, stack: ExitStack, *arguments: str) -> None:
        self.process = stack.enter_context(
            ForkedPython(
                ["-m", "tests.kit.calls", *arguments],
                stdin=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        )
        stack.callback(self.process.kill)
        self.first = self._answer()

    def ask(self) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the process has ended"
        return line.strip()


@pytest.mark.parametrize(
    ("client", "broker", "most"),
    [("burst", "broker", 16), ("one in flight", "broker", 67), ("persistent", "store", 185)],
)
def test_a_broker_needs_few_calls_a_message(client: str, broker: str, most: int) -> None:
    with ExitStack() as stack:
        measured = Role(stack, broker)
        peer = Role(stack, client, measured.first)
        counts = []
        for _ in range(3):
            measured.ask()
            peer.ask()
            counts.append(int(measured.ask()))
    assert per_message(counts) <= most


@pytest.mark.parametrize(
    ("broker", "client", "most"),
    [("mqtt", "qos 0", 13), ("mqtt", "qos 1", 22), ("mqtt", "qos 2", 32),
     ("amqp", "settled", 29), ("amqp", "unsettled", 31)],
)  # fmt: skip
def test_a_broker_needs_few_calls_a_message_of_other_protocols(
    broker: str, client: str, most: int
) -> None:
    with ExitStack() as stack:
        measured = Role(stack, broker)
        peer = Role(stack, client, measured.first)
        counts = []
        for _ in range(3):
            measured.ask()
            peer.ask()
            counts.append(int(measured.ask()))
    assert per_message(counts) <= most


@pytest.mark.parametrize(("client", "most"), [("template", 71), ("container", 152)])
def test_a_client_needs_few_calls_a_message(client: str, most: int) -> None:
    with ExitStack() as stack:
        measured = Role(stack, client, Role(stack, "broker").first)
        counts = [int(measured.ask()) for _ in range(3)]
    assert per_message(counts) <= most
