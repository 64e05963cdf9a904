"""The 57 data structures of OpenWire, and `TYPES`: code to class."""

from __future__ import annotations

from pyjms.wire.openwire.commands import base, control, ids, messages, resources
from pyjms.wire.openwire.commands.base import *  # noqa: F403
from pyjms.wire.openwire.commands.control import *  # noqa: F403
from pyjms.wire.openwire.commands.ids import *  # noqa: F403
from pyjms.wire.openwire.commands.messages import *  # noqa: F403
from pyjms.wire.openwire.commands.resources import *  # noqa: F403

__all__ = ["TYPES"]
__all__ += base.__all__
__all__ += control.__all__
__all__ += ids.__all__
__all__ += messages.__all__
__all__ += resources.__all__

TYPES: dict[int, type[base.DataStructure]] = {
    value.TYPE: value
    for name, value in tuple(globals().items())
    if name in __all__ and isinstance(value, type) and issubclass(value, base.DataStructure)
    if value.TYPE
}
