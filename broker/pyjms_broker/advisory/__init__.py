"""Advisory messages: broker events, published on topics under `ActiveMQ.Advisory.`."""
