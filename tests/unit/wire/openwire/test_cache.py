from __future__ import annotations

import pytest

from pyjms.errors import RemoteProtocolError
from pyjms.wire.openwire.cache import NOT_STORED, ReadCache, WriteCache
from pyjms.wire.openwire.commands import BrokerId, ConnectionId


def fill(cache: WriteCache, *names: str) -> list[int]:
    return [cache.add(ConnectionId(name)) for name in names]


def test_indexes_count_up_and_are_found_again() -> None:
    cache = WriteCache(1024)
    assert fill(cache, "a", "b") == [0, 1]
    assert cache.find(ConnectionId("b")) == 1
    assert cache.find(ConnectionId("c")) == NOT_STORED


def test_null_takes_a_slot() -> None:
    cache = WriteCache(1024)
    assert cache.find(None) == NOT_STORED
    assert cache.add(None) == 0
    assert cache.find(None) == 0


def test_types_are_distinguished() -> None:
    cache = WriteCache(1024)
    fill(cache, "a")
    assert cache.find(BrokerId("a")) == NOT_STORED


def test_a_reused_slot_loses_its_previous_value() -> None:
    cache = WriteCache(4)
    assert fill(cache, "a", "b", "c", "d", "e") == [0, 1, 2, 3, 0]
    assert cache.find(ConnectionId("a")) == NOT_STORED
    assert cache.find(ConnectionId("e")) == 0


def test_before_a_frame_the_oldest_go_until_100_slots_are_free() -> None:
    cache = WriteCache(110)
    fill(cache, *(str(n) for n in range(12)))
    cache.begin_frame()
    assert [cache.find(ConnectionId(str(n))) for n in range(4)] == [NOT_STORED, NOT_STORED, 2, 3]


def test_a_frame_that_is_not_sent_is_forgotten() -> None:
    cache = WriteCache(1024)
    fill(cache, "a")
    cache.begin_frame()
    fill(cache, "b")
    cache.undo_frame()
    assert cache.find(ConnectionId("a")) == 0
    assert cache.find(ConnectionId("b")) == NOT_STORED


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_cache_too_small_for_a_value_within_a_value_stores_nothing(size: int) -> None:
    cache = WriteCache(size)
    assert fill(cache, "a") == [NOT_STORED]
    assert cache.find(ConnectionId("a")) == NOT_STORED


@pytest.mark.fact("openwire-encoding 6/CacheSize")
def test_size_0_means_16383() -> None:
    cache = ReadCache(0)
    cache.put(16382, None)
    assert cache.get(16382) is None
    with pytest.raises(RemoteProtocolError, match="16383"):
        cache.put(16383, None)
    writer = WriteCache(0)
    assert fill(writer, *(str(n) for n in range(16384)))[-2:] == [16382, 0]


def test_reading_refuses_indexes_that_were_never_filled() -> None:
    cache = ReadCache(10)
    cache.put(NOT_STORED, ConnectionId("a"))
    with pytest.raises(RemoteProtocolError, match="never filled"):
        cache.get(0)
