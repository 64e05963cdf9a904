"""Writes what Spring Boot's JmsTemplate with a MappingJackson2MessageConverter writes."""

import sys

from pyjms import ConnectionFactory, Queue

with ConnectionFactory(sys.argv[1]).create_connection() as connection:
    connection.start()
    session = connection.create_session()
    for queue, class_name in (
        ("spring.orders", "com.acme.Order"),
        ("spring.any", "com.acme.Order"),
        ("spring.any", "com.acme.Unknown"),
    ):
        message = session.create_text_message('{"id":7,"amount":9.5}')
        message.properties["_type"] = class_name
        session.create_producer(Queue(queue)).send(message)
    answer = session.create_consumer(Queue("spring.answers")).receive(timeout=20.0)
    assert (answer.text, answer.properties["_type"]) == (
        '{"id":7,"amount":9.5}',
        "com.acme.Order",
    )
