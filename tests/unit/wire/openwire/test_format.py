from __future__ import annotations

import tracemalloc
from typing import Any

import pytest

from pyjms.errors import LocalProtocolError, RemoteProtocolError
from pyjms.jms.destination import Queue, Topic
from pyjms.wire.format import WireFormat
from pyjms.wire.openwire.commands import (
    ActiveMQMessage,
    ActiveMQTextMessage,
    BrokerId,
    BrokerSubscriptionInfo,
    Command,
    ConnectionId,
    ConnectionInfo,
    ConsumerId,
    ConsumerInfo,
    ExceptionResponse,
    KeepAliveInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
    ProducerInfo,
    RemoveInfo,
    Response,
    SessionId,
    SessionInfo,
    StackTraceElement,
    Throwable,
    WireFormatInfo,
    contents,
)
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.settings import WireFormatSettings

PRODUCER = ProducerId("ID:h-1-2-3:1", 1, 1)
FORMS: list[dict[str, Any]] = [
    {"tight_encoding_enabled": tight, "cache_enabled": cache, "size_prefix_disabled": bare}
    for tight in (False, True)
    for cache in (False, True)
    for bare in (False, True)
]


def pair(**values: Any) -> tuple[OpenWireFormat, OpenWireFormat]:
    """Return a sender and a receiver that have negotiated over bytes."""
    settings = WireFormatSettings(**values)
    sender, receiver = OpenWireFormat(settings), OpenWireFormat(settings)
    hello, answer = sender.encode(sender.local_info()), receiver.encode(receiver.local_info())
    assert len(receiver.receive_data(hello)) == 1
    assert len(sender.receive_data(answer)) == 1
    assert sender.negotiated == receiver.negotiated
    return sender, receiver


def message(**values: Any) -> ActiveMQTextMessage:
    return ActiveMQTextMessage(
        PRODUCER, Queue("a.b"), message_id=MessageId(None, PRODUCER, 1), **values
    )


def frame(body: str) -> bytes:
    data = bytes.fromhex(body)
    return len(data).to_bytes(4, "big") + data


def conversation() -> list[Any]:
    trace = (StackTraceElement("a.B", "c", "B.java", 7), StackTraceElement("a.B", "d", None, -2))
    error = Throwable("javax.jms.JMSException", "no", trace, Throwable("java.io.IOException", None))
    dispatched = message(content=b"\0\0\0\2hi", broker_in_time=5)
    return [
        ConnectionInfo(
            ConnectionId("ID:h-1-2-3:1"), "client", command_id=1, response_required=True
        ),
        SessionInfo(SessionId("ID:h-1-2-3:1", 1), 2),
        ProducerInfo(PRODUCER, Queue("a.b"), command_id=3),
        message(content=b"\0\0\0\2hi", command_id=4),
        ExceptionResponse(4, error),
        MessageDispatch(ConsumerId("ID:h-1-2-3:1", 1, 1), Topic("c"), dispatched, 2),
        RemoveInfo(SessionId("ID:h-1-2-3:1", 1), 17),
        KeepAliveInfo(),
    ]


def test_the_wire_format_info_is_loose_uncached_and_sized() -> None:
    sender = OpenWireFormat(WireFormatSettings(tight_encoding_enabled=True, cache_enabled=True))
    data = sender.encode(WireFormatInfo(version=12))
    assert data.hex() == "0000000e01416374697665" + "4d510000000c00"
    assert sender.negotiated is None


@pytest.mark.parametrize("form", FORMS)
def test_a_conversation_arrives_as_it_was_sent_in_every_form(form: dict[str, bool | int]) -> None:
    sender, receiver = pair(**form)
    data = b"".join(sender.encode(command) for command in conversation())
    assert contents(receiver.receive_data(data)) == contents(conversation())


@pytest.mark.parametrize("form", FORMS)
def test_a_conversation_may_come_byte_by_byte(form: dict[str, bool | int]) -> None:
    sender, receiver = pair(**form)
    data = b"".join(sender.encode(command) for command in conversation())
    received = [c for n in range(len(data)) for c in receiver.receive_data(data[n : n + 1])]
    assert contents(received) == contents(conversation())


@pytest.mark.parametrize("form", FORMS)
def test_keep_alives_go_to_their_own_handler_in_every_form(form: dict[str, bool | int]) -> None:
    sender, receiver = pair(**form)
    handled: list[KeepAliveInfo] = []
    receiver.on_keep_alive = handled.append
    data = b"".join(sender.encode(command) for command in [KeepAliveInfo(1), *conversation()])
    assert contents(receiver.receive_data(data)) == contents(conversation()[:-1])
    assert [keep_alive.command_id for keep_alive in handled] == [1, 0]


@pytest.mark.parametrize("version", range(1, 13))
@pytest.mark.parametrize("tight", [False, True])
def test_every_version_carries_messages(version: int, tight: bool) -> None:
    sender, receiver = pair(version=version, tight_encoding_enabled=tight)
    sent = message(content=b"\0\0\0\2hi", correlation_id="c", reply_to=Queue("r"))
    (received,) = receiver.receive_data(sender.encode(sent))
    assert contents(received) == contents(sent)


def test_it_is_a_wire_format() -> None:
    wire_format: WireFormat[Command] = OpenWireFormat()
    buffer = bytearray()
    wire_format.encode_into(buffer, WireFormatInfo(version=12))
    assert buffer


def test_the_rest_of_the_portion_is_read_as_negotiated() -> None:
    settings = WireFormatSettings(tight_encoding_enabled=True, cache_enabled=True)
    sender, receiver = OpenWireFormat(settings), OpenWireFormat(settings)
    data = sender.encode(sender.local_info())
    sender.negotiate(receiver.local_info())
    data += b"".join(sender.encode(command) for command in conversation())
    info, *commands = receiver.receive_data(data)
    assert isinstance(info, WireFormatInfo)
    assert contents(commands) == contents(conversation())


def test_without_stack_traces_class_and_message_remain() -> None:
    sender, receiver = pair(stack_trace_enabled=False)
    trace = (StackTraceElement("a.B", "c", "B.java", 7),)
    error = Throwable("javax.jms.JMSException", "no", trace, Throwable("x", "y"))
    (received,) = receiver.receive_data(sender.encode(ExceptionResponse(1, error)))
    assert isinstance(received, ExceptionResponse)
    assert received.exception == Throwable("javax.jms.JMSException", "no")


def test_encode_into_appends() -> None:
    sender, receiver = pair()
    buffer = bytearray()
    for command in conversation():
        sender.encode_into(buffer, command)
    assert contents(receiver.receive_data(bytes(buffer))) == contents(conversation())


@pytest.mark.parametrize("form", [*FORMS, {"version": 11}])
def test_long_values_are_left_out_of_shared_frames(form: dict[str, bool | int]) -> None:
    sender, receiver = pair(**form)
    body, properties = bytes(70_000), b"\0\0\0\1\0\1x\t\0\1y" + bytes(65_536)
    sent = MessageDispatch(
        ConsumerId("c", 1, 1),
        Queue("q"),
        message(content=body, marshalled_properties=properties, correlation_id="id"),
        redelivery_counter=3,
    )
    buffer = bytearray()
    sender.encode_into(buffer, sent)
    whole = len(buffer)
    shared = sender.encode_shared(buffer, sent)
    assert [value for _, value in shared] == [body, properties]
    assert all(value is own for (_, value), own in zip(shared, (body, properties), strict=True))
    assert len(buffer) - whole < 500
    for position, value in reversed(shared):
        buffer[position:position] = value
    received = receiver.receive_data(bytes(buffer))
    assert contents(received) == contents([sent, sent])


def test_what_a_message_came_as_is_shared() -> None:
    sender, receiver = pair()
    (received,) = receiver.receive_data(sender.encode(message(content=bytes(70_000))))
    assert isinstance(received, ActiveMQMessage)
    shared = receiver.encode_shared(bytearray(), MessageDispatch(message=received))
    assert [value is received.raw for _, value in shared] == [True]


def dispatches(receiver: OpenWireFormat, sender: OpenWireFormat, *sizes: int) -> list[Command]:
    """Return dispatches of received messages with bodies of these sizes, to two consumers."""
    made: list[Command] = []
    for number, size in enumerate(sizes):
        (received,) = receiver.receive_data(sender.encode(message(content=bytes(size))))
        assert isinstance(received, ActiveMQMessage)
        consumer = ConsumerId("c", 1, number // 2)
        made.append(MessageDispatch(consumer, Queue("q"), received, redelivery_counter=number % 3))
    return made


def test_dispatches_of_a_run_have_the_frames_of_single_ones() -> None:
    sender, receiver = pair()
    run = dispatches(receiver, sender, 10, 0, 200, 1000, 60_000)
    together, singly = bytearray(b"before"), bytearray(b"before")
    assert receiver.encode_run(together, run, 1 << 20) == 5
    for dispatch in run:
        receiver.encode_into(singly, dispatch)
    assert together == singly


@pytest.mark.parametrize(
    "other",
    [
        KeepAliveInfo(),
        MessageDispatch(ConsumerId("c", 1, 1), Queue("q")),
        MessageDispatch(ConsumerId("c", 1, 1), Queue("q"), message()),
    ],
    ids=["no dispatch", "nothing to dispatch", "never received"],
)
def test_a_run_ends_before_what_has_to_be_encoded_by_itself(other: Command) -> None:
    sender, receiver = pair()
    run = dispatches(receiver, sender, 10, 10)
    buffer = bytearray()
    assert receiver.encode_run(buffer, [*run, other, *run], 1 << 20) == 2
    assert contents(sender.receive_data(bytes(buffer))) == contents(run)


def test_a_run_ends_before_a_long_message_and_with_its_limits() -> None:
    sender, receiver = pair(max_frame_size=3000)
    longest = 3000 + 4 - len(sender.encode(message(content=b"")))  # too long with the dispatch
    run = dispatches(receiver, sender, 10, 10, longest, 10)
    buffer = bytearray()
    assert receiver.encode_run(buffer, run, 1 << 20) == 2
    with pytest.raises(LocalProtocolError, match="larger than the 3000 agreed on"):
        receiver.encode(run[2])
    buffer.clear()
    assert receiver.encode_run(buffer, run, 0) == 1
    assert receiver.encode_run(buffer, run, 0) == 0
    sender, receiver = pair()
    assert receiver.encode_run(bytearray(), dispatches(receiver, sender, 10, 70_000), 1 << 20) == 1


def test_only_the_fast_form_has_runs() -> None:
    for form in FORMS:
        sender, receiver = pair(**form)
        assert receiver.encodes_runs == (not any(form.values()))
        if not receiver.encodes_runs:
            assert receiver.encode_run(bytearray(), dispatches(receiver, sender, 10), 100) == 0


@pytest.mark.parametrize("form", FORMS)
def test_a_refused_command_leaves_no_long_value_behind(form: dict[str, bool | int]) -> None:
    sender, receiver = pair(**form)
    buffer = bytearray()
    with pytest.raises(LocalProtocolError):
        sender.encode_shared(buffer, message(content=bytes(70_000), arrival=2**63))
    assert sender.encode_shared(buffer, KeepAliveInfo()) == ()
    assert contents(receiver.receive_data(bytes(buffer))) == contents([KeepAliveInfo()])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "wrong",
    [
        message(correlation_id="x" * 70000),
        message(timestamp=2**63),
        message(priority=200),
        ProducerInfo(PRODUCER, window_size=2**31),
        ProducerInfo(PRODUCER, Queue("x" * 66000)),
        WireFormatInfo(b"short"),
    ],
    ids=lambda c: type(c).__name__,
)
def test_what_cannot_be_written_leaves_everything_as_it_was(
    form: dict[str, bool | int], wrong: Any
) -> None:
    sender, receiver = pair(**form)
    buffer = bytearray(b"before")
    with pytest.raises(LocalProtocolError):
        sender.encode_into(buffer, wrong)
    assert buffer == b"before"
    data = b"".join(sender.encode(command) for command in conversation())
    assert contents(receiver.receive_data(data)) == contents(conversation())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "make",
    [
        lambda: message(timestamp="now"),
        lambda: message(content="text"),
        lambda: message(content=7),
        lambda: message(correlation_id=7),
        lambda: MessageAck(message_count=None),  # type: ignore[arg-type]
        lambda: ProducerInfo(ConsumerId("c", 1, 1)),  # type: ignore[arg-type]
    ],
)
def test_values_of_the_wrong_type_are_refused(form: dict[str, bool | int], make: Any) -> None:
    """Compiled commands refuse them themselves."""
    sender, _ = pair(**form)
    with pytest.raises((LocalProtocolError, TypeError)):
        sender.encode(make())


@pytest.mark.parametrize("cache", [False, True])
def test_a_frame_larger_than_agreed_is_not_sent(cache: bool) -> None:
    sender, receiver = pair(max_frame_size=2000, cache_enabled=cache)
    with pytest.raises(LocalProtocolError, match="agreed") as caught:
        sender.encode(message(content=bytes(3000)))
    assert "maxFrameSize" in caught.value.hint
    (received,) = receiver.receive_data(sender.encode(message(content=bytes(1000))))
    assert contents(received) == contents(message(content=bytes(1000)))


def test_a_larger_frame_is_refused_before_it_is_in() -> None:
    _, receiver = pair(max_frame_size=2000)
    with pytest.raises(RemoteProtocolError, match="2001"):
        receiver.receive_data((2001).to_bytes(4, "big"))


def test_without_a_limit_large_frames_are_read() -> None:
    limits = WireFormatSettings(max_frame_size=2000, max_frame_size_enabled=False)
    receiver = OpenWireFormat(limits)
    receiver.negotiate(WireFormatInfo(version=12))
    sender = OpenWireFormat()
    sender.negotiate(WireFormatInfo(version=12))
    (received,) = receiver.receive_data(sender.encode(message(content=bytes(5000))))
    assert contents(received) == contents(message(content=bytes(5000)))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"PUT / HTTP/1.1\r\n", "65536 bytes are allowed"),
        (b"GET / HTTP/1.1\r\n", "speaks HTTP"),
        (b"\x16\x03\x01\x02\x00", "uses TLS, and this side does not"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "expects TLS"),
        (b"CONNECT\naccept-version:1.2", "speaks STOMP"),
        (b"AMQP\x00\x01\x00\x00", "speaks AMQP"),
        (b"\xff\xff\xff\xff", "frame size -1"),
        (b"\0\0\0\0", "frame size 0"),
        (frame("0a0000000000"), "before WireFormatInfo"),
        (frame("00"), "null"),
        (frame("01" + "00" * 8 + "0000000c00"), "magic"),
        (frame("01" + b"ActiveMQ".hex() + "0000000000"), "version"),
        (frame("01" + b"ActiveMQ".hex() + "0000000c01" + "00000002" + "0000"), "cut short"),
    ],
)
def test_a_peer_that_does_not_begin_with_wire_format_info_is_refused(
    data: Any, reason: str
) -> None:
    with pytest.raises(RemoteProtocolError, match=reason):
        OpenWireFormat().receive_data(data)


@pytest.mark.parametrize(
    ("body", "reason", "position"),
    [
        ("63", "Unknown data type 99", 1),
        ("00", "null", 0),
        ("7c0100017a", "BrokerId, which is not a command", 0),
        ("1e00000000000000000c00", "1 bytes after the end", 10),
        ("1e000000000000", "cut short", 6),
        # ProducerInfo with a session id where a producer id is due
        ("060000000100017901000161" + "00" * 8, "Type 121", 8),
        ("06000000010001" + "7b" + "010003" + "6161", "cut short", 11),
        ("06000000010001" + "7b" + "010002" + "ff61" + "00" * 16, "modified UTF-8", 13),
        # ProducerInfo: an array of -1, of a type that may not be in it
        ("0600000001000000" + "01ffff", "negative", 11),
        ("0600000001000000" + "010001" + "0178010000", "Type 120", 13),
        # MessageDispatch with a Response for a message
        ("150000000000" + "0000" + "011e" + "00" * 9 + "00" * 4, "Type 30", 10),
        # a destination without name, or with damaged options
        ("06000000010000" + "016400", "no name", 10),
        ("06000000010000" + "0164010000", "no name", 12),
        ("06000000010000" + "0164010002" + b"a?".hex(), "Invalid destination", 14),
        # ConnectionError with a trace of -1 and of 32767 elements
        ("100000000000" + "01" + "00" + "00" + "ffff", "negative", 11),
        ("100000000000" + "01" + "00" + "00" + "7fff", "cut short", 11),
        # a message whose content would be 2 GiB
        ("1c00000000000000000000000000" + "00" * 30 + "017fffffff", "cut short", 48),
    ],
)
def test_damaged_frames_are_refused_with_their_position(
    body: Any, reason: str, position: int
) -> None:
    _, receiver = pair()
    with pytest.raises(RemoteProtocolError, match=reason) as caught:
        receiver.receive_data(frame(body))
    assert caught.value.position == position


def test_nothing_is_read_after_an_error() -> None:
    sender, receiver = pair()
    with pytest.raises(RemoteProtocolError) as first:
        receiver.receive_data(frame("63"))
    with pytest.raises(RemoteProtocolError) as second:
        receiver.receive_data(sender.encode(Response(1)))
    assert second.value is first.value


def test_a_second_wire_format_info_is_refused() -> None:
    sender, receiver = pair()
    with pytest.raises(RemoteProtocolError, match="second"):
        receiver.receive_data(sender.encode(sender.local_info()))


def test_causes_cannot_nest_without_end() -> None:
    _, receiver = pair()
    body = "100000000000" + "0100000000" * 100
    with pytest.raises(RemoteProtocolError, match="nest deeper"):
        receiver.receive_data(frame(body))


def test_structures_cannot_nest_without_end() -> None:
    _, receiver = pair()
    with pytest.raises(RemoteProtocolError, match="nest deeper"):
        receiver.receive_data(frame("20" + ("00" * 9 + "0120") * 100))


def test_structures_that_nest_without_end_are_not_written() -> None:
    sender, _ = pair()
    inner = message()
    for _ in range(100):
        outer = message()
        outer.data_structure = inner
        inner = outer
    with pytest.raises(LocalProtocolError, match="nest deeper"):
        sender.encode(inner)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("0c000000000000" + "0005" + "00" * 8, "never filled"),
        ("0c000000000001" + "0400" + "00" + "00" * 8, "outside"),
        ("0c000000000001" + "fffe" + "00" + "00" * 8, "outside"),
        # a connection id is stored, then a consumer id is due
        ("110000000000000000", "cut short"),
    ],
)
def test_wrong_cache_indexes_are_refused(body: str, reason: str) -> None:
    _, receiver = pair(cache_enabled=True)
    with pytest.raises(RemoteProtocolError, match=reason):
        receiver.receive_data(frame(body))


def test_a_cached_value_of_another_type_is_refused() -> None:
    _, receiver = pair(cache_enabled=True)
    remove_connection = "0c0000000000" + "010000" + "01780100016d" + "00" * 8
    receiver.receive_data(frame(remove_connection))
    with pytest.raises(RemoteProtocolError, match="Cached type 120"):
        receiver.receive_data(frame("040000000000" + "000000"))


def test_an_index_of_minus_one_is_not_stored() -> None:
    _, receiver = pair(cache_enabled=True)
    (received,) = receiver.receive_data(
        frame("0c0000000000" + "01ffff" + "01780100016d" + "00" * 8)
    )
    assert contents(received) == contents(RemoveInfo(ConnectionId("m"), 0))
    with pytest.raises(RemoteProtocolError, match="never filled"):
        receiver.receive_data(frame("0c0000000000" + "00ffff" + "00" * 8))


def test_premarshalled_structures_are_refused() -> None:
    _, receiver = pair(tight_encoding_enabled=True)
    # MessageDispatch: no response, no consumer, no destination, a message, premarshalled
    with pytest.raises(RemoteProtocolError, match="Premarshalled"):
        receiver.receive_data(frame("15" + "0118" + "00000000" + "1c"))


def test_too_few_flags_are_refused() -> None:
    _, receiver = pair(tight_encoding_enabled=True)
    with pytest.raises(RemoteProtocolError, match="More flags are read than the 0 sent"):
        receiver.receive_data(frame("1e00" + "00" * 8))


def deep_error(depth: int) -> Throwable:
    error = Throwable("x.Y", "no")
    for _ in range(depth):
        error = Throwable("x.Y", "no", (), error)
    return error


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (ExceptionResponse(1, deep_error(100)), "nest deeper"),
        (ExceptionResponse(1, Throwable("x.Y", "no", (StackTraceElement("a", "b", "c", 1),) * 32768)), "longer than 32767"),
        (RemoveInfo(StackTraceElement("a", "b", "c", 1)), "cannot be written"),  # type: ignore[arg-type]
        (ConnectionInfo(broker_path=[None] * 32768), "Array of 32768 elements"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tight", [False, True])
def test_more_that_cannot_be_written(
    wrong: ExceptionResponse | RemoveInfo | ConnectionInfo, reason: str, tight: bool
) -> None:
    sender, _ = pair(tight_encoding_enabled=tight)
    with pytest.raises(LocalProtocolError, match=reason):
        sender.encode(wrong)


def test_a_tight_string_ends_at_32766_bytes() -> None:
    """The reference writes no longer ones, and reads their count as a signed number."""
    sender, receiver = pair(tight_encoding_enabled=True)
    sent = message(correlation_id="x" * 32766)
    assert contents(receiver.receive_data(sender.encode(sent))) == contents([sent])
    with pytest.raises(LocalProtocolError, match="32767 bytes"):
        sender.encode(message(correlation_id="x" * 32767))


def test_as_many_subscriptions_as_a_bridge_is_told_of_fit_in_a_tight_frame() -> None:
    sender, receiver = pair(tight_encoding_enabled=True)
    topic = Topic("t")
    path: list[BrokerId | None] = [BrokerId("a"), BrokerId("b"), BrokerId("c")]
    infos: list[ConsumerInfo | None] = [
        ConsumerInfo(
            ConsumerId("c", -1, number), destination=topic, subscription_name="s", client_id="c",
            selector="a = 1", broker_path=path, network_consumer_path=[ConsumerId("d", 1, 1)],
        )
        for number in range(5000)
    ]  # fmt: skip
    sent = BrokerSubscriptionInfo(BrokerId("a"), "a", infos)
    assert contents(receiver.receive_data(sender.encode(sent))) == contents([sent])


@pytest.mark.parametrize("flags", [63 * 8, 64 * 8, 255 * 8, 256 * 8, 300 * 8])
def test_a_tight_frame_may_have_thousands_of_flags(flags: int) -> None:
    sender, receiver = pair(tight_encoding_enabled=True)
    sent = ConnectionInfo(broker_path=[None] * flags)
    assert contents(receiver.receive_data(sender.encode(sent))) == contents([sent])


@pytest.mark.parametrize("version", [1, 10])
def test_old_versions_cut_long_error_messages(version: int) -> None:
    sender, receiver = pair(version=version)
    error = Throwable("x.Y", "m" * 1025, (), Throwable("x.Y", "n" * 1024))
    (received,) = receiver.receive_data(sender.encode(ExceptionResponse(1, error)))
    assert isinstance(received, ExceptionResponse)
    assert received.exception == Throwable(
        "x.Y", "m" * 1021 + "...", (), Throwable("x.Y", "n" * 1024)
    )


@pytest.mark.parametrize(
    "body",
    [
        "0600000001000000" + "017fff" + "01",  # 32767 broker ids
        "100000000000" + "01" + "00" + "00" + "7fff",  # a trace of 32767 lines
        "1c" + "00" * 35 + "01" + "7ffffff0",  # a body of 2 GiB
        "02" + "00" * 7 + "017fff" + "0102" + "00" * 7 + "017fff",  # arrays in arrays
    ],
)
def test_counts_alone_allocate_nothing(body: str) -> None:
    _, receiver = pair()
    data = frame(body)
    tracemalloc.start()
    try:
        with pytest.raises(RemoteProtocolError):
            receiver.receive_data(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


def test_commands_before_a_damaged_frame_are_not_lost() -> None:
    sender, receiver = OpenWireFormat(), OpenWireFormat()
    info = sender.local_info()
    hello = sender.encode(info)
    sender.negotiate(info)
    good = sender.encode(KeepAliveInfo())
    with pytest.raises(RemoteProtocolError) as caught:
        receiver.receive_data(hello + good + frame("ff") + good)
    received = caught.value.completed
    assert [type(command) for command in received] == [WireFormatInfo, KeepAliveInfo]
    with pytest.raises(RemoteProtocolError) as again:
        receiver.receive_data(good)
    assert again.value is caught.value
    assert again.value.completed == ()
