"""A session with a listener, apart from the containers: may its consumers receive as well?

No. The session delivers to its listener only, and `receive` is refused.
"""

from __future__ import annotations

from pyjms import AcknowledgeMode, IllegalStateException, Message, on_startup
from pyjms.aio import ConnectionFactory

__all__ = ["SessionListener"]

DESTINATION = "foo.bar"


class SessionListener:
    def __init__(self, factory: ConnectionFactory, user: str, password: str) -> None:
        self.factory = factory
        self.user = user
        self.password = password

    @on_startup
    async def receive_in_a_loop(self) -> None:
        async with await self.factory.create_connection(self.user, self.password) as connection:
            await connection.start()
            session = await connection.create_session(AcknowledgeMode.TRANSACTED)
            await session.set_message_listener(ignore)
            consumer = await session.create_consumer(session.create_queue(DESTINATION))
            try:
                while (message := await consumer.receive()) is not None:
                    print(message)
            except IllegalStateException as error:
                print(f"session listener: {error}", flush=True)


def ignore(message: Message) -> None:
    """Do nothing: the listener of the notes is empty."""
