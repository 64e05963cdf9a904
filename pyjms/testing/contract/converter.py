"""The contract of message converters, as tests: round trip, targets, errors, no side effects.

A converter registered under the entry point `pyjms.converters` should pass them. Subclass
`MessageConverterContract` and define its fixture `samples`; for an example, see docs/extending.md.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import pytest

from pyjms.client.factory import ConnectionFactory
from pyjms.errors import MessageConversionException
from pyjms.jms.api import Session
from pyjms.jms.message import BytesMessage, Message, TextMessage
from pyjms.support.converter import MessageConverter

__all__ = ["ConverterSamples", "MessageConverterContract"]


class _Absent:
    def __repr__(self) -> str:
        return "<not given>"


_ABSENT: Final = _Absent()


@dataclass(frozen=True)
class ConverterSamples:
    """The converter under test, and payloads for it.

    Attributes:
        converter: the converter.
        payloads: payloads, each with the target type for reading it; None: no target type.
        unsupported: a payload that the converter must reject; not given: it rejects none.
        damaged: the body of a message that the converter must reject for the first target: text
            for a TextMessage, bytes for a BytesMessage; not given: it reads every body.
    """

    converter: MessageConverter
    payloads: list[tuple[object, Any]]
    unsupported: object = _ABSENT
    damaged: object = _ABSENT


@pytest.mark.anyio
class MessageConverterContract:
    """The tests. They need no broker."""

    @pytest.fixture
    def samples(self) -> ConverterSamples:
        """The converter under test, and payloads for it."""
        raise NotImplementedError("define the fixture 'samples'")

    @pytest.fixture
    async def session(self) -> AsyncIterator[Session]:
        """A session whose broker accepts everything."""
        factory = ConnectionFactory("mock://converter-contract", watch_topic_advisories=False)
        async with await factory.create_connection() as connection:
            yield await connection.create_session()

    def test_it_has_the_methods_of_a_converter(self, samples: ConverterSamples) -> None:
        assert isinstance(samples.converter, MessageConverter)
        assert samples.payloads, "the contract needs payloads"

    async def test_a_payload_is_read_as_it_was_written(
        self, samples: ConverterSamples, session: Session
    ) -> None:
        for payload, target in samples.payloads:
            message = samples.converter.to_message(payload, session)
            assert isinstance(message, Message)
            assert samples.converter.from_message(message, target) == payload

    async def test_writing_leaves_headers_to_the_sender(
        self, samples: ConverterSamples, session: Session
    ) -> None:
        for payload, _ in samples.payloads:
            message = samples.converter.to_message(payload, session)
            assert message.destination is None
            assert message.message_id is None
            assert message.reply_to is None

    async def test_reading_twice_gives_the_same_and_changes_nothing(
        self, samples: ConverterSamples, session: Session
    ) -> None:
        for payload, target in samples.payloads:
            message = samples.converter.to_message(payload, session)
            before = dict(message.properties)
            first = samples.converter.from_message(message, target)
            assert samples.converter.from_message(message, target) == first
            assert dict(message.properties) == before

    async def test_an_unsupported_payload_is_refused(
        self, samples: ConverterSamples, session: Session
    ) -> None:
        if samples.unsupported is not _ABSENT:
            with pytest.raises(MessageConversionException):
                samples.converter.to_message(samples.unsupported, session)

    async def test_a_damaged_body_is_refused(
        self, samples: ConverterSamples, session: Session
    ) -> None:
        if samples.damaged is _ABSENT:
            return
        payload, target = samples.payloads[0]
        message = samples.converter.to_message(payload, session)
        if isinstance(message, TextMessage):
            assert isinstance(samples.damaged, str)
            message.text = samples.damaged
        else:
            assert isinstance(message, BytesMessage)
            assert isinstance(samples.damaged, bytes)
            message.clear_body()
            message.write_bytes(samples.damaged)
        with pytest.raises(MessageConversionException):
            samples.converter.from_message(message, target)
