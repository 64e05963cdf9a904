"""Between a container and a handler: arguments in, answer out, failures named.

An `async def` handler is awaited on the loop; a `def` handler runs, arguments and all, in
the consumer's own thread. Answers are sent on the loop. Whatever goes wrong is a
ListenerExecutionFailedException, so that a JMSException raised by a handler is never taken
for a broken connection. A result that can be awaited is awaited first, where Spring hands
futures to the converter. (Spring 1.7.6, 6.1.8, 6.2.8)
"""

from __future__ import annotations

import inspect

from pyjms.errors import ListenerExecutionFailedException
from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.listener.handler.arguments import CallPlan
from pyjms.listener.handler.reply import ReplySender
from pyjms.listener.workers import call_in_worker

__all__ = ["HandlerAdapter"]


class HandlerAdapter:
    """A listener, `async (message, session)`, that calls the handler of a plan.

    Spring: MessagingMessageListenerAdapter.
    """

    def __init__(self, plan: CallPlan, replies: ReplySender, listener_id: str) -> None:
        self._plan = plan
        self._replies = replies
        self.listener_id = listener_id

    async def __call__(self, message: Message, session: Session) -> None:
        """Handle one message.

        Raises:
            ListenerExecutionFailedException: the handler raised (its cause), or could not be
                called with this message, or its answer could not be sent.

        """
        plan = self._plan
        try:
            if plan.is_coroutine:
                result = await plan.call(message, session)
            else:
                result = await call_in_worker(plan.call, message, session)
                if inspect.isawaitable(result):
                    result = await result
            if result is not None:
                await self._replies.send(result, message, session)
        except ListenerExecutionFailedException as error:
            error.listener_id = self.listener_id
            raise
        except Exception as error:
            raise ListenerExecutionFailedException(
                f"Listener method '{plan.name}' threw exception",
                message=message,
                listener_id=self.listener_id,
            ) from error
