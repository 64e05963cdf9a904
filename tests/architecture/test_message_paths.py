"""The path of a message through the modules does not come back to a module that it has left.

The ways are call stacks, recorded while one message passes: from the template to the client's
socket, from the broker's socket to the journal, and from the client's task to the handler. A reader
who follows a message opens the modules of a stack one after another; a module that comes twice
makes them jump back.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from types import FrameType
from typing import Any

import anyio
import pytest

from pyjms.aio import (
    CachingConnectionFactory,
    ConnectionFactory,
    DefaultMessageListenerContainer,
    JmsTemplate,
    Message,
)
from pyjms_broker import BrokerService

pytestmark = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""On trio a write to a socket is trio's own call; the modules before it are the same."""
OURS = ("pyjms.", "pyjms_broker.")
STORE = "pyjms_broker.store.journal."
Way = list[str]


def way_to(frame: FrameType | None) -> Way:
    """Return the project's modules of a call stack, from the outermost to this frame's."""
    modules = []
    while frame is not None:
        modules.append(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
    ours = (module for module in reversed(modules) if module.startswith(OURS))
    return [module for module, _ in groupby(ours)]


def returns(way: Way) -> Way:
    """Return the modules that a way comes back to, once for each time."""
    return [module for position, module in enumerate(way) if module in way[:position]]


@contextmanager
def recorded(reached: Callable[[FrameType, str, Any], bool]) -> Iterator[list[Way]]:
    """Record the way to each call on this thread of which `reached` is true."""
    ways: list[Way] = []

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        if reached(frame, event, argument):
            ways.append(way_to(frame))

    before = sys.getprofile()  # coverage's or a debugger's
    sys.setprofile(profile)
    try:
        yield ways
    finally:
        sys.setprofile(before)


def socket_write(frame: FrameType, event: str, argument: Any) -> bool:
    return (
        event == "c_call"
        and argument.__name__ == "send"
        and frame.f_globals["__name__"].startswith("pyjms.transport.")
    )


def journal_call(frame: FrameType, event: str, _argument: Any) -> bool:
    return event == "call" and frame.f_globals["__name__"].startswith(STORE)


@pytest.fixture
async def template(tmp_path: Path) -> Any:
    """A template on a broker of this process with a journal, over TCP."""
    service = BrokerService("paths", data_directory=tmp_path)
    service.add_connector("tcp://127.0.0.1:0")
    async with service:
        factory = CachingConnectionFactory(ConnectionFactory(service.connectors[0].connect_uri))
        yield JmsTemplate(factory)
        await factory.destroy()


async def test_a_send_passes_six_modules_without_a_return(
    template: JmsTemplate,
) -> None:
    await template.convert_and_send("sent", "the connection, session and producer are cached")
    with recorded(socket_write) as ways:
        await template.convert_and_send("sent", "hello")
    way = next(way for way in ways if way[0] == "pyjms.core.template")
    assert way[-1].startswith("pyjms.transport.")
    assert len(way) <= 6
    assert returns(way) == []


async def test_a_frame_passes_to_the_journal_through_each_filter_once(
    template: JmsTemplate,
) -> None:
    await template.convert_and_send("stored", "the queue exists")
    with recorded(journal_call) as ways:
        await template.convert_and_send("stored", "hello")
    way = max((way for way in ways if "pyjms_broker.region.region_broker" in way), key=len)
    assert way[-1].startswith(STORE)
    assert returns(way) == []


async def test_a_dispatch_passes_to_the_handler_without_a_return(template: JmsTemplate) -> None:
    ways: list[Way] = []
    handled = anyio.Event()

    async def handle(_message: Message) -> None:
        ways.append(way_to(sys._getframe()))
        handled.set()

    container = DefaultMessageListenerContainer(
        template.connection_factory,
        destination_name="handled",
        message_listener=handle,
        session_transacted=True,
    )
    await container.start()
    await template.convert_and_send("handled", "hello")
    await handled.wait()
    await container.shutdown()
    assert ways[0][-1] == "pyjms.listener.handler.message_listener"
    assert returns(ways[0]) == []
