"""The detection of blocking calls that other folders' conftests turn on."""

from __future__ import annotations

import time

import pytest
from blockbuster import BlockingError

from tests.kit.runs.blocking import ALLOWED, detected_blocking_calls
from tests.kit.source_tree import ROOT


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def in_package(path: str, code: str) -> None:
    """Run code as if it were in a file of a package."""
    exec(compile(code, str(ROOT / path), "exec"), {"time": time})


async def test_a_blocking_call_on_the_loop_is_an_error() -> None:
    with detected_blocking_calls():
        with pytest.raises(BlockingError, match=r"time\.sleep"):
            in_package("pyjms/client/made_up.py", "time.sleep(0)")
        exec("time.sleep(0)", {"time": time})  # a test's own call


def test_outside_a_loop_it_is_none() -> None:
    with detected_blocking_calls():
        in_package("pyjms/client/made_up.py", "time.sleep(0)")


@pytest.mark.parametrize(("file", "functions"), ALLOWED)
def test_allowed_places_exist(file: str, functions: tuple[str, ...]) -> None:
    if file.startswith("logging"):
        return
    path = ROOT / (f"broker/{file}" if file.startswith("pyjms_broker") else file)
    text = path.read_text(encoding="utf-8")
    assert [name for name in functions if f"def {name}(" not in text] == []
