"""The plain JMS API, blocking: a producer and a consumer on foo.bar."""

from __future__ import annotations

from pyjms import ConnectionFactory, TextMessage


def main() -> None:
    factory = ConnectionFactory("vm://plain?broker.persistent=false")
    with factory.create_connection() as connection, connection.create_session() as session:
        connection.start()
        queue = session.create_queue("foo.bar")
        with session.create_producer(queue) as producer:
            for number in range(1, 6):
                producer.send(session.create_text_message(f"Hello {number}"))
        with session.create_consumer(queue) as consumer:
            while (message := consumer.receive(timeout=0.5)) is not None:
                assert isinstance(message, TextMessage)
                print(f"received {message.text}")


if __name__ == "__main__":
    main()
