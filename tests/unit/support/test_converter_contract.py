"""The converters of this project pass the contract that is shipped for others."""

from __future__ import annotations

import datetime as dt

import msgspec
import pydantic
import pytest

from pyjms.support.converter import (
    ContentTypeDelegatingMessageConverter,
    DefaultMessageConverter,
    SimpleMessageConverter,
)
from pyjms.support.json_converter import JsonMessageConverter, MessageType
from pyjms.support.marshalling import MarshallingMessageConverter, MsgspecMarshaller
from pyjms.testing.contract.converter import ConverterSamples, MessageConverterContract


class Trip(pydantic.BaseModel):
    city: str
    day: dt.date


TRIP = Trip(city="Oslo", day=dt.date(2026, 1, 2))


class Flight(msgspec.Struct):
    city: str
    day: dt.date


FLIGHT = Flight("Oslo", dt.date(2026, 1, 2))


class TestMarshallingMessageConverterInJson(MessageConverterContract):
    @pytest.fixture
    def samples(self) -> ConverterSamples:
        converter = MarshallingMessageConverter(MsgspecMarshaller(), target_type=MessageType.TEXT)
        return ConverterSamples(
            converter,
            [(FLIGHT, Flight), ([FLIGHT], list[Flight]), ({"a": [1]}, None)],
            unsupported=object(),
            damaged='{"city": "Oslo"',
        )


class TestMarshallingMessageConverterInMessagePack(MessageConverterContract):
    @pytest.fixture
    def samples(self) -> ConverterSamples:
        return ConverterSamples(
            MarshallingMessageConverter(MsgspecMarshaller("msgpack")),
            [(FLIGHT, Flight), (b"bytes", bytes), ({"a": [1]}, None)],
            unsupported=object(),
            damaged=b"\x82",
        )


class TestSimpleMessageConverter(MessageConverterContract):
    @pytest.fixture
    def samples(self) -> ConverterSamples:
        payloads: list[tuple[object, object]] = [("text", None), ("", str), (b"bytes", None)]
        return ConverterSamples(
            SimpleMessageConverter(), [*payloads, ({"a": 1}, None)], unsupported=42
        )


class TestDefaultMessageConverter(MessageConverterContract):
    @pytest.fixture
    def samples(self) -> ConverterSamples:
        return ConverterSamples(
            DefaultMessageConverter(),
            [(TRIP, Trip), ([TRIP], list[Trip]), (7, int), ("text", str), (b"bytes", bytes)],
            unsupported=None,
            damaged='{"city": "Oslo"',
        )


class TestJsonMessageConverterInBytes(MessageConverterContract):
    @pytest.fixture
    def samples(self) -> ConverterSamples:
        return ConverterSamples(
            JsonMessageConverter(), [(TRIP, Trip)], unsupported=object(), damaged=b"{"
        )


class TestJsonMessageConverterInText(MessageConverterContract):
    @pytest.fixture
    def samples(self) -> ConverterSamples:
        converter = JsonMessageConverter(
            target_type=MessageType.TEXT,
            type_id_property_name="type",
            type_id_mappings={"trip": Trip},
        )
        return ConverterSamples(
            converter, [(TRIP, None), (TRIP, Trip)], unsupported=object(), damaged="{"
        )


class TestContentTypeDelegatingMessageConverter(MessageConverterContract):
    @pytest.fixture
    def samples(self) -> ConverterSamples:
        converter = ContentTypeDelegatingMessageConverter(
            content_type="application/json",
            converters={"application/json": JsonMessageConverter(target_type=MessageType.TEXT)},
        )
        return ConverterSamples(converter, [(TRIP, Trip)], unsupported=object(), damaged="{")
