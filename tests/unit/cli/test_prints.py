"""What handlers print under `pyjms run`: whole lines, at once."""

from __future__ import annotations

import io

import pytest

from pyjms.cli.terminal import write_whole_lines


class _Pipe(io.RawIOBase):
    def __init__(self) -> None:
        self.writes: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.writes.append(bytes(data))  # type: ignore[call-overload]
        return len(self.writes[-1])


@pytest.mark.parametrize("is_unbuffered", [False, True])
def test_a_printed_line_is_one_write(monkeypatch: pytest.MonkeyPatch, is_unbuffered: bool) -> None:
    pipe = _Pipe()
    below = pipe if is_unbuffered else io.BufferedWriter(pipe)
    stream = io.TextIOWrapper(below, "utf-8", write_through=is_unbuffered)  # type: ignore[type-var]
    monkeypatch.setattr("sys.stdout", stream)
    write_whole_lines()
    print("order", 1)
    print("order", 2)
    assert pipe.writes == [b"order 1\n", b"order 2\n"]
