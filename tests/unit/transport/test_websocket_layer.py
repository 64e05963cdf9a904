"""WebSocket's frames as a byte layer, without a socket."""

from __future__ import annotations

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, State
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from pyjms.errors import ConnectionFailedException
from pyjms.transport.websocket import FRAMES_LOG, MAXIMUM_MESSAGE, WebSocketLayer


def server() -> WebSocketLayer:
    protocol = ServerProtocol(state=State.OPEN, max_size=MAXIMUM_MESSAGE, logger=FRAMES_LOG)
    return WebSocketLayer(protocol, "ws://peer")


def client_protocol() -> ClientProtocol:
    return ClientProtocol(parse_uri("ws://localhost/"), state=State.OPEN)


def client() -> WebSocketLayer:
    return WebSocketLayer(client_protocol(), "ws://broker")


def sent(protocol: Protocol) -> bytes:
    return b"".join(protocol.data_to_send())


@given(st.lists(st.binary(min_size=1, max_size=300), max_size=8), st.integers(1, 64))
def test_messages_become_one_stream_however_they_are_cut(parts: list[bytes], size: int) -> None:
    here, there = client(), server()
    data = b"".join(here.send(part) for part in parts)
    found = [there.receive(data[at : at + size]) for at in range(0, len(data), size)]
    assert b"".join(found) == b"".join(parts)
    assert there.error is None


def test_large_data_travels_in_messages_that_the_peer_accepts() -> None:
    here, there = client(), server()
    data = bytes(range(256)) * 4 * 4096  # 4 MiB
    assert there.receive(here.send(data)) == data
    assert there.error is None


def test_fragments_of_a_binary_message_are_read() -> None:
    peer, there = client_protocol(), server()
    peer.send_binary(b"ab", fin=False)
    peer.send_continuation(b"cd", fin=True)
    assert there.receive(sent(peer)) == b"abcd"


def test_a_ping_is_answered_behind_what_was_sent() -> None:
    peer, there = client_protocol(), server()
    peer.send_ping(b"1")
    assert there.receive(sent(peer)) == b""
    assert there.has_outgoing
    peer.receive_data(there.outgoing())
    [pong] = peer.events_received()
    assert isinstance(pong, Frame)
    assert (pong.opcode, pong.data) == (Opcode.PONG, b"1")
    assert not there.has_outgoing


def test_a_peer_that_pings_and_never_reads_is_ended() -> None:
    peer, there = client_protocol(), server()
    for _ in range(2000):
        peer.send_ping(b"x" * 125)
        there.receive(sent(peer))
        if there.error is not None:
            break
    assert isinstance(there.error, ConnectionFailedException)
    assert "pings" in str(there.error)
    assert len(there.outgoing()) < 100_000


def test_text_is_refused_and_what_came_before_it_is_read() -> None:
    peer, there = client_protocol(), server()
    peer.send_binary(b"before")
    peer.send_text(b"secret body")
    assert there.receive(sent(peer)) == b"before"
    assert "text message" in str(there.error)
    assert "secret body" not in str(there.error)


def test_a_closing_peer_ends_the_stream_and_is_answered() -> None:
    here, there = client(), server()
    assert there.receive(here.send(b"last") + here.close()) == b"last"
    assert isinstance(there.error, anyio.EndOfStream)
    assert there.outgoing() != b""
    assert there.close() == b""


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        pytest.param(b"\x82\x05hello", "incorrect masking", id="not masked"),
        pytest.param(b"\xf2\x80\0\0\0\0", "reserved bits", id="reserved bits"),
        pytest.param(
            b"\x82\xff" + (MAXIMUM_MESSAGE + 1).to_bytes(8) + b"\0\0\0\0",
            "exceeds limit",
            id="size",
        ),
    ],
)
def test_frames_that_are_not_allowed_end_the_connection(frame: bytes, reason: str) -> None:
    there = server()
    assert there.receive(frame) == b""
    assert isinstance(there.error, ConnectionFailedException)
    assert "not a valid WebSocket frame" in str(there.error)
    assert reason in str(there.error)
    assert there.receive(b"\x82\x05hello") == b""


@given(st.binary(max_size=400))
def test_any_bytes_are_read_or_end_the_connection(data: bytes) -> None:
    there = server()
    there.receive(data)
    there.receive(data)
    assert there.error is None or isinstance(
        there.error, ConnectionFailedException | anyio.EndOfStream
    )
