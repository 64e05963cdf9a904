"""Handling of open connections, loops and locks in a forked child process.

A fork copies memory and descriptors, but only the thread that called it. A loop in another thread
no longer runs in the child, and sockets are shared with the parent: bytes written by the child
would be mixed with the parent's commands. So the child uses nothing that was opened before the
fork:

    in the child                          by
    -----------------------------------   ---------------------------------------------------
    calls on an inherited loop raise      `LoopHandle`, which records its process
    calls on inherited connections raise  `ActiveMQConnection.on_fork`
    inherited sockets are abandoned       `let_go_of_socket`: the parent's close reaches its peer
    shared connections are opened again   `_Sharing.on_fork`
    generated ids are unique again        `IdGenerator.on_fork`
    libuv's threads are started at exit   `_restart_thread_pool`
    embedded brokers do not exist         `pyjms_broker.connector.vm.registry`, `BrokerService`

Nothing is closed, because closing would send to the peer or need a loop that does not run. The
parent is not affected.
"""

from __future__ import annotations

import atexit
import os
import socket
import sys
from collections.abc import Callable
from typing import Final, Protocol, TypeVar
from weakref import WeakSet

from pyjms.errors import IllegalStateException

R = TypeVar("R")


class Process:
    """The process that runs this code; after a fork, `current` is a different object."""

    current: object = object()


class _Inheritable(Protocol):
    def on_fork(self) -> None: ...


class Inheritance:
    """Keeps an object, and is kept by it: there are no weak references to compiled objects."""

    __slots__ = ("__weakref__", "item")

    def __init__(self, item: _Inheritable) -> None:
        self.item = item


_inherited: Final[WeakSet[Inheritance]] = WeakSet()
_calls: Final[list[Callable[[], object]]] = []


def inherits(item: _Inheritable) -> Inheritance:
    """Register `item.on_fork()` to be called in child processes, as long as the result exists.

    `item` keeps the result, and may drop it to end the registration. `on_fork` runs in the child's
    only thread, before any other code, and must neither wait nor raise.
    """
    inheritance = Inheritance(item)
    _inherited.add(inheritance)
    return inheritance


def call_in_child(function: Callable[[], R]) -> Callable[[], R]:
    """Register `function()` to be called in child processes, for module state; return it."""
    _calls.append(function)
    return function


def inherited_error(what: str) -> IllegalStateException:
    """Return the error for the use of an object in a child process that its parent has opened."""
    return IllegalStateException(
        f"{what} was opened before this process was forked, and belongs to the parent process",
        hint="open it in the child process; connection factories and templates may be created "
        "before the fork, and reconnect in the child",
    )


def let_go_of_socket(fd: int) -> None:
    """Detach an inherited descriptor from its socket, without sending anything to the peer.

    The descriptor's number stays in use: the object that owns it may close it later.
    """
    nothing = os.open(os.devnull, os.O_RDWR)
    try:
        os.dup2(nothing, fd, inheritable=False)
    finally:
        os.close(nothing)


def _restart_thread_pool() -> None:
    """Start libuv's thread pool in a forked process, which is about to exit.

    libuv joins the pool's threads at exit. A host name lookup in the parent has started them; the
    fork has not copied them, and joining them would cause a segmentation fault.
    """
    uvloop = sys.modules.get("uvloop")
    if uvloop is not None:
        numeric = socket.NI_NUMERICHOST | socket.NI_NUMERICSERV  # uses the pool, but no server
        loop = uvloop.new_event_loop()
        try:
            loop.run_until_complete(loop.getnameinfo(("127.0.0.1", 0), numeric))
        finally:
            loop.close()


def _on_fork() -> None:
    Process.current = object()
    atexit.unregister(_restart_thread_pool)
    atexit.register(_restart_thread_pool)
    for function in _calls:
        function()
    for inheritance in list(_inherited):
        inheritance.item.on_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_on_fork)
