"""Random input for STOMP: to the codec, to the transformations, and over sockets."""

from __future__ import annotations

import logging

import pytest

from tests.kit.stomp import body_fuzz, codec_fuzz, socket_fuzz

SMALL, MILLION = 3000, 1_000_000


def test_bodies() -> None:
    assert body_fuzz.run(SMALL)


async def test_frames_over_sockets(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    await socket_fuzz.run(SMALL)
    assert [record.getMessage() for record in caplog.records] == []


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_million_inputs_for_the_codec() -> None:
    assert codec_fuzz.run(MILLION)


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_million_bodies() -> None:
    assert body_fuzz.run(MILLION)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_million_frames_over_sockets() -> None:
    await socket_fuzz.run(MILLION)
