"""The adapter of a handler: it resolves the arguments, sends the reply and wraps failures.

An `async def` handler is awaited on the loop; a `def` handler and the resolution of its arguments
run in the consumer's thread. Replies are sent on the loop. Every failure becomes a
ListenerExecutionFailedException, so that a JMSException raised by a handler is never mistaken for a
lost connection. An awaitable result is awaited first, whereas Spring passes futures to the
converter. (spring-jms 1.7.6, 6.1.8, 6.2.8)
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import Any

from pyjms.core.interceptors import chain_of
from pyjms.core.workers import call_in_worker
from pyjms.errors import ListenerExecutionFailedException, Skip
from pyjms.jms.api import Session
from pyjms.jms.message import Message
from pyjms.listener.handler.arguments import CallPlan
from pyjms.listener.handler.interceptors import HandlerInterceptor, HandlerInvocation
from pyjms.listener.handler.reply import ReplySender

__all__ = ["HandlerAdapter"]


class HandlerAdapter:
    """A listener, `async (message, session)`, that calls the handler of a plan.

    Spring: MessagingMessageListenerAdapter.
    """

    def __init__(
        self,
        plan: CallPlan,
        replies: ReplySender,
        listener_id: str,
        interceptors: Iterable[HandlerInterceptor] = (),
    ) -> None:
        self._plan = plan
        self._replies = replies
        self._chain = chain_of(interceptors)
        self.listener_id = listener_id

    async def __call__(self, message: Message, session: Session) -> None:
        """Handle one message.

        Raises:
            Skip: the handler raised it.
            ListenerExecutionFailedException: the handler or an interceptor raised (its cause), or
                the handler could not be called with this message, or its reply could not be sent.
        """
        try:
            if self._chain is not None:
                await self._chain.around_handler(
                    self._invocation(message, session),
                    lambda: self._call_and_reply(message, session),
                )
            else:
                await self._call_and_reply(message, session)
        except Skip:
            raise
        except ListenerExecutionFailedException as error:
            error.listener_id = self.listener_id
            raise
        except Exception as error:
            raise ListenerExecutionFailedException(
                f"Listener method '{self._plan.name}' threw exception",
                message=message,
                listener_id=self.listener_id,
            ) from error

    def _invocation(self, message: Message, session: Session) -> HandlerInvocation:
        return HandlerInvocation(self._plan.handler, self.listener_id, message, session)

    async def _call_and_reply(self, message: Message, session: Session) -> Any:
        plan = self._plan
        if plan.is_coroutine:
            result = await plan.call(message, session)
        else:
            result = await call_in_worker(plan.call, message, session)
            if inspect.isawaitable(result):
                result = await result
        if result is not None:
            await self._reply(result, message, session)
        return result

    async def _reply(self, result: object, message: Message, session: Session) -> None:
        await self._replies.send(result, message, session)
