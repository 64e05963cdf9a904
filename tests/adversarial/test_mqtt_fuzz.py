"""Random input for MQTT: to the codec, and over sockets."""

from __future__ import annotations

import logging

import pytest

from tests.kit.mqtt import codec_fuzz, socket_fuzz

SMALL, MANY, MILLION = 3000, 200_000, 1_000_000


async def test_packets_over_sockets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    await socket_fuzz.run(SMALL)
    assert [record.getMessage() for record in caplog.records] == []


def test_packets_for_the_codec() -> None:
    assert codec_fuzz.run(SMALL)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_million_inputs_for_the_codec() -> None:
    assert codec_fuzz.run(MILLION)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_many_packets_over_sockets(caplog: pytest.LogCaptureFixture) -> None:
    """200,000 packets take 46 s of an idle processor (4000 a second), so a fifth of it is enough
    to end in 5 minutes.
    """
    caplog.set_level(logging.ERROR)  # each record would keep its connection
    await socket_fuzz.run(MANY)
    assert [record.getMessage() for record in caplog.records] == []
