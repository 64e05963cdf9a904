"""The transport of an accepted STOMP connection, over TCP, TLS or WebSocket."""

from __future__ import annotations

from typing import TYPE_CHECKING

from anyio.abc import ByteStream

from pyjms.transport.accepted import accepted_tcp
from pyjms.transport.unsent import UnsentBudget
from pyjms.wire.openwire.frame_budget import FrameBudget, UnfinishedFrame
from pyjms.wire.stomp.format import StompFormat
from pyjms_broker.connector.stomp.options import StompOptions
from pyjms_broker.connector.stomp.transport import StompTransport

if TYPE_CHECKING:
    from pyjms.transport.tls import TlsContext

__all__ = ["accepted_stomp"]


def accepted_stomp(
    stream: ByteStream,
    options: StompOptions,
    frame_budget: FrameBudget,
    connection_id: str,
    *,
    scheme: str,
    tls: TlsContext | None = None,
    layered: UnfinishedFrame | None = None,
    unsent_budget: UnsentBudget | None = None,
) -> StompTransport:
    """Return the transport of a client, not started.

    `connection_id` is the id of its JMS connection. `layered` counts the frames of a layer of
    `stream`, such as WebSocket; `unsent_budget` counts the unread data of all clients.
    """
    unfinished = UnfinishedFrame(frame_budget)
    wire_format = StompFormat(options.max_frame_size, unfinished)
    tcp = accepted_tcp(
        stream,
        wire_format,
        options.tcp,
        scheme=scheme,
        timeout=options.connect_attempt_timeout,
        unfinished=unfinished,
        tls=tls,
        layered=layered,
        discard=wire_format.discard,
        unsent_budget=unsent_budget,
    )
    return StompTransport(tcp, wire_format, options, connection_id)
