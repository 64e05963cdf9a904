"""Random input for AMQP: to the codec and the engine, and over sockets."""

from __future__ import annotations

import logging

import pytest

from tests.kit.amqp import codec_fuzz, socket_fuzz

SMALL, MANY, MILLION = 3000, 200_000, 1_000_000


async def test_frames_over_sockets() -> None:
    await socket_fuzz.run(SMALL)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_million_inputs_for_the_codec_and_the_engine() -> None:
    assert codec_fuzz.run(MILLION)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_many_frames_over_sockets(caplog: pytest.LogCaptureFixture) -> None:
    """200,000 frames take 70 s of an idle processor."""
    caplog.set_level(logging.ERROR, "pyjms_broker")  # each record would keep its connection
    await socket_fuzz.run(MANY)
