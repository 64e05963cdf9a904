"""Microseconds per frame of the OpenWire codec. Run: python benchmarks/codec.py [--json]."""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial

from pyjms.jms.destination import Queue
from pyjms.wire.openwire.commands import (
    ActiveMQTextMessage,
    Command,
    ConsumerId,
    ConsumerInfo,
    MessageAck,
    MessageDispatch,
    MessageId,
    ProducerId,
    Response,
)
from pyjms.wire.openwire.fast_writer import patch_raw
from pyjms.wire.openwire.format import OpenWireFormat
from pyjms.wire.openwire.primitives import decode_map, encode_map, encode_text
from pyjms.wire.openwire.settings import WireFormatSettings

CONNECTION = "ID:host.example.org-50000-1700000000000-4:1"
PRODUCER = ProducerId(CONNECTION, 1, 1)
CONSUMER = ConsumerId(CONNECTION, 1, 1)
QUEUE = Queue("orders.new")
PROPERTIES = encode_map({"customer": "c-1234", "amount": 17, "express": True})
ROUNDS = 7


def text_message() -> ActiveMQTextMessage:
    return ActiveMQTextMessage(
        PRODUCER,
        QUEUE,
        message_id=MessageId(None, PRODUCER, 4711),
        persistent=True,
        priority=4,
        timestamp=1700000000000,
        content=encode_text("x" * 1024),
        command_id=4711,
    )


def request_message() -> ActiveMQTextMessage:
    message = text_message()
    message.correlation_id = "c-4711"
    message.reply_to = Queue("orders.replies")
    message.type = "order"
    message.marshalled_properties = PROPERTIES
    return message


def commands() -> dict[str, Command]:
    message_id = MessageId(None, PRODUCER, 4711, 815)
    return {
        "text message 1 KiB": text_message(),
        "text message 1 KiB, all headers": request_message(),
        "dispatch 1 KiB": MessageDispatch(CONSUMER, QUEUE, text_message()),
        "ack": MessageAck(QUEUE, None, CONSUMER, 2, message_id, message_id, 1, command_id=9),
        "response": Response(4711),
        "consumer info": ConsumerInfo(CONSUMER, destination=QUEUE, prefetch_size=1000),
    }


def pair(settings: WireFormatSettings) -> tuple[OpenWireFormat, OpenWireFormat]:
    writer, reader = OpenWireFormat(settings), OpenWireFormat(settings)
    writer.negotiate(reader.local_info())
    reader.negotiate(writer.local_info())
    return writer, reader


def measure(call: Callable[[], object], number: int) -> float:
    """Return the median microseconds of processor time of one call."""
    times = []
    for _ in range(ROUNDS):
        start = time.process_time()
        for _ in range(number):
            call()
        times.append((time.process_time() - start) / number * 1e6)
    return statistics.median(times)


def codec_rates(name: str, settings: WireFormatSettings, number: int) -> dict[str, float]:
    rates: dict[str, float] = {}
    for what, command in commands().items():
        writer, reader = pair(settings)
        writer.encode(command)
        frame = writer.encode(command)
        warm = pair(settings)[0].encode(command)
        reader.receive_data(warm)
        rates[f"{name}: decode {what}"] = measure(partial(reader.receive_data, frame), number)
        rates[f"{name}: encode {what}"] = measure(partial(writer.encode, command), number)
    return rates


def other_rates(number: int) -> dict[str, float]:
    writer, reader = pair(WireFormatSettings())
    received = reader.receive_data(writer.encode(text_message()))[0]
    assert isinstance(received, ActiveMQTextMessage)
    dispatch = MessageDispatch(CONSUMER, QUEUE, received)
    burst = writer.encode(text_message()) * 50
    return {
        "loose: patch_raw": measure(lambda: patch_raw(received), number),
        "loose: encode dispatch of a received message": measure(
            lambda: writer.encode(dispatch), number
        ),
        "loose: decode text message in a burst of 50": measure(
            lambda: reader.receive_data(burst), number // 50
        )
        / 50,
        "properties: decode 3": measure(lambda: decode_map(PROPERTIES), number),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--number", type=int, default=5000, help="calls a round")
    arguments = parser.parse_args()
    rates = codec_rates("loose", WireFormatSettings(), arguments.number)
    rates |= other_rates(arguments.number)
    rates |= codec_rates(
        "tight, cached",
        WireFormatSettings(tight_encoding_enabled=True, cache_enabled=True),
        arguments.number // 5,
    )
    if arguments.json:
        print(json.dumps({name: round(rate, 3) for name, rate in rates.items()}))
    else:
        for name, rate in rates.items():
            print(f"{rate:8.2f} us  {name}")


if __name__ == "__main__":
    main()
