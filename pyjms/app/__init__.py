"""The application: its container, its wiring and its life cycle.

`JmsApplication` is imported when it is first used.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

if TYPE_CHECKING:
    from pyjms.app.application import JmsApplication as JmsApplication

__getattr__, __dir__ = lazily(globals())
