"""The receiving side: consumers, their prefetch buffers, acknowledgement and redelivery.

    transport -> connection -> consumer.dispatch() -> [duplicate audit] -> prefetch buffer
        prefetch buffer -> next_dispatch() -> receive()                    -> application
                                           -> dispatcher -> deliver_one()  -> listener

Arrival. `dispatch` runs on the loop while a socket is read, and must not wait. It checks for a
duplicate, appends to the buffer and wakes a waiting `receive` or the session's dispatcher.

Delivery. Only `next_dispatch` takes messages from the buffer. It skips expired messages (EXPIRED
ack) and those that were redelivered too often (POISON ack), so both rules apply to `receive` and
listener alike. The ledger (`ack_ledger`) then decides when the message is acknowledged, and
`redelivery` what happens after a rollback.

Invariants:
- A buffered message is received without a wait, a cancel scope or a task switch, except that
  every 256th call lets other tasks run.
- Cancelling `receive` loses nothing: there is no await between removing a message from the buffer
  and returning it.
- Messages are delivered only while the session is started and the consumer neither paused by a
  redelivery nor closed. The consumer has one flag for that, updated when one of the three changes,
  because it is read for every message.

Life cycle of a consumer:

    state       entered by                    receive()                 arriving messages
    ----------  ----------------------------  ------------------------  -----------------
    open        creation                      waits                     are buffered
    closed      close()                       returns None or raises    are dropped
    disposed    session closed or failed      returns None, or raises   are dropped
                                              the failure

A closed consumer whose messages are not settled stays with its session, unknown to the
application, until they are: commit and acknowledge still cover them. (activemq-broker X7)
"""

from __future__ import annotations

from pyjms.client.delivery.browser import ActiveMQQueueBrowser
from pyjms.client.delivery.consumer import ActiveMQMessageConsumer

__all__ = ["ActiveMQMessageConsumer", "ActiveMQQueueBrowser"]
