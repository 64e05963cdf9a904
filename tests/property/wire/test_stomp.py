"""The STOMP codec against generated frames, any portions, and noise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.wire.stomp import Frame, StompFormat, can_be_header
from tests.kit.stomp.codec_fuzz import run

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
COMMANDS = st.sampled_from(["SEND", "MESSAGE", "ERROR"])


def plain(*texts: str) -> bool:
    """Whether 1.0, where escapes are read but not written, brings these back as they are."""
    return all(text == text.strip() and "\\" not in text for text in texts)


def headers(version: str) -> st.SearchStrategy[dict[str, str]]:
    """Headers that the version can express and that come back as they were."""

    def comes_back(values: dict[str, str]) -> bool:
        return all(
            can_be_header(name, value, version)
            and name != "content-length"
            and (version != "1.0" or plain(name, value))
            for name, value in values.items()
        )

    return st.dictionaries(TEXT, TEXT, max_size=5).filter(comes_back)


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
@given(data=st.data())
def test_frames_come_back(version: str, data: st.DataObject) -> None:
    frames = []
    buffer = bytearray()
    for _ in range(data.draw(st.integers(0, 4))):
        body = data.draw(st.binary(max_size=50))
        frame = Frame(data.draw(COMMANDS), data.draw(headers(version)), body)
        if data.draw(st.booleans()) or b"\0" in body:
            frame.headers["content-length"] = str(len(body))
        StompFormat(version=version).encode_into(buffer, frame)
        frames.append(frame)
    codec = StompFormat(version=version)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(buffer)), max_size=6)))
    portions = [bytes(buffer[a:b]) for a, b in zip([0, *cuts], [*cuts, len(buffer)], strict=True)]
    assert [f for portion in portions for f in codec.receive_data(portion)] == frames


@given(st.binary(max_size=300), st.integers(1, 50))
def test_portions_make_no_difference(data: bytes, size: int) -> None:
    codec = StompFormat(version="1.2")
    whole = StompFormat(version="1.2").receive_data(data)
    portions = [data[at : at + size] for at in range(0, len(data), size)]
    assert [f for portion in portions for f in codec.receive_data(portion)] == whole


def test_random_input_breaks_nothing() -> None:
    assert run(5000) > 1000
