"""The accepting side of a connection: SASL, Open, sessions and Close."""

from __future__ import annotations

import pytest

from pyjms.wire.amqp.engine import EngineSettings, Stage
from pyjms.wire.amqp.format import AMQP, SASL, Fault, Frame, Item, ProtocolHeader
from pyjms.wire.amqp.performatives import (
    Begin,
    Close,
    End,
    Error,
    Flow,
    Open,
    Performative,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Transfer,
)
from tests.kit.amqp.peer import Peer, opened

LOGIN: list[Item] = [ProtocolHeader(SASL), Frame(0, SaslInit("ANONYMOUS"))]


@pytest.mark.fact("amqp-connector A20", "amqp-connector A22", "amqp-connector A23")
def test_sasl() -> None:
    peer = Peer()
    peer.header(SASL)
    header, mechanisms = peer.items()
    assert isinstance(header, ProtocolHeader)
    assert (header.id, header.version) == (SASL, (1, 0, 0))
    assert isinstance(mechanisms, Frame)
    assert mechanisms.body == SaslMechanisms(["PLAIN", "ANONYMOUS"])
    peer.send(SaslInit("plain", b"ignored\0user\0secret"))
    assert peer.events == [("login", "PLAIN", "user", "secret")]
    outcome, header = peer.items()
    assert isinstance(outcome, Frame)
    assert outcome.body == SaslOutcome(0)
    assert isinstance(header, ProtocolHeader)
    assert header.id == AMQP


@pytest.mark.fact("amqp-connector A24")
@pytest.mark.parametrize(
    ("response", "login"),
    [
        (b"\0u\0p", ("u", "p")),
        (b"u\0p", ("u", "p")),
        (b"", (None, None)),
        (None, (None, None)),
        (b"u", None),
        (b"a\0u\0p\0x", None),
        (b"\0\xff\0p", None),
    ],
)
def test_plain_responses(
    response: bytes | None, login: tuple[str | None, str | None] | None
) -> None:
    peer = Peer(refuses="login")
    peer.log_in("PLAIN", response)
    if login is not None:
        assert peer.events == [("login", "PLAIN", *login)]
    else:
        assert peer.bodies()[-1] == SaslOutcome(1)
        assert peer.events == [("finish",)]


@pytest.mark.fact("amqp-connector A23")
def test_an_unknown_mechanism() -> None:
    peer = Peer()
    peer.log_in("CRAM-MD5")
    assert peer.bodies()[-1] == SaslOutcome(3)
    assert peer.events == [("finish",)]


@pytest.mark.fact("amqp-connector A26")
def test_a_login_can_be_refused() -> None:
    peer = Peer(refuses="login")
    peer.log_in()
    peer.engine.refuse_login()
    assert peer.bodies()[-1] == SaslOutcome(1)
    assert peer.events[-1] == ("finish",)


def test_a_client_need_not_wait() -> None:
    """What follows a login and an Open is handled when these are answered, in order."""
    peer = Peer(refuses="login open")
    peer.open()
    peer.send(Begin(None, 0, 1, 1))
    assert [each[0] for each in peer.events] == ["login"]
    peer.engine.accept_login()
    assert [each[0] for each in peer.events] == ["login", "open"]
    peer.engine.open(Open("broker"))
    assert [each[0] for each in peer.events] == ["login", "open", "begin"]
    assert [type(body) for body in peer.bodies()] == [SaslMechanisms, SaslOutcome, Open, Begin]


@pytest.mark.fact("amqp-connector A175")
def test_a_client_cannot_make_the_broker_keep_many_frames() -> None:
    peer = Peer(refuses="login")
    peer.log_in()
    for _ in range(100):
        peer.send(SaslResponse(b""))
    last = peer.bodies()[-1]
    assert isinstance(last, Close)
    assert last.error is not None
    assert last.error.condition == "amqp:resource-limit-exceeded"


@pytest.mark.fact("amqp-connector A20", "amqp-connector A21")
@pytest.mark.parametrize("header", [ProtocolHeader(AMQP), ProtocolHeader(2), ProtocolHeader(SASL, 2),
                                    ProtocolHeader(SASL, 1, 0, 1), ProtocolHeader(-1)], ids=repr)  # fmt: skip
def test_unsupported_headers(header: ProtocolHeader) -> None:
    peer = Peer()
    peer.engine.receive(header)
    first, second, opened, closed = peer.items()
    assert isinstance(first, ProtocolHeader)
    assert isinstance(second, ProtocolHeader)
    assert (first.id, second.id) == (SASL, AMQP)
    assert isinstance(opened, Frame)
    assert opened.body == Open("")
    assert isinstance(closed, Frame)
    reason = "Connection from client using unsupported AMQP attempted"
    assert closed.body == Close(Error("amqp:decode-error", reason))
    assert peer.events == [("finish",)]


@pytest.mark.fact("amqp-connector A20")
def test_sasl_can_be_left_out_if_that_is_allowed() -> None:
    peer = Peer(EngineSettings(allow_non_sasl=True))
    peer.header(AMQP)
    peer.send(Open("c"))
    assert peer.events == [("open", "c")]
    header, answer = peer.items()
    assert isinstance(header, ProtocolHeader)
    assert header.id == AMQP
    assert isinstance(answer, Frame)
    assert answer.body == Open("broker", max_frame_size=131072, channel_max=32767)


@pytest.mark.fact("amqp-connector A35")
def test_open_can_be_refused() -> None:
    peer = Peer(refuses="open")
    peer.open()
    peer.engine.refuse_open(Error("amqp:invalid-field", "no"))
    *_, answer, close = peer.bodies()
    assert answer == Open("", properties={"amqp:connection-establishment-failed": True})
    assert close == Close(Error("amqp:invalid-field", "no"))
    assert peer.events[-1] == ("finish",)


@pytest.mark.fact("amqp-connector A171")
def test_a_fault_is_told_before_the_connection_ends() -> None:
    peer = Peer()
    peer.header(SASL)
    peer.items()
    peer.engine.receive(Fault("amqp:decode-error", "no"))
    header, *frames = peer.items()
    assert isinstance(header, ProtocolHeader)
    assert header.id == AMQP
    assert [frame.body for frame in frames if isinstance(frame, Frame)] == [
        Open(""),
        Close(Error("amqp:decode-error", "no")),
    ]
    assert peer.events == [("finish",)]


@pytest.mark.fact("amqp-connector A40")
def test_close_is_answered() -> None:
    peer = opened()
    error = Error("amqp:internal-error")
    peer.send(Close(error))
    assert peer.events == [("close", error), ("finish",)]
    assert peer.one(Close) == Close()
    assert peer.engine.is_finished
    peer.send(Close())
    assert peer.bodies() == []


def test_the_broker_can_close() -> None:
    peer = opened()
    peer.engine.close(Error("amqp:connection:forced", "stopping"))
    assert peer.one(Close).error == Error("amqp:connection:forced", "stopping")
    assert peer.events == [("finish",)]
    peer.engine.close()
    assert peer.items() == []


@pytest.mark.fact("amqp-connector A38")
def test_keep_alives_are_empty_frames() -> None:
    peer = opened()
    peer.engine.keep_alive()
    assert peer.bodies() == [None]
    peer.engine.receive(Frame(0, None))
    assert peer.bodies() == []


def test_keep_alives_wait_until_the_connection_is_open() -> None:
    peer = Peer()
    peer.engine.keep_alive()
    assert peer.items() == []


@pytest.mark.fact("amqp-connector A45", "amqp-connector A46")
def test_begin_and_end() -> None:
    peer = opened()
    peer.send(Begin(None, 5, 100, 100), channel=7)
    assert peer.one(Begin) == Begin(7, 1, 16383, 2**31 - 1, 65535)
    error = Error("amqp:internal-error")
    peer.send(End(error), channel=7)
    assert peer.events == [("begin", 7), ("end", 7, error)]
    assert peer.one(End) == End()
    peer.send(Begin(None, 5, 100, 100), channel=7)
    assert peer.one(Begin).remote_channel == 7


def test_a_session_can_be_refused() -> None:
    peer = opened(refuses="begin")
    peer.send(Begin(None, 0, 1, 1), channel=3)
    begin, end = peer.bodies()
    assert isinstance(begin, Begin)
    assert end == End(Error("amqp:not-allowed"))
    assert 3 in peer.engine.sessions
    peer.send(End(), channel=3)
    assert 3 not in peer.engine.sessions
    assert ("end", 3, None) not in peer.events


@pytest.mark.fact("amqp-connector A175")
def test_sessions_are_limited() -> None:
    peer = opened(EngineSettings(max_sessions=1))
    peer.send(Begin(None, 0, 1, 1), channel=1)
    _, end = peer.bodies()
    assert end == End(Error("amqp:resource-limit-exceeded", "Too many sessions"))
    peer.send(Begin(None, 0, 1, 1), channel=2)
    assert peer.one(Close).error == Error("amqp:resource-limit-exceeded", "Too many sessions")


VIOLATIONS: list[tuple[str, int, Performative, str]] = [
    ("no session", 9, Flow(0, 1, 1, 1), "amqp:connection:framing-error"),
    ("a transfer without a session", 9, Transfer(0, 0, b""), "amqp:connection:framing-error"),
    ("a second Begin", 0, Begin(None, 0, 1, 1), "amqp:connection:framing-error"),
    ("an answer to no Begin", 1, Begin(4, 0, 1, 1), "amqp:connection:framing-error"),
    ("a large channel", 40000, Begin(None, 0, 1, 1), "amqp:connection:framing-error"),
    ("a second Open", 0, Open("c"), "amqp:illegal-state"),
]


@pytest.mark.fact("amqp-connector A174")
@pytest.mark.parametrize(
    ("channel", "body", "condition"), [v[1:] for v in VIOLATIONS], ids=[v[0] for v in VIOLATIONS]
)
def test_violations_end_the_connection(channel: int, body: Performative, condition: str) -> None:
    peer = opened()
    peer.send(body, channel=channel)
    close = peer.one(Close)
    assert close.error is not None
    assert close.error.condition == condition
    assert peer.events == [("finish",)]


EARLY: list[list[Item]] = [
    [Frame(0, Begin(None, 0, 1, 1))],
    [*LOGIN, ProtocolHeader(AMQP), Frame(0, Begin(None, 0, 1, 1))],
    [ProtocolHeader(SASL), ProtocolHeader(AMQP)],
    [*LOGIN, ProtocolHeader(SASL)],
    [ProtocolHeader(SASL), Frame(0, SaslResponse(b""))],
]


@pytest.mark.fact("amqp-connector A174")
@pytest.mark.parametrize("items", EARLY)
def test_violations_before_the_connection_is_open(items: list[Item]) -> None:
    peer = Peer()
    for item in items:
        peer.engine.receive(item)
    last = peer.bodies()[-1]
    assert isinstance(last, Close)
    assert last.error is not None
    assert peer.engine.stage == Stage.FINISHED


def test_answers_that_come_late_are_ignored() -> None:
    peer = Peer(refuses="login")
    peer.log_in()
    peer.engine.discard()
    peer.items()
    peer.engine.accept_login()
    peer.engine.refuse_login()
    peer.engine.open(Open("broker"))
    peer.engine.refuse_open(Error("x"))
    peer.engine.keep_alive()
    assert peer.items() == []
