"""Connection factories that wrap other connection factories, and the JMS transaction manager.

`pyjms.sync` has the same classes for the blocking API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyjms.runtime.forwarding import lazily

# fmt: off
# isort: off
if TYPE_CHECKING:
    from pyjms.connection.delegating import (
        DelegatingConnectionFactory as DelegatingConnectionFactory,
        TransactionAwareConnectionFactoryProxy as TransactionAwareConnectionFactoryProxy,
    )
    from pyjms.connection.server_sessions import SimpleServerSessionPool as SimpleServerSessionPool
# isort: on
# fmt: on

__getattr__, __dir__ = lazily(globals())
