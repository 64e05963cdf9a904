"""Records whose bytes or values have been changed: each is applied, or is damage."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyjms.jms.destination import Queue, Topic
from pyjms.wire.kahadb.codec import encode_command, encode_varint, read_varint
from pyjms.wire.kahadb.commands import (
    DestinationType,
    KahaAddMessageCommand,
    KahaCommitCommand,
    KahaDestination,
    KahaPrepareCommand,
    KahaRemoveMessageCommand,
    KahaSubscriptionCommand,
    KahaUpdateMessageCommand,
)
from pyjms.wire.kahadb.frames import encode_message, encode_subscription, to_transaction_info
from pyjms.wire.kahadb.journal import Location
from pyjms.wire.openwire.commands import (
    ActiveMQMapMessage,
    BrokerId,
    ConsumerId,
    MessageId,
    ProducerId,
    SubscriptionInfo,
    XATransactionId,
)
from pyjms.wire.openwire.primitives import encode_map
from pyjms_broker.store.damage import is_damage
from pyjms_broker.store.kahadb.index import StoreIndex
from pyjms_broker.store.kahadb.records import (
    ARRIVALS,
    AUDIT,
    DUPLICATES,
    TRANSACTION,
    RecordFormat,
    trace_record,
)
from pyjms_broker.store.kahadb.recovery import Replay
from tests.kit.properties import examples

QUEUE = KahaDestination(DestinationType.QUEUE, "Q")
TOPIC = KahaDestination(DestinationType.TOPIC, "T")
PRODUCER = ProducerId("ID:p", 1, 1)
XID = XATransactionId(1, b"global", b"branch")
INFO = to_transaction_info(XID)
MESSAGE = ActiveMQMapMessage(
    producer_id=PRODUCER,
    destination=Queue("Q"),
    message_id=MessageId(None, PRODUCER, 1, 1),
    transaction_id=XID,
    original_destination=Topic("O"),
    reply_to=Queue("R"),
    broker_path=[BrokerId("b")],
    target_consumer_id=ConsumerId("c", 1, 2),
    content=encode_map({"a": 1}),
    marshalled_properties=encode_map({"x": "y", "_AMQ_DUPL_ID": "d"}),
)
ADDS = [
    KahaAddMessageCommand(where, "ID:p:1:1:1", encode_message(MESSAGE, version), 4, True, info)
    for where, version, info in ((QUEUE, 12, None), (TOPIC, 6, None), (QUEUE, 12, INFO))
]
SUBSCRIPTION = SubscriptionInfo(client_id="c", subscription_name="s", destination=Topic("T"))
RECORDS = [
    *map(encode_command, ADDS),
    encode_command(KahaUpdateMessageCommand(ADDS[0])),
    encode_command(KahaRemoveMessageCommand(TOPIC, "ID:p:1:1:1", subscription_key="c:s")),
    encode_command(KahaPrepareCommand(INFO)),
    encode_command(KahaCommitCommand(INFO)),
    encode_command(
        KahaSubscriptionCommand(TOPIC, "c:s", False, encode_subscription(SUBSCRIPTION, "owner"))
    ),
]
TRACES: dict[str, Any] = {
    ARRIVALS: {"0:Q": [5, 6], "1:T": [1, 2]},
    AUDIT: {"last": 5, "producers": {"ID:p:1:1": 6}, "openwire": 12},
    DUPLICATES: {"0:Q": ["a", "b"], "1:T": []},
    TRANSACTION: [str(XID), [[1, 5]], {"0:Q": [[1, 2]]}],
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["", "0:Q", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=4,
)


@st.composite
def changed_bytes(draw: st.DrawFn) -> bytes:
    """A record with other bytes in some places; its own size is right."""
    record = draw(st.sampled_from(RECORDS))
    start = read_varint(record, 1, len(record))[1]
    body = bytearray(record[start:])
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body) - 1))
        body[at : at + draw(st.integers(0, 2))] = draw(st.binary(max_size=2))
    return record[:1] + encode_varint(len(body)) + bytes(body)


@st.composite
def changed_values(draw: st.DrawFn) -> bytes:
    """A trace record, one value of which has been replaced."""
    kind = draw(st.sampled_from(sorted(TRACES)))
    value = [json.loads(json.dumps(TRACES[kind]))]
    inner, key = value, 0
    while isinstance(inner[key], (dict, list)) and inner[key] and draw(st.booleans()):
        inner = inner[key]
        key = draw(st.sampled_from(sorted(inner) if isinstance(inner, dict) else range(len(inner))))
    inner[key] = draw(JSON)
    return trace_record(kind, value[0])


@pytest.mark.parametrize("changed", [changed_bytes(), changed_values()], ids=["bytes", "values"])
def test_a_changed_record_is_applied_or_damage(
    tmp_path: Path, changed: st.SearchStrategy[bytes]
) -> None:
    index = StoreIndex(tmp_path / "index")
    index.open()
    replay = Replay(index, RecordFormat(12))
    offsets = itertools.count(1)

    @examples(75)
    @given(changed)
    def check(payload: bytes) -> None:
        try:
            replay.apply(Location(1, next(offsets)), payload)
        except Exception as error:
            assert is_damage(error)  # noqa: PT017 - others are defects
        for record in RECORDS:
            replay.apply(Location(1, next(offsets)), record)

    check()
    index.close()
