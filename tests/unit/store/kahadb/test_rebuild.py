"""The journal is the only truth: whatever went, the same comes back from it."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("seed", range(6))
async def test_an_index_built_anew_says_the_same(home: Any, driver: Any, seed: int) -> None:
    await home.open()
    drive = driver(home, seed)
    gone: set[int] = set()
    for _ in range(6):
        for _ in range(120):
            await drive.step()
        before = set(home.adapter.journal.segments())
        await home.adapter.checkpoint()
        gone |= before - set(home.adapter.journal.segments())
        for _ in range(drive.random.randrange(30)):
            await drive.step()
        expected = None
        for reopen in (home.reopen, home.rebuild, home.rebuild, home.reopen):
            await reopen()
            if expected is None:  # what was not prepared is rolled back by the first one
                drive.forget_open()
            state = home.state()
            assert expected is None or state == expected
            expected = state
    assert gone


@pytest.mark.parametrize("seed", range(3))
async def test_a_restart_says_the_same_as_before_it(home: Any, driver: Any, seed: int) -> None:
    await home.open()
    drive = driver(home, 100 + seed)
    for _ in range(4):
        for _ in range(100):
            await drive.step()
        for xid in list(drive.open):
            if xid not in drive.prepared:
                _, removed = drive.open.pop(xid)
                await home.done(home.adapter.transaction_store().rollback(xid))
                for reference in removed:
                    drive.live[reference.message.destination].append(reference)
        state = home.state()
        recovered = state.pop("recovered")
        for reopen in (home.reopen, home.rebuild):
            await reopen()
            after = home.state()
            assert len(after.pop("recovered")) >= len(recovered)
            assert after == state
        drive.forget_open()
