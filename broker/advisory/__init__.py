"""Advisory messages: what happens in the broker, told on topics under `ActiveMQ.Advisory.`."""
