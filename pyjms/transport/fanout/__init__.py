"""`fanout:`: one client connected to several brokers at the same time. (activemq-edges U6)

factory      URL to transport
transport    FanoutTransport: which broker gets which command, and when a request is done
discovering  DiscoveringFanout: the same for brokers that an agent finds
requests     the requests to several brokers
branch       the connection to one broker, which reconnects by itself
"""

from pyjms.transport.fanout.discovering import DiscoveringFanout
from pyjms.transport.fanout.factory import fanout_transport
from pyjms.transport.fanout.transport import FanoutTransport

__all__ = ["DiscoveringFanout", "FanoutTransport", "fanout_transport"]
