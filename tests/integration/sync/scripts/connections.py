"""The JMS API by hand: connection, sessions, producer, consumer, browser, local transaction."""

import sys

import pyjms

factory = pyjms.ConnectionFactory(sys.argv[1])
with factory.create_connection() as connection:
    connection.start()
    with connection.create_session() as session:
        queue = session.create_queue("scripts.connections")
        producer = session.create_producer(queue)
        producer.priority = 5
        for text in ("a", "b"):
            producer.send(session.create_text_message(text))
        with session.create_browser(queue) as browser:
            assert [message.text for message in browser] == ["a", "b"]
        consumer = session.create_consumer(queue)
        first = consumer.receive(10)
        assert (first.text, first.priority) == ("a", 5)
        assert consumer.receive(10).text == "b"
        assert consumer.receive_no_wait() is None
        consumer.close()
    with connection.create_session(transacted=True) as session:
        producer = session.create_producer(queue)
        producer.send(session.create_text_message("undone"))
        session.rollback()
        producer.send(session.create_text_message("done"))
        session.commit()
        assert session.create_consumer(queue).receive(10).text == "done"
        session.commit()
print("done")
