"""The states of a broker.

    state      start() leads to                  stop() leads to     entered by
    ---------  --------------------------------  ------------------  -----------------------------
    CREATED    STARTING                          nothing to do       creation
    STARTING   nothing to do                     a cancelled start,  start()
                                                 which is STOPPING
    RUNNING    nothing to do                     STOPPING            a start that has succeeded
    STOPPING   nothing to do                     the end of it       stop(), a start that failed
    STOPPED    STARTING with `restart_allowed`,  nothing to do       the end of STOPPING, whether
               else an error                                         it failed or not
    INHERITED  an error                          nothing to do       a fork, in the child process,
                                                                     of a broker that was started

A stop cancels only a start; STOPPING always ends in STOPPED. A caller of `stop` waits for that end,
even if another caller requested it. (activemq-broker B7, B9)
"""

from __future__ import annotations

from enum import Enum, auto

__all__ = ["BrokerState"]


class BrokerState(Enum):
    """The state of a broker; the module has the transitions."""

    CREATED = auto()
    STARTING = auto()
    RUNNING = auto()
    STOPPING = auto()
    STOPPED = auto()
    INHERITED = auto()

    @property
    def is_in_use(self) -> bool:
        """Whether the broker is starting, running or stopping."""
        return self in (BrokerState.STARTING, BrokerState.RUNNING, BrokerState.STOPPING)
