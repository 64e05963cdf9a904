"""Message ids as a producer and a number."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyjms_broker.store.kahadb.index.database import NO_SEQUENCE, join_id, split_id


@settings(deadline=None)
@given(st.text(alphabet="ID:-0123456789a²٣", max_size=30))
def test_any_text_comes_back(message_id: str) -> None:
    assert join_id(*split_id(message_id)) == message_id


def test_a_usual_id_is_its_producer_and_its_number() -> None:
    assert split_id("ID:host-1-2-0:1:1:1:42") == ("ID:host-1-2-0:1:1:1", 42)


@pytest.mark.parametrize(
    "foreign", ["x", "42", "a:007", "a:", "a:-1", "a:1" + "0" * 20, "a:²", "a:٣"]
)
def test_other_texts_are_kept_whole(foreign: str) -> None:
    assert split_id(foreign) == (foreign, NO_SEQUENCE)
