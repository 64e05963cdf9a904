"""Limits on the size and the arrival time of a request's body."""

from __future__ import annotations

from starlette.requests import HTTPConnection
from starlette.types import Message, Receive

from pyjms import _clock
from pyjms_broker.web.errors import WebError

__all__ = ["limited"]


def limited(request: HTTPConnection, receive: Receive, maximum: int, timeout: float) -> Receive:
    """Wrap `receive` so that it refuses a body that is too large or arrives too slowly.

    Args:
        request: the request.
        receive: the ASGI callable.
        maximum: the maximum size in bytes.
        timeout: seconds for the whole body.

    Raises:
        WebError: the request announces a body that is too large (status 413). The returned
            callable also raises it, with status 413 or 408.
    """
    announced = request.headers.get("content-length", "0")
    if not announced.isdecimal() or int(announced[:20]) > maximum:
        raise _too_large(maximum)
    received = 0
    deadline = _clock.now() + timeout
    complete = False

    async def receive_limited() -> Message:
        nonlocal received, complete
        if complete:
            return await receive()  # waits until the client disconnects
        message: Message | None = None
        with _clock.timeout(max(deadline - _clock.now(), 0.001)):
            message = await receive()
        if message is None:
            raise WebError(
                408,
                f"The body of the request did not arrive within {timeout:g} s",
                "send it faster, or in parts; see web: request_timeout",
                {"Connection": "close"},
            )
        received += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if received > maximum:
            raise _too_large(maximum)
        return message

    return receive_limited


def _too_large(maximum: int) -> WebError:
    return WebError(
        413,
        f"The body of the request is larger than {maximum} bytes",
        "send less, or raise web: maximum_body_size",
        {"Connection": "close"},
    )
