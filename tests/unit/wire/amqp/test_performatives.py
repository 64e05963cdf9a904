"""Performatives, SASL frames, states and nodes of AMQP 1.0: golden frames in both directions."""

from __future__ import annotations

import pytest

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.wire.amqp.codec import decode_value, encode_value
from pyjms.wire.amqp.performatives import (
    ACCEPTED,
    RELEASED,
    Accepted,
    Attach,
    Begin,
    Close,
    Coordinator,
    Declare,
    Declared,
    DeleteOnClose,
    DeleteOnNoLinks,
    DeleteOnNoLinksOrMessages,
    DeleteOnNoMessages,
    Detach,
    Discharge,
    Disposition,
    End,
    Error,
    Flow,
    Header,
    Modified,
    Open,
    Performative,
    Properties,
    Received,
    Rejected,
    Released,
    SaslChallenge,
    SaslFrame,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    Source,
    Target,
    TransactionalState,
    Transfer,
    read_body,
    write_body,
)
from pyjms.wire.amqp.values import Described, Symbol, Timestamp, ULong, Value

NULL, TRUE, FALSE, ZERO = "40", "41", "42", "43"


def listed(code: int, *fields: str) -> str:
    """Return a described list: its fields are given, its size and count are not."""
    body = bytes.fromhex("".join(fields))
    return f"0053{code:02x}c0{len(body) + 1:02x}{len(fields):02x}{body.hex()}"


ERROR = listed(0x1D, "a30e 616d71703a6e6f742d666f756e64", "a102 6e6f")
BODIES: list[tuple[Performative | SaslFrame, str]] = [
    (Open("c"), listed(0x10, "a10163")),
    (
        Open("c", "h", 65536, 10, 1000, ["en"], None, None, ["q"], {Symbol("p"): "v"}),
        listed(0x10, "a10163", "a10168", "7000010000", "60000a", "70000003e8", "e005 01a302656e",
               NULL, NULL, "e004 01a30171", "c107 02 a30170 a10176"),
    ),
    (Begin(None, 1, 2, 3), listed(0x11, NULL, "5201", "5202", "5203")),
    (
        Begin(7, 0, 16383, 2**31 - 1, 65535),
        listed(0x11, "600007", ZERO, "7000003fff", "707fffffff", "700000ffff"),
    ),
    (Attach("l", 0, True), listed(0x12, "a1016c", ZERO, TRUE)),
    (
        Attach("l", 1, False, 1, 0, Source("queue://Q"), Target(), initial_delivery_count=0),
        listed(0x12, "a1016c", "5201", FALSE, "5001", NULL,
               listed(0x28, "a109 71756575653a2f2f51"), "00532945", NULL, NULL, ZERO),
    ),
    (
        Attach("t", 2, False, target=Coordinator(["amqp:local-transactions"])),
        listed(0x12, "a10174", "5202", FALSE, NULL, NULL, NULL, listed(
            0x30, "e01a 01a3 17 616d71703a6c6f63616c2d7472616e73616374696f6e73")),
    ),
    (Flow(None, 10, 0, 20), listed(0x13, NULL, "520a", ZERO, "5214")),
    (
        Flow(1, 10, 2, 20, 0, 3, 100, None, True),
        listed(0x13, "5201", "520a", "5202", "5214", ZERO, "5203", "5264", NULL, TRUE),
    ),
    (
        Transfer(0, 1, b"\0", 0, True),
        listed(0x14, "7000000000", "7000000001", "a00100", ZERO, TRUE, FALSE),
    ),
    (
        Transfer(0, 1, b"", 2**31),
        listed(0x14, "7000000000", "7000000001", "a000", "7080000000", FALSE, FALSE),
    ),
    (Transfer(0), listed(0x14, ZERO)),
    (
        Transfer(1, 2, b"t", 0, more=True, state=TransactionalState(b"x")),
        listed(0x14, "5201", "5202", "a00174", ZERO, NULL, TRUE, NULL, listed(0x34, "a00178")),
    ),
    (
        Transfer(0, more=True, aborted=True),
        listed(0x14, ZERO, NULL, NULL, NULL, NULL, TRUE, NULL, NULL, NULL, TRUE),
    ),
    (
        Disposition(True, 1, 3, True, ACCEPTED),
        listed(0x15, TRUE, "7000000001", "7000000003", TRUE, "00532445"),
    ),
    (Disposition(False, 1, state=RELEASED), listed(0x15, FALSE, "5201", NULL, NULL, "00532645")),
    (Detach(0, True, Error("amqp:not-found", "no")), listed(0x16, ZERO, TRUE, ERROR)),
    (End(), "00531745"),
    (Close(), "00531845"),
    (
        Close(Error("x", None, {Symbol("a"): "b"})),
        listed(0x18, listed(0x1D, "a30178", NULL, "c107 02 a30161 a10162")),
    ),
    (
        SaslMechanisms(["PLAIN", "ANONYMOUS"]),
        listed(0x40, "e012 02a3 05504c41494e 09414e4f4e594d4f5553"),
    ),
    (SaslInit("PLAIN", b"\0u\0p", "h"), listed(0x41, "a305504c41494e", "a00400750070", "a10168")),
    (SaslChallenge(b"c"), listed(0x42, "a00163")),
    (SaslResponse(b"r"), listed(0x43, "a00172")),
    (SaslOutcome(1), listed(0x44, "5001")),
]  # fmt: skip
VALUES: list[tuple[Value, str]] = [
    (Error("amqp:not-found", "no"), ERROR),
    (Received(1, 2), listed(0x23, "5201", "5302")),
    (Accepted(), "00532445"),
    (Rejected(), "00532545"),
    (Rejected(Error("x")), listed(0x25, listed(0x1D, "a30178"))),
    (Released(), "00532645"),
    (Modified(True, False, {Symbol("a"): 1}), listed(0x27, TRUE, NULL, "c106 02 a30161 5401")),
    (
        Source("a", 2, "never", 5, True, {Symbol("lifetime-policy"): DeleteOnClose()}, "copy",
               {Symbol("s"): Described(Symbol("f"), "x")}, ACCEPTED, ["o"], ["c"]),
        listed(0x28, "a10161", "5202", "a3056e65766572", "5205", TRUE,
               "c116 02 a30f6c69666574696d652d706f6c696379 00532b45", "a304636f7079",
               "c10b 02 a30173 00a30166a10178", "00532445", "e004 01a3016f", "e004 01a30163"),
    ),
    (
        Target("a", capabilities=["c"]),
        listed(0x29, "a10161", NULL, NULL, NULL, NULL, NULL, "e004 01a30163"),
    ),
    (DeleteOnClose(), "00532b45"),
    (DeleteOnNoLinks(), "00532c45"),
    (DeleteOnNoMessages(), "00532d45"),
    (DeleteOnNoLinksOrMessages(), "00532e45"),
    (Coordinator(), "00533045"),
    (Declare(), "00533145"),
    (Discharge(b"\1", True), listed(0x32, "a00101", TRUE)),
    (Declared(b"\1"), listed(0x33, "a00101")),
    (TransactionalState(b"\1", ACCEPTED), listed(0x34, "a00101", "00532445")),
    (Header(True, 9, 1000, True, 1), listed(0x70, TRUE, "5009", "70000003e8", TRUE, "5201")),
    (Header(), "00537045"),
    (
        Properties("m", b"u", "t", "s", "r", ULong(1), "text/plain", "e", Timestamp(1),
                   Timestamp(2), "g", 3, "y"),
        listed(0x73, "a1016d", "a00175", "a10174", "a10173", "a10172", "5301",
               "a30a 746578742f706c61696e", "a30165", "830000000000000001", "830000000000000002",
               "a10167", "5203", "a10179"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("body", "data"), BODIES, ids=lambda each: type(each).__name__)
def test_bodies(body: Performative | SaslFrame, data: str) -> None:
    assert write_body(body) == bytes.fromhex(data)
    assert read_body(bytes.fromhex(data) + b"payload") == (body, len(bytes.fromhex(data)))


@pytest.mark.parametrize(("value", "data"), VALUES, ids=lambda each: type(each).__name__)
def test_nested_objects(value: Value, data: str) -> None:
    buffer = bytearray()
    encode_value(buffer, value)
    assert buffer == bytes.fromhex(data)
    assert decode_value(bytes.fromhex(data)) == (value, len(bytes.fromhex(data)))


USUAL: list[tuple[Performative, str]] = [
    (
        Transfer(5, 300, b"ab", 0, True, False),
        listed(0x14, "5205", "700000012c", "a0026162", ZERO, TRUE, FALSE),
    ),
    (Transfer(5, 300, b"ab", 0), listed(0x14, "5205", "700000012c", "a0026162", ZERO)),
    (Transfer(0, 0, b"", 0), listed(0x14, ZERO, ZERO, "a000", ZERO, NULL)),
    (Transfer(0, 0, b"", 0), listed(0x14, ZERO, ZERO, "a000", ZERO, NULL, NULL, NULL, NULL)),
    (Transfer(0, None, None, None, True), listed(0x14, ZERO, NULL, NULL, NULL, TRUE)),
    (Disposition(True, 0, None, True, ACCEPTED), listed(0x15, TRUE, ZERO, NULL, TRUE, "00532445")),
    (
        Disposition(True, 0, 9, True, ACCEPTED),
        listed(0x15, TRUE, ZERO, "5209", TRUE, "005324c00100"),
    ),
    (Disposition(True, 0, None, True), listed(0x15, TRUE, ZERO, NULL, TRUE)),
    (Disposition(True, 0, None, True), listed(0x15, TRUE, ZERO, NULL, TRUE, NULL, FALSE)),
    (
        Disposition(True, 0, None, True, Rejected()),
        listed(0x15, TRUE, ZERO, NULL, TRUE, "00532545"),
    ),
    (Disposition(True, 0, 1), listed(0x15, TRUE, ZERO, "5201")),
]


@pytest.mark.parametrize(("body", "data"), USUAL, ids=str)
def test_other_writers_forms_are_read(body: Performative, data: str) -> None:
    assert read_body(bytes.fromhex(data)) == (body, len(bytes.fromhex(data)))


def test_descriptors_may_be_names_or_long_numbers() -> None:
    name = b"\0\xa3\x0damqp:end:list\x45"
    assert read_body(name) == (End(), len(name))
    assert read_body(b"\0\x80\0\0\0\0\0\0\0\x17\x45") == (End(), 11)


DAMAGED = [
    ("", "ends within"),
    ("40", "a NoneType as body"),
    ("00532445", "a Accepted as body"),
    ("00531045", "open has no field container_id"),
    (listed(0x10, ZERO), "the field container_id of open is a UInt, not a string"),
    (listed(0x16, TRUE), "the field handle of detach is a bool, not a uint"),
    (listed(0x17, NULL, NULL), "end has 2 fields"),
    (listed(0x18, "00532445"), "the field error of close is a Accepted"),
    ("005314c0", "ends within"),
    ("005314c00706 43", "ends within"),
    ("005315c0030141", "ends within"),
    (listed(0x15, TRUE), "disposition has no field first"),
    (listed(0x15, NULL, ZERO, NULL, TRUE), "disposition has no field role"),
    (listed(0x14, ZERO, ZERO, "a000", ZERO, "5201"), "the field settled of transfer is a UInt"),
    ("005310c00501a1016340", "not that of its elements"),
    (listed(0x40, "e003015401"), "values that are not symbols"),
]


@pytest.mark.parametrize(("data", "reason"), DAMAGED)
def test_damage_is_refused(data: str, reason: str) -> None:
    with pytest.raises(RemoteProtocolError, match=reason) as error:
        read_body(bytes.fromhex(data))
    assert error.value.position is not None


@pytest.mark.parametrize("size", range(20))
def test_a_part_of_a_usual_form_is_refused(size: int) -> None:
    for body in (Transfer(0, 1, b"\0", 0, True), Disposition(True, 1, 3, True, ACCEPTED)):
        data = bytes(write_body(body))[:size]
        with pytest.raises(RemoteProtocolError):
            read_body(data)


@pytest.mark.parametrize(
    "body",
    [Transfer(-1, 0, b""), Transfer(0, 2**32, b""), Transfer(0, 1, b"x" * 300), Detach(2**32),
     Disposition(True, -1, state=ACCEPTED), Close(Error("\u00fc"))],
    ids=repr,
)  # fmt: skip
def test_values_out_of_range_are_not_written(body: Performative) -> None:
    with pytest.raises(LocalProtocolError):
        write_body(body)


def test_a_mandatory_field_is_not_none() -> None:
    with pytest.raises((LocalProtocolError, TypeError)):  # compiled, the class refuses it
        write_body(Open(None))  # type: ignore[arg-type]


def test_secrets_are_not_shown() -> None:
    shown = repr([SaslInit("PLAIN", b"\0user\0secret"), SaslResponse(b"secret")])
    assert "secret" not in shown


def test_a_disposition_that_ends_before_its_state() -> None:
    frame = bytes.fromhex("005315c0" + "03" + "04" + TRUE + ZERO + NULL + TRUE)
    with pytest.raises(RemoteProtocolError):
        read_body(frame)
