"""The application of notes on ActiveMQ: a producer, listeners of queues, and a virtual topic."""
