"""The transaction manager: commit, rollback, and a block inside another."""

import sys

import pyjms

factory = pyjms.SingleConnectionFactory(pyjms.ConnectionFactory(sys.argv[1]))
template = pyjms.JmsTemplate(factory, receive_timeout=0)
manager = pyjms.JmsTransactionManager(factory)

with manager.transaction():
    template.convert_and_send("scripts.transactions", "kept")
    assert template.browse("scripts.transactions", lambda _s, browser: list(browser)) == []
try:
    with manager.transaction():
        template.convert_and_send("scripts.transactions", "lost")
        raise ValueError("undo")
except ValueError as error:
    assert str(error) == "undo"
with manager.transaction() as outer:
    template.convert_and_send("scripts.transactions", "outer")
    with manager.transaction(propagation=pyjms.Propagation.REQUIRES_NEW) as inner:
        inner.set_rollback_only()
        template.convert_and_send("scripts.transactions", "inner")
    assert not outer.rollback_only
with manager.transaction(propagation=pyjms.Propagation.SUPPORTS) as none:
    assert not none.has_transaction

template.receive_timeout = 10
assert template.receive_and_convert("scripts.transactions") == "kept"
assert template.receive_and_convert("scripts.transactions") == "outer"
template.receive_timeout = 0
assert template.receive("scripts.transactions") is None
factory.destroy()
print("done")
