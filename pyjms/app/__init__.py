"""The application: its container, its wiring and its life cycle.

`JmsApplication` is imported when it is first used.
"""

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import homes_of, names_of

if TYPE_CHECKING:
    from pyjms.app.application import JmsApplication

__all__ = ["JmsApplication"]

__getattr__, __dir__ = names_of(globals(), homes_of({"pyjms.app.application": "JmsApplication"}))
