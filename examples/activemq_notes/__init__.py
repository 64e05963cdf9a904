"""The application of notes on ActiveMQ: a producer, and listeners of a queue and a virtual topic."""
