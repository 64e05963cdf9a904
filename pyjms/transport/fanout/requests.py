"""Requests to several brokers: the missing responses, and the end of a request.

A request is done when enough brokers have executed it, and fails when so many no longer can. Then
nobody waits for the others; a disconnected broker would delay the request until its return.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from pyjms.transport.fanout.branch import Branch
from pyjms.wire.openwire.commands import Command, Response

__all__ = ["FanoutRequest", "FanoutRequests"]

OnResponse = Callable[[Response | Exception], None]


@dataclass(eq=False)
class FanoutRequest:
    """A request to several brokers, with the callback for its outcome."""

    command: Command
    on_response: OnResponse
    needed: int
    waiting: dict[Branch, Command] = field(default_factory=dict)
    """The brokers that have not responded, and the command sent to each."""
    executed: int = 0
    error: Exception | None = None


class FanoutRequests:
    """The requests without an outcome yet."""

    def __init__(self) -> None:
        self._requests: dict[int, FanoutRequest] = {}  # by `id()` of the command

    def __iter__(self) -> Iterator[FanoutRequest]:
        return iter(list(self._requests.values()))

    def add(
        self, command: Command, on_response: OnResponse, needed: int, sent: Mapping[Branch, Command]
    ) -> FanoutRequest:
        """Add a request that is about to be sent to these brokers."""
        request = FanoutRequest(command, on_response, needed, dict(sent))
        self._requests[id(command)] = request
        return request

    def pop(self, command: Command) -> FanoutRequest | None:
        """Remove and return the request of `command`: nobody waits for it any more."""
        return self._requests.pop(id(command), None)

    def responded(
        self, request: FanoutRequest, branch: Branch, outcome: Response | Exception
    ) -> None:
        """Record the response of one broker."""
        if request.waiting.pop(branch, None) is None:
            return
        if isinstance(outcome, Exception):
            request.error = request.error or outcome
        else:
            request.executed += 1
        if self._requests.get(id(request.command)) is not request:
            return
        if request.executed >= request.needed and isinstance(outcome, Response):
            self._finish(request, outcome)
        elif request.executed + len(request.waiting) < request.needed and request.error is not None:
            self._finish(request, request.error)

    def broker_left(self, branch: Branch) -> None:
        """Stop waiting for a broker; another one that joins may respond instead."""
        for request in self:
            sent = request.waiting.pop(branch, None)
            if sent is None:
                continue
            branch.transport.abandon(sent)
            if request.executed + len(request.waiting) < request.needed and request.error:
                self._finish(request, request.error)

    def _finish(self, request: FanoutRequest, outcome: Response | Exception) -> None:
        self._requests.pop(id(request.command), None)
        for branch in [each for each in request.waiting if not each.is_connected]:
            branch.transport.abandon(request.waiting.pop(branch))
        request.on_response(outcome)
