"""Tools of the tests of AMQP 1.0."""
