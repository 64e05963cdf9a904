"""Objects that are registered to be told of forks."""

from __future__ import annotations

import gc
import sys

import anyio
import pytest
from anyio.abc import SocketAttribute

from pyjms.runtime.fork import Inheritance
from pyjms.transport.mock import RecordingListener
from pyjms.transport.options import TcpOptions
from pyjms.transport.tcp import TcpTransport
from tests.kit.accepting import accept
from tests.kit.processes.forked_python import run_python
from tests.unit.transport.test_toy_protocol import LineFormat

FORK = """
import gc
import os
from pyjms.runtime.fork import inherits

class Item:
    def __init__(self, name):
        self.name = name
        self.inheritance = inherits(self)

    def on_fork(self):
        print(self.name, flush=True)

kept, closed, dropped = Item("kept"), Item("closed"), Item("dropped")
closed.inheritance = None
del dropped
gc.collect()
process = os.fork()
if process == 0:
    os._exit(0)
os.waitpid(process, 0)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot fork")
def test_only_objects_that_exist_and_are_not_closed_are_told_of_a_fork() -> None:
    assert run_python("-c", FORK).stdout.split() == ["kept"]


def registered() -> int:
    """The number of transports that are told of forks, of those made since `gc.freeze()`."""
    gc.collect()
    return sum(
        type(each) is Inheritance and isinstance(each.item, TcpTransport)
        for each in gc.get_objects()
    )


async def started() -> TcpTransport[str]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as multi:
        peer = await anyio.connect_tcp("127.0.0.1", multi.extra(SocketAttribute.local_port))
        transport = TcpTransport(LineFormat(), TcpOptions(), stream=await accept(multi))
        transport.listener = RecordingListener()
        await transport.start()
        await peer.aclose()
    return transport


async def test_a_transport_that_was_stopped_is_not_told_of_forks() -> None:
    gc.freeze()  # to look through all objects of the tests before would take seconds
    transport = await started()
    assert registered() == 1
    await transport.stop()
    assert registered() == 0


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_transport_that_nobody_has_stopped_is_dropped_with_its_loop() -> None:
    gc.freeze()
    anyio.run(started)
    assert registered() == 0
