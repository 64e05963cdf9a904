"""The stubs of the blocking API agree with the classes that they are made from."""

from __future__ import annotations

import pytest

from tests.kit.stubs import PACKAGES, stub, stub_file


@pytest.mark.parametrize("package", PACKAGES)
def test_the_stub_is_current(package: str) -> None:
    current = stub_file(package).read_text(encoding="utf-8")
    assert current == stub(package), "run `python -m tests.kit.stubs`"
