"""Properties that are declared by their rule."""

from __future__ import annotations

import pytest

from pyjms import DefaultMessageListenerContainer
from pyjms.aio import DefaultMessageListenerContainer as CoreContainer
from pyjms.runtime.forwarding import Checked, Computed


def one_or_more(name: str, value: int) -> int:
    if value < 1:
        raise ValueError(f"{name} is {value}")
    return value


class Pool:
    def __init__(self) -> None:
        self._limit = 1
        self.names = ["a", "b"]

    limit: Checked[int] = Checked(one_or_more, "Its limit.")
    first = Computed[str](lambda pool: pool.names[0], "Its first name.")


def test_a_checked_property_keeps_what_its_check_returns() -> None:
    pool = Pool()
    pool.limit = 3
    assert (pool.limit, Pool().limit) == (3, 1)
    with pytest.raises(ValueError, match="limit is 0"):
        pool.limit = 0
    assert pool.limit == 3


def test_a_computed_property_cannot_be_set() -> None:
    pool = Pool()
    assert pool.first == "a"
    with pytest.raises(AttributeError):
        pool.first = "c"  # type: ignore[assignment]
    pool.names.insert(0, "c")
    assert pool.first == "c"


def test_such_properties_have_docstrings() -> None:
    assert (Pool.limit.__doc__, Pool.first.__doc__) == ("Its limit.", "Its first name.")


@pytest.mark.parametrize("name", ["idle_consumer_limit", "interceptors", "subscription_durable"])
def test_a_blocking_container_describes_its_properties_like_the_coroutine_api(name: str) -> None:
    assert getattr(DefaultMessageListenerContainer, name).__doc__
    assert (
        getattr(DefaultMessageListenerContainer, name).__doc__
        == getattr(CoreContainer, name).__doc__
    )
