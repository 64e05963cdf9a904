"""Random requests for the broker's web site: no crash, no hang, no unexpected answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms_broker.management.errors import ManagementException
from pyjms_broker.web.jolokia import JolokiaRequest, from_json, from_path, split_path
from tests.kit.web.fuzz import KINDS, run


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # uvicorn has no other


@pytest.mark.parametrize("kind", KINDS)
async def test_random_requests(kind: str) -> None:
    found = await run(kind, 500)
    assert sum(found.values()) == 500
    assert len(found) > 1 or kind == "jolokia"


@pytest.mark.nightly
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
async def test_many_random_requests(kind: str) -> None:
    assert sum((await run(kind, 100_000, seed=2)).values()) == 100_000


@given(st.lists(st.text(min_size=1)))
def test_escaped_parts_of_a_path_are_read_again(parts: list[str]) -> None:
    path = "/".join(part.replace("!", "!!").replace("/", "!/") for part in parts)
    assert split_path(path) == parts


def reading(read: Callable[[], JolokiaRequest]) -> str:
    """Return the type of a request, or the reason why it is none."""
    try:
        return str(read().echo()["type"])
    except ManagementException as error:
        return error.reason


@given(st.text())
def test_any_path_is_a_request_or_an_error(path: str) -> None:
    assert reading(lambda: from_path(path, {}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
FIELDS = ["mbean", "attribute", "operation", "arguments", "value", "path", "config"]


@given(
    st.sampled_from(["read", "write", "exec", "list", "search", "version", "x"]),
    st.dictionaries(st.sampled_from(FIELDS), JSON),
)
def test_any_json_is_a_request_or_an_error(kind: str, more: dict[str, object]) -> None:
    assert reading(lambda: from_json({"type": kind, **more}, {}))
