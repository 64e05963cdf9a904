"""Attacks of hostile clients, by name. Each runs until it is done or cancelled."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from tests.kit.soak.attacks.commands import COMMANDS
from tests.kit.soak.attacks.floods import FLOODS
from tests.kit.soak.attacks.frames import FRAMES
from tests.kit.soak.attacks.types import Attacker

__all__ = ["ATTACKS"]

ATTACKS: Final[Mapping[str, Callable[[Attacker], Awaitable[None]]]] = {
    **FRAMES,
    **FLOODS,
    **COMMANDS,
}
