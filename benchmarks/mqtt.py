"""Messages a second from one MQTT client to another by QoS. Run: python -m benchmarks.mqtt.

100 bytes to one topic; publisher and subscriber are processes of their own with raw sockets, which
send packets written beforehand and only count what they get, so that they take little of the time.
With QoS 1 and 2, `WINDOW` messages are under way. `--peer` measures another broker, see
`benchmarks.pairs`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from functools import partial

from benchmarks import pairs
from benchmarks.pairs import BATCH, SUBSCRIBER, Protocol

TOPIC = b"bench/mqtt"
PAYLOAD = b"x" * 100
WINDOW = 200
IDS = 20 * BATCH
"""Packet ids of the publisher, used again and again."""
_HEAD = 2
_ID_AT = _HEAD + 2 + len(TOPIC)
_ACK = 4
"""Bytes of an acknowledgement."""


def publish_packet(qos: int, packet_id: int = 0) -> bytes:
    identifier = packet_id.to_bytes(2) if qos else b""
    body = len(TOPIC).to_bytes(2) + TOPIC + identifier + PAYLOAD
    assert len(body) < 128
    return bytes((0x30 | qos << 1, len(body))) + body


def connect(port: int, client_id: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port))
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    body = b"\0\4MQTT\4\2\0\0" + len(client_id).to_bytes(2) + client_id
    client.sendall(bytes((0x10, len(body))) + body)
    assert client.recv(4) == b"\x20\2\0\0"
    return client


def subscribe(client: socket.socket, qos: int) -> None:
    body = b"\0\1" + len(TOPIC).to_bytes(2) + TOPIC + bytes((qos,))
    client.sendall(bytes((0x82, len(body))) + body)
    assert client.recv(5) == bytes((0x90, 3, 0, 1, qos))


def publish(client: socket.socket, qos: int, count: int) -> None:
    """Send messages, and wait until all are acknowledged."""
    if not qos:
        chunk = publish_packet(0) * BATCH
        for _ in range(count // BATCH):
            client.sendall(chunk)
        return
    batches = [
        b"".join(publish_packet(qos, number + 1) for number in range(first, first + BATCH))
        for first in range(0, IDS, BATCH)
    ]
    sent = done = 0
    rest = b""
    while done < count:
        out = []
        while sent < count and sent + BATCH - done <= WINDOW:
            out.append(batches[sent // BATCH % len(batches)])
            sent += BATCH
        if out:
            client.sendall(b"".join(out))
        rest += client.recv(1 << 16)
        whole = len(rest) // _ACK * _ACK
        if qos == 1:
            done += whole // _ACK
        else:
            recs = [rest[at + 2 : at + 4] for at in range(0, whole, _ACK) if rest[at] == 0x50]
            done += whole // _ACK - len(recs)
            if recs:
                client.sendall(b"\x62\2" + b"\x62\2".join(recs))
        rest = rest[whole:]


def receive(client: socket.socket, qos: int, count: int) -> None:
    """Get so many messages, and acknowledge them."""
    size = len(publish_packet(qos))
    rest, got = b"", 0
    wanted = count if qos < 2 else 2 * count
    while got < wanted:
        rest += client.recv(1 << 18)
        at, length, out = 0, len(rest), []
        if qos < 2:
            got += length // size
            at = length // size * size
            if qos:
                out = [rest[i : i + 2] for i in range(_ID_AT, at, size)]
                client.sendall(b"\x40\2" + b"\x40\2".join(out)) if out else None
        else:
            while at < length:
                is_message = rest[at] & 0xF0 == 0x30
                end = at + (size if is_message else _ACK)
                if end > length:
                    break
                place = at + (_ID_AT if is_message else 2)
                out.append((b"\x50\2" if is_message else b"\x70\2") + rest[place : place + 2])
                got += 1
                at = end
            client.sendall(b"".join(out))
        rest = rest[at:]


def open_client(role: str, port: int, case: str) -> Callable[[int], None]:
    """Return what sends or gets so many messages."""
    qos = CASES.index(case)
    client = connect(port, f"bench-{role}-{os.getpid()}".encode())
    if role == SUBSCRIBER:
        subscribe(client, qos)
        return partial(receive, client, qos)
    return partial(publish, client, qos)


CASES = ("QoS 0", "QoS 1", "QoS 2")

if __name__ == "__main__":
    pairs.main(Protocol("benchmarks.mqtt", "mqtt://127.0.0.1:0", CASES, open_client), __doc__)
