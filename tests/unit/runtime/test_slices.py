"""Long work lets other tasks run."""

from __future__ import annotations

import anyio

from pyjms.runtime.slices import Slices


async def test_others_run_between_the_slices() -> None:
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        await anyio.lowlevel.checkpoint()
        slices = Slices(items=10)
        for _ in range(100):
            await slices.after_item()
        tasks.cancel_scope.cancel()
    assert turns >= 10
