"""Random input for AMQP: to the codec and the engine."""

from __future__ import annotations

import pytest

from tests.kit.amqp import codec_fuzz

MILLION = 1_000_000


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_a_million_inputs_for_the_codec_and_the_engine() -> None:
    assert codec_fuzz.run(MILLION)
