"""Random input for MQTT: to the codec, and over sockets."""

from __future__ import annotations

import pytest

from tests.kit.mqtt import codec_fuzz, socket_fuzz

SMALL, MANY, MILLION = 3000, 200_000, 1_000_000


async def test_packets_over_sockets() -> None:
    assert await socket_fuzz.run(SMALL) < socket_fuzz.MEMORY


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_million_inputs_for_the_codec() -> None:
    assert codec_fuzz.run(MILLION)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_many_packets_over_sockets() -> None:
    """About 70 s of CPU time, so it ends in 5 minutes on a machine that gives it a quarter."""
    assert await socket_fuzz.run(MANY) < socket_fuzz.MEMORY
