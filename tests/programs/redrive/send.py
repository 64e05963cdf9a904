import sys
from pathlib import Path

from pyjms import CachingConnectionFactory, ConnectionFactory, JmsTemplate, Queue

factory = CachingConnectionFactory(ConnectionFactory(sys.argv[1]))
template = JmsTemplate(factory)
for n in (1, 2, 3):
    template.convert_and_send("pages", {"n": n})
factory.destroy()

with ConnectionFactory(sys.argv[1]).create_connection() as connection:
    connection.start()
    session = connection.create_session(transacted=True)
    consumer = session.create_consumer(Queue("ActiveMQ.DLQ"))
    producer = session.create_producer(Queue("pages"))
    message = consumer.receive(timeout=10.0)
    failure = (message.properties["pyjms_failure_type"], message.properties["pyjms_failure_text"])
    assert failure == ("ConnectionError", "no printer"), failure
    Path("repaired").touch()
    producer.send(message)
    session.commit()
