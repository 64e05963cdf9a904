"""A session with a listener delivers to that listener only: `receive` is refused."""

from __future__ import annotations

from pyjms import ConnectionFactory, IllegalStateException


def main() -> None:
    factory = ConnectionFactory("vm://listener?broker.persistent=false")
    with factory.create_connection() as connection, connection.create_session() as session:
        connection.start()
        session.set_message_listener(print)
        consumer = session.create_consumer(session.create_queue("foo.bar"))
        try:
            consumer.receive(timeout=1)
        except IllegalStateException as error:
            print(f"IllegalStateException: {error}")


if __name__ == "__main__":
    main()
