"""The stub of the blocking API agrees with the classes that it is made from."""

from __future__ import annotations

from tests.kit.stubs import STUB, stub


def test_the_stub_is_current() -> None:
    assert STUB.read_text(encoding="utf-8") == stub(), "run `python -m tests.kit.stubs`"
