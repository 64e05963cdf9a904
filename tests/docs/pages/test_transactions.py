"""The transfer of docs/transactions.md, run as it stands."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pyjms import ConnectionFactory
from pyjms.errors import XAException
from pyjms.sync import XAConnectionFactory
from pyjms.transactions import Xid
from tests.kit.clients.messages import send_texts, take_texts
from tests.kit.recipes import recipe_files

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "transactions.md"
SOURCE, TARGET = (f"vm://transfer-{name}?broker.persistent=false" for name in ("a", "b"))


@pytest.fixture
def transfer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of the documentation."""
    for name, text in recipe_files("XA: one transaction across several brokers", DOCUMENT).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("transfer")
    del sys.modules["transfer"]


def test_the_transfer_moves_messages_and_recovers(transfer: ModuleType, tmp_path: Path) -> None:
    manager = transfer.TransactionManager(tmp_path / "log")
    with (
        ConnectionFactory(SOURCE).create_connection(),  # keeps the embedded broker
        XAConnectionFactory(TARGET).create_xa_connection() as connection,
    ):
        session = connection.create_xa_session()
        send_texts(SOURCE, "work", ["a", "b"])
        xids = []
        for number, text in enumerate(["decided", "undecided", "of another manager"]):
            xids.append(Xid(transfer.FORMAT + number // 2, bytes([number, 1])))
            session.xa_resource.start(xids[-1])
            producer = session.create_producer(session.create_queue("work"))
            producer.send(session.create_text_message(text))
            session.xa_resource.end(xids[-1])
            assert session.xa_resource.prepare(xids[-1]) == 0
        manager.decide(xids[0].global_transaction_id)
        assert transfer.transfer(manager, SOURCE, TARGET, "work") == 2
        assert session.xa_resource.recover() == [xids[2]]
        assert take_texts(TARGET, "work") == ["decided", "a", "b"]
        with pytest.raises(XAException) as caught:
            manager.commit([(session.xa_resource, Xid(transfer.FORMAT, b"never begun"))])
        assert caught.value.xa_error_code == XAException.XAER_RMFAIL


@pytest.mark.parametrize("name", ["orders_and_rows.py", "orders_and_rows_aio.py"])
def test_transactions_of_other_resources(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = recipe_files("Transactions of other resources", DOCUMENT)[name]
    exec(compile(text, name, "exec"), {"__name__": "__main__"})
    assert capsys.readouterr().out == "rolled back\n"
